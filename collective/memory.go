package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Memory is symmetric memory: an allocation of the same size on every rank's
// device, each mapped by every rank.
type Memory struct {
	group  *Group
	name   string
	bytes  uint64
	own    device.Memory
	peers  []device.Memory // imported, by rank; nil at this rank
	mapped []device.Ptr    // by rank
}

// Alloc makes symmetric memory of at least bytes, zeroed. name says what it is
// for, in errors. It is collective.
func (g *Group) Alloc(ctx context.Context, name string, bytes uint64) (*Memory, error) {
	m := &Memory{group: g, name: name, peers: make([]device.Memory, g.Size()), mapped: make([]device.Ptr, g.Size())}
	size, err := g.roundUp(bytes)
	if err := g.node.Vote(ctx, "size "+name, g.at(err)); err != nil {
		return nil, err
	}
	m.bytes = size
	if err := m.share(ctx); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

// roundUp rounds bytes up to what can be allocated and, where the device has
// multicast, bound to a multicast object.
func (g *Group) roundUp(bytes uint64) (uint64, error) {
	unit, err := g.dev.Granularity()
	if err != nil {
		return 0, err
	}
	// Ranks that share a GPU have no multicast object.
	if g.infos[g.Rank()].Multicast && !g.SharesGPU() {
		_, recommended, err := g.dev.MulticastGranularity(g.Size(), max(bytes, unit))
		if err != nil {
			return 0, err
		}
		// Both are powers of two in every driver seen; the larger is then a
		// multiple of the smaller.
		unit = max(unit, recommended)
	}
	return (max(bytes, 1) + unit - 1) / unit * unit, nil
}

func (m *Memory) share(ctx context.Context) error {
	g := m.group
	own, err := g.dev.Alloc(m.bytes)
	if err == nil {
		m.own = own
	} else {
		err = m.outOfMemory(err)
	}
	if err := g.node.Vote(ctx, "allocate "+m.name, err); err != nil {
		return err
	}
	m.mapped[g.Rank()], err = m.own.Map()
	if err := g.node.Vote(ctx, "map "+m.name, g.at(err)); err != nil {
		return err
	}
	file, err := m.own.Export()
	if err == nil {
		defer file.Close()
	}
	if err := g.node.Vote(ctx, "export "+m.name, g.at(err)); err != nil {
		return err
	}
	files, err := g.node.ExchangeFiles(ctx, "exchange descriptors of "+m.name, file)
	if err != nil {
		return err
	}
	for r, f := range files {
		if r == g.Rank() {
			continue
		}
		if err == nil {
			m.peers[r], err = g.dev.Import(f, m.bytes)
		}
		if err == nil {
			m.mapped[r], err = m.peers[r].Map()
		}
		f.Close()
	}
	return g.node.Vote(ctx, "map the peers' "+m.name, g.at(err))
}

// outOfMemory says how much was asked for and how much there is.
func (m *Memory) outOfMemory(err error) error {
	f := &failure.Error{Code: failure.Device, What: fmt.Sprintf("allocating %d bytes for %s", m.bytes, m.name), Where: m.group.Where(), Err: err}
	if code, _ := device.CodeOf(err); code == device.OutOfMemory {
		if free, total, e := m.group.dev.MemInfo(); e == nil {
			f.Why = fmt.Sprintf("%d of %d bytes are free", free, total)
		}
		f.Do, f.By = "use smaller messages (--maxbytes) or a smaller staging buffer (--staging), or end other programs on this GPU", failure.User
	}
	return f
}

// Bytes is the size on each device, rounded up from what was asked for.
func (m *Memory) Bytes() uint64 { return m.bytes }

// Local is the address of this rank's part.
func (m *Memory) Local() Ptr { return m.mapped[m.group.Rank()] }

// Peer is the address at which this rank reaches the part of a rank.
func (m *Memory) Peer(rank int) Ptr { return m.mapped[rank] }

// Own is the physical memory of this rank's part.
func (m *Memory) Own() DeviceMemory { return m.own }

// At is the buffer that starts offset bytes into the memory.
func (m *Memory) At(offset uint64) Buffer { return Buffer{Memory: m, Offset: offset} }

// Close frees the memory. It is collective: no rank frees what another may still
// be using.
func (m *Memory) Close(ctx context.Context) error {
	err := m.group.node.Barrier(ctx, "free "+m.name)
	return errors.Join(err, m.release())
}

func (m *Memory) release() error {
	var errs []error
	for r, p := range m.peers {
		if p == nil {
			continue
		}
		if m.mapped[r] != 0 {
			errs = append(errs, p.Unmap())
		}
		errs = append(errs, p.Close())
	}
	if m.own != nil {
		if m.mapped[m.group.Rank()] != 0 {
			errs = append(errs, m.own.Unmap())
		}
		errs = append(errs, m.own.Close())
	}
	return errors.Join(errs...)
}

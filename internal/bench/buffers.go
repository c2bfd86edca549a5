package bench

import (
	"context"
	"errors"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

const (
	// slotAlign is the alignment of buffers that iterations rotate through.
	slotAlign = 512
	// maxSlots bounds how many buffers they rotate through: more than the iterations
	// that are usual.
	maxSlots = 32
)

// buffers is the send and the receive region of this rank: in one symmetric
// memory, or at an address that only the mode that brought it knows more of.
type buffers struct {
	memory  *collective.Memory
	address device.Ptr // without memory
	region  uint64     // bytes of each
}

// regionBytes is the size of a region: the largest message of any data type.
func regionBytes(cfg *configs.Config) uint64 {
	most := uint64(0)
	for _, d := range cfg.DTypes() {
		for _, s := range cfg.Sizes(d.Size()) {
			most = max(most, s)
		}
	}
	return collective.RoundUp(max(most, 1), slotAlign)
}

// scratchBytes is the scratch memory of the workspace: the least, where no mode
// passes messages through it.
func scratchBytes(cfg *configs.Config) uint64 {
	if !cfg.UsesScratch() {
		return collective.ScratchBytes
	}
	return min(uint64(cfg.NVLS.Scratch), max(collective.ScratchMessages*regionBytes(cfg), collective.ScratchBytes))
}

// plannedMemory is what this rank is going to ask of its device, before
// granularities.
func (b *bench) plannedMemory() result.Memory {
	region := 2 * regionBytes(b.cfg)
	m := result.Memory{Buffers: region, Control: collective.WorkspaceBytes(scratchBytes(b.cfg))}
	for _, name := range b.cfg.Modes() {
		switch name {
		case configs.ModeCopyIn, configs.ModeP2PCopyIn:
			m.Staging += uint64(b.cfg.NVLS.Staging)
		case configs.ModeNCCLSymmetric:
			m.NCCLBuffers = region
		}
	}
	return m
}

func (b *bench) allocate(ctx context.Context) error {
	region := regionBytes(b.cfg)
	m, err := b.group.Alloc(ctx, "send and receive buffers", 2*region)
	if err != nil {
		return err
	}
	b.buffers = &buffers{memory: m, region: region}
	return nil
}

// at is the buffer that starts offset bytes into the regions.
func (b *buffers) at(offset uint64) collective.Buffer {
	if b.memory == nil {
		return collective.Buffer{Address: b.address + device.Ptr(offset)}
	}
	return b.memory.At(offset)
}

// call is the all-reduce of size bytes in the slot-th pair of buffers.
func (b *buffers) call(slot int, size uint64, d collective.DType, op collective.Op, p result.Placement) collective.Call {
	at := uint64(slot) * collective.RoundUp(max(size, 1), slotAlign)
	c := collective.Call{Send: b.at(at), Recv: b.at(b.region + at), Count: size / uint64(d.Size()), DType: d, Op: op}
	if p == result.InPlace {
		c.Send = c.Recv
	}
	return c
}

// slots is how many pairs of buffers of this size iterations rotate through.
// As in nccl-tests, a message that is smaller than the largest must not be
// found in the cache by the next iteration.
func (b *buffers) slots(size uint64) int {
	return int(min(max(b.region/collective.RoundUp(max(size, 1), slotAlign), 1), maxSlots))
}

// calls is a planned call a slot.
type calls []collective.Prepared

func (c calls) close() error {
	var errs []error
	for _, p := range c {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// prepare plans one call a slot.
func (m *mode) prepare(size uint64, d collective.DType, op collective.Op, p result.Placement) (calls, error) {
	planned := make(calls, m.buffers.slots(size))
	for i := range planned {
		// What comes with an error may be a nil pointer in an interface, which is not
		// nil and must not be closed.
		call, err := m.reducer.Prepare(m.buffers.call(i, size, d, op, p))
		if err != nil {
			return nil, errors.Join(err, planned.close())
		}
		planned[i] = call
	}
	return planned, nil
}

package sim

import (
	"fmt"
	"os"
	"sync"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// memory is a handle on a physical allocation. It implements device.Memory.
type memory struct {
	d      *gpu // the device that maps it
	id     uint64
	bytes  uint64
	home   int    // the device that holds it
	offset uint64 // there

	mu    sync.Mutex
	at    uint64 // 0: not mapped
	bound int    // ranges bound to multicast objects through this handle
	gone  bool
}

func (d *gpu) newMemory(a *allocation) *memory {
	m := &memory{d: d, id: a.ID, bytes: a.Bytes, home: int(a.Device), offset: a.Offset}
	d.keep(m)
	return m
}

func (m *memory) Bytes() uint64 { return m.bytes }

func (m *memory) label() string { return fmt.Sprintf("memory %d", m.id) }

// do runs a call on the handle, which must be open.
func (m *memory) do(call, args string, f func() error) error {
	return m.d.do(call, args, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.gone {
			return refuse(device.InvalidHandle, "the memory was closed")
		}
		return f()
	})
}

func (m *memory) Export() (*os.File, error) {
	var f *os.File
	err := m.do("cuMemExportToShareableHandle", m.label()+", POSIX_FILE_DESCRIPTOR", func() (err error) {
		f, err = m.d.s.export(m.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *memory) Map() (device.Ptr, error) {
	var at uint64
	err := m.do("cuMemMap", fmt.Sprintf("%s, bytes=%d", m.label(), m.bytes), func() (err error) {
		if m.at != 0 {
			return refuse(device.InvalidValue, "the memory is mapped already, at %#x", m.at)
		}
		at, err = m.d.mapAt(m.bytes, func(at uint64) error {
			return m.d.space.Map(at, m.d.s.mem[m.home][m.offset:m.offset+m.bytes])
		})
		m.at = at
		return err
	})
	return device.Ptr(at), err
}

func (m *memory) Unmap() error {
	return m.do("cuMemUnmap", m.label(), func() error {
		if m.at == 0 {
			return refuse(device.InvalidValue, "the memory is not mapped")
		}
		return m.unmap()
	})
}

func (m *memory) unmap() error {
	if err := m.d.unmapAt(m.at, m.bytes); err != nil {
		return err
	}
	m.at = 0
	return nil
}

func (m *memory) Close() error {
	return m.d.do("cuMemRelease", m.label(), func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.gone:
			return nil
		case m.at != 0:
			return refuse(device.IllegalState, "the memory is still mapped, at %#x", m.at)
		case m.bound != 0:
			return refuse(device.IllegalState, "the memory is still bound to a multicast object, in %d ranges", m.bound)
		}
		return m.release()
	})
}

func (m *memory) release() error {
	m.gone = true
	m.d.drop(m)
	return m.d.s.locked(func(t *control) error {
		if a := findAllocation(t, m.id); a != nil {
			a.Refs[m.d.s.slot]--
		}
		m.d.s.sweep(t)
		return nil
	})
}

// abandon gives the memory back in whatever state it is. Bindings are ended by
// their multicast objects.
func (m *memory) abandon() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	if m.at != 0 {
		if err := m.unmap(); err != nil {
			return err
		}
	}
	return m.release()
}

// mapAt reserves addresses and fills them.
func (d *gpu) mapAt(bytes uint64, fill func(at uint64) error) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, err := d.windows.reserve(bytes)
	if err != nil {
		return 0, err
	}
	if err := fill(at); err != nil {
		d.windows.release(at)
		return 0, refuse(device.Unknown, "%v", err)
	}
	return at, nil
}

func (d *gpu) unmapAt(at, bytes uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.space.Unmap(at, bytes); err != nil {
		return refuse(device.Unknown, "%v", err)
	}
	d.windows.release(at)
	return nil
}

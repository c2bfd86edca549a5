package sim

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// BindPatience bounds the wait of Bind for the team's other devices. The real
// driver waits for ever; here a test that forgot its watchdog still ends.
const BindPatience = 2 * time.Minute

// multicast is a handle on a multicast object. It implements device.Multicast.
type multicast struct {
	d     *gpu
	id    uint64
	bytes uint64
	size  int // devices

	mu    sync.Mutex
	at    uint64 // 0: not mapped
	bound []bound
	gone  bool
}

// bound is a range bound through this handle.
type bound struct {
	at, bytes uint64
	m         *memory
}

func (d *gpu) checkTeam(call string, numDevices int, bytes uint64) error {
	if err := d.mayMulticast(call); err != nil {
		return err
	}
	c := d.s.ctl
	switch {
	case numDevices < 1 || numDevices > int(c.Devices):
		return refuse(device.InvalidValue, "a team of %d: there are %d devices", numDevices, c.Devices)
	case bytes == 0:
		return refuse(device.InvalidValue, "0 bytes")
	}
	return nil
}

func (d *gpu) MulticastGranularity(numDevices int, bytes uint64) (minimum, recommended uint64, err error) {
	const call = "cuMulticastGetGranularity"
	err = d.do(call, fmt.Sprintf("numDevices=%d, bytes=%d, POSIX_FILE_DESCRIPTOR", numDevices, bytes), func() error {
		if err := d.checkTeam(call, numDevices, bytes); err != nil {
			return err
		}
		minimum, recommended = d.s.ctl.MulticastMinimum, d.s.ctl.MulticastRecommended
		return nil
	})
	return minimum, recommended, err
}

func (d *gpu) CreateMulticast(numDevices int, bytes uint64) (device.Multicast, error) {
	const call = "cuMulticastCreate"
	var m *multicast
	err := d.do(call, fmt.Sprintf("numDevices=%d, bytes=%d, POSIX_FILE_DESCRIPTOR", numDevices, bytes), func() error {
		if err := d.checkTeam(call, numDevices, bytes); err != nil {
			return err
		}
		if g := d.s.ctl.MulticastMinimum; bytes%g != 0 {
			return refuse(device.InvalidValue, "%d bytes are no multiple of the multicast granularity %d", bytes, g)
		}
		return d.s.locked(func(t *control) error {
			tm, err := d.s.createTeam(t, numDevices, bytes)
			if err != nil {
				return err
			}
			m = d.newMulticast(tm)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (d *gpu) ImportMulticast(f *os.File, numDevices int, bytes uint64) (device.Multicast, error) {
	const call = "cuMemImportFromShareableHandle"
	var m *multicast
	err := d.do(call, fmt.Sprintf("POSIX_FILE_DESCRIPTOR, multicast, numDevices=%d, bytes=%d", numDevices, bytes), func() error {
		if err := d.mayMulticast(call); err != nil {
			return err
		}
		id, err := d.s.exported(f)
		if err != nil {
			return err
		}
		return d.s.locked(func(t *control) error {
			tm := findTeam(t, id)
			if tm == nil {
				return refuse(device.InvalidHandle, "the descriptor stands for no multicast object: it is memory")
			}
			if tm.Bytes != bytes || tm.Size != uint64(numDevices) {
				return refuse(device.InvalidValue, "the multicast object has %d bytes for %d devices, %d for %d were expected", tm.Bytes, tm.Size, bytes, numDevices)
			}
			if err := tm.Refs.add(d.s.slot); err != nil {
				return err
			}
			m = d.newMulticast(tm)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (d *gpu) newMulticast(tm *team) *multicast {
	m := &multicast{d: d, id: tm.ID, bytes: tm.Bytes, size: int(tm.Size)}
	d.keep(m)
	return m
}

func (m *multicast) Bytes() uint64 { return m.bytes }

func (m *multicast) label() string { return fmt.Sprintf("multicast %d", m.id) }

// do runs a call on the handle, which must be open.
func (m *multicast) do(call, args string, f func() error) error {
	return m.d.do(call, args, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.gone {
			return refuse(device.InvalidHandle, "the multicast object was closed")
		}
		return f()
	})
}

// withTeam runs f on the shared entry.
func (m *multicast) withTeam(f func(*control, *team) error) error {
	return m.d.s.locked(func(t *control) error {
		tm := findTeam(t, m.id)
		if tm == nil {
			return refuse(device.InvalidHandle, "the multicast object is gone")
		}
		return f(t, tm)
	})
}

func (m *multicast) Export() (*os.File, error) {
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

func (m *multicast) AddDevice() error {
	return m.do("cuMulticastAddDevice", m.label(), func() error {
		return m.withTeam(func(_ *control, tm *team) error {
			bit := uint64(1) << m.d.ordinal
			switch {
			case tm.Members&bit != 0:
				return refuse(device.InvalidValue, "the device is in the team already")
			case tm.complete():
				return refuse(device.InvalidValue, "all %d devices of the team were added, this one is one more", tm.Size)
			}
			tm.Members |= bit
			return nil
		})
	})
}

func (m *multicast) Bind(mcOffset uint64, mem device.Memory, memOffset, bytes uint64) error {
	args := fmt.Sprintf("%s, mcOffset=%d, memOffset=%d, bytes=%d", m.label(), mcOffset, memOffset, bytes)
	return m.do("cuMulticastBindMem", args, func() error {
		own, ok := mem.(*memory)
		if !ok || own.d.s != m.d.s {
			return refuse(device.InvalidHandle, "the memory belongs to another driver or session")
		}
		own.mu.Lock()
		defer own.mu.Unlock()
		g := m.d.s.ctl.MulticastMinimum
		switch {
		case own.gone:
			return refuse(device.InvalidHandle, "the memory was closed")
		case bytes == 0 || mcOffset%g != 0 || memOffset%g != 0 || bytes%g != 0:
			return refuse(device.InvalidValue, "offsets %d and %d and size %d must be multiples of the multicast granularity %d", mcOffset, memOffset, bytes, g)
		case mcOffset > m.bytes || bytes > m.bytes-mcOffset:
			return refuse(device.InvalidValue, "offset %d, %d bytes reach beyond the multicast object of %d", mcOffset, bytes, m.bytes)
		case memOffset > own.bytes || bytes > own.bytes-memOffset:
			return refuse(device.InvalidValue, "offset %d, %d bytes reach beyond the memory of %d", memOffset, bytes, own.bytes)
		case own.home != m.d.ordinal:
			return refuse(device.InvalidDevice, "the memory lies on %s: each device binds its own", m.d.s.uuid(own.home))
		}
		if err := m.awaitTeam(); err != nil {
			return err
		}
		b := binding{Owner: uint32(m.d.s.slot), Device: uint32(own.home), At: mcOffset, Bytes: bytes, Offset: own.offset + memOffset}
		if err := m.withTeam(func(t *control, tm *team) error { return m.d.s.bind(t, tm, b) }); err != nil {
			return err
		}
		own.bound++
		m.bound = append(m.bound, bound{mcOffset, bytes, own})
		return nil
	})
}

// awaitTeam returns when all devices were added and this one is among them.
func (m *multicast) awaitTeam() error {
	deadline := time.Now().Add(BindPatience)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		missing := 0
		err := m.withTeam(func(_ *control, tm *team) error {
			missing = tm.missing()
			if missing == 0 && tm.Members&(1<<m.d.ordinal) == 0 {
				return refuse(device.InvalidDevice, "the device was not added to the team")
			}
			return nil
		})
		if err != nil || missing == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return refuse(device.NotReady, "%d of %d devices were not added within %v", missing, m.size, BindPatience)
		}
		select {
		case <-time.After(wait):
		case <-m.d.ctx.Done():
			return refuse(device.InvalidHandle, "the device was closed while %d of %d devices were awaited", missing, m.size)
		case <-m.d.s.stop:
			return refuse(device.InvalidHandle, "the session was closed while %d of %d devices were awaited", missing, m.size)
		}
	}
}

func (m *multicast) Unbind(mcOffset, bytes uint64) error {
	return m.do("cuMulticastUnbind", fmt.Sprintf("%s, mcOffset=%d, bytes=%d", m.label(), mcOffset, bytes), func() error {
		return m.unbind(mcOffset, bytes)
	})
}

func (m *multicast) unbind(mcOffset, bytes uint64) error {
	err := m.withTeam(func(t *control, tm *team) error {
		return m.d.s.unbind(t, tm, m.d.ordinal, mcOffset, bytes)
	})
	if err != nil {
		return err
	}
	for i, b := range m.bound {
		if b.at == mcOffset && b.bytes == bytes {
			m.bound = append(m.bound[:i], m.bound[i+1:]...)
			b.m.unbound()
			break
		}
	}
	return nil
}

func (m *memory) unbound() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bound--
}

func (m *multicast) Map() (device.Ptr, error) {
	var at uint64
	err := m.do("cuMemMap", fmt.Sprintf("%s, bytes=%d", m.label(), m.bytes), func() (err error) {
		if m.at != 0 {
			return refuse(device.InvalidValue, "the multicast object is mapped already, at %#x", m.at)
		}
		err = m.withTeam(func(_ *control, tm *team) error {
			if n := tm.missing(); n != 0 {
				return refuse(device.InvalidValue, "%d of %d devices were not added yet", n, tm.Size)
			}
			if tm.Members&(1<<m.d.ordinal) == 0 {
				return refuse(device.InvalidDevice, "the device is not in the team")
			}
			return nil
		})
		if err != nil {
			return err
		}
		id, s := m.id, m.d.s
		at, err = m.d.mapAt(m.bytes, func(at uint64) error {
			err := m.d.space.MapMulticast(at, m.bytes, func(offset uint64) ([][]byte, error) { return s.views(id, offset) })
			if err == nil {
				m.d.teams = append(m.d.teams, mapped{at, m.bytes})
			}
			return err
		})
		m.at = at
		return err
	})
	return device.Ptr(at), err
}

func (m *multicast) Unmap() error {
	return m.do("cuMemUnmap", m.label(), func() error {
		if m.at == 0 {
			return refuse(device.InvalidValue, "the multicast object is not mapped")
		}
		return m.unmap()
	})
}

func (m *multicast) unmap() error {
	if err := m.d.unmapAt(m.at, m.bytes); err != nil {
		return err
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for i, t := range m.d.teams {
		if t.at == m.at {
			m.d.teams = append(m.d.teams[:i], m.d.teams[i+1:]...)
			break
		}
	}
	m.at = 0
	return nil
}

func (m *multicast) Close() error {
	return m.d.do("cuMemRelease", m.label(), func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.gone:
			return nil
		case m.at != 0:
			return refuse(device.IllegalState, "the multicast object is still mapped, at %#x", m.at)
		case len(m.bound) != 0:
			return refuse(device.IllegalState, "%d ranges of this device are still bound to the multicast object", len(m.bound))
		}
		return m.release()
	})
}

func (m *multicast) release() error {
	m.gone = true
	m.d.drop(m)
	return m.withTeam(func(t *control, tm *team) error {
		tm.Refs[m.d.s.slot]--
		m.d.s.sweep(t)
		return nil
	})
}

// abandon takes the handle down in whatever state it is.
func (m *multicast) abandon() error {
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
	for len(m.bound) != 0 {
		if err := m.unbind(m.bound[0].at, m.bound[0].bytes); err != nil {
			return err
		}
	}
	return m.release()
}

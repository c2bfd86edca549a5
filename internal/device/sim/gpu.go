package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// gpu is one opened software GPU. It implements device.Device.
type gpu struct {
	s        *Session
	ordinal  int
	where    string // "gpu3", for the trace
	info     device.Info
	space    *exec.Space
	config   exec.Config
	launches atomic.Uint64 // and copies, in the weak memory model
	streams  atomic.Uint64 // made so far

	ctx    context.Context // ends when the device is closed
	cancel context.CancelCauseFunc
	sticky atomic.Pointer[device.Error]

	shutting atomic.Bool
	work     sync.WaitGroup // the streams' workers

	mu      sync.Mutex // guards what follows
	windows windows
	handles map[closer]struct{} // memory, multicast objects and streams that are open
	teams   []mapped            // multicast objects with an address
	epoch   atomic.Uint64       // of bindings, as far as space knows them
}

// closer is something that the device takes down when it is closed first.
type closer interface{ abandon() error }

// mapped is a range of multicast addresses.
type mapped struct{ at, bytes uint64 }

var errClosed = errors.New("the device was closed")

func (d *gpu) Info() device.Info { return d.info }

func (d *gpu) MemInfo() (free, total uint64, err error) {
	err = d.do("cuMemGetInfo", "", func() error {
		return d.s.locked(func(t *control) error {
			free, total = d.s.freeBytes(t, d.ordinal), t.MemoryBytes
			return nil
		})
	})
	return free, total, err
}

func (d *gpu) Granularity() (bytes uint64, err error) {
	err = d.do("cuMemGetAllocationGranularity", "POSIX_FILE_DESCRIPTOR, RECOMMENDED", func() error {
		bytes = Granule
		return nil
	})
	return bytes, err
}

func (d *gpu) Alloc(bytes uint64) (device.Memory, error) {
	var m *memory
	err := d.do("cuMemCreate", fmt.Sprintf("bytes=%d, POSIX_FILE_DESCRIPTOR", bytes), func() error {
		if bytes == 0 || bytes%Granule != 0 {
			return refuse(device.InvalidValue, "%d bytes are no multiple of the granularity %d", bytes, Granule)
		}
		return d.s.locked(func(t *control) error {
			a, err := d.s.allocate(t, d.ordinal, bytes)
			if err != nil {
				return err
			}
			m = d.newMemory(a)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (d *gpu) Import(f *os.File, bytes uint64) (device.Memory, error) {
	var m *memory
	err := d.do("cuMemImportFromShareableHandle", fmt.Sprintf("POSIX_FILE_DESCRIPTOR, bytes=%d", bytes), func() error {
		id, err := d.s.exported(f)
		if err != nil {
			return err
		}
		return d.s.locked(func(t *control) error {
			a := findAllocation(t, id)
			if a == nil {
				return refuse(device.InvalidHandle, "the descriptor stands for no memory: it is a multicast object")
			}
			if a.Bytes != bytes {
				return refuse(device.InvalidValue, "the memory has %d bytes, %d were expected", a.Bytes, bytes)
			}
			if err := a.Refs.add(d.s.slot); err != nil {
				return err
			}
			m = d.newMemory(a)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (d *gpu) CopyToDevice(dst device.Ptr, src []byte) error {
	return d.do("cuMemcpyHtoD", fmt.Sprintf("dst=%#x, bytes=%d", dst, len(src)), func() error {
		parts, err := d.host("destination", dst, uint64(len(src)))
		if err != nil {
			return err
		}
		for _, p := range parts {
			src = src[copy(p, src):]
		}
		return nil
	})
}

func (d *gpu) CopyToHost(dst []byte, src device.Ptr) error {
	return d.do("cuMemcpyDtoH", fmt.Sprintf("src=%#x, bytes=%d", src, len(dst)), func() error {
		parts, err := d.host("source", src, uint64(len(dst)))
		if err != nil {
			return err
		}
		for _, p := range parts {
			dst = dst[copy(dst, p):]
		}
		return nil
	})
}

// host finds the memory behind a range of addresses for a copy, which the
// driver refuses at once when it is not all there.
func (d *gpu) host(what string, at device.Ptr, bytes uint64) ([][]byte, error) {
	parts, err := d.space.Host(uint64(at), bytes)
	if err != nil {
		return nil, refuse(device.InvalidValue, "%s %#x, %d bytes: %v", what, at, bytes, err)
	}
	return parts, nil
}

// fail makes an error of executed work the device's sticky error.
func (d *gpu) fail(e *device.Error) {
	d.sticky.CompareAndSwap(nil, e)
}

// refresh forgets what the address space knows about bindings if any changed
// since, in whichever process.
func (d *gpu) refresh() {
	now := atomic.LoadUint64(&d.s.ctl.Epoch)
	if d.epoch.Swap(now) == now {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.teams {
		d.space.Invalidate(m.at, m.bytes)
	}
}

func (d *gpu) keep(h closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handles[h] = struct{}{}
}

func (d *gpu) drop(h closer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.handles, h)
}

// Close stops what still runs and gives back what is still open. It works on a
// device with a sticky error too.
func (d *gpu) Close() error {
	err := asDriverError("cuDevicePrimaryCtxRelease", d.info.UUID, d.shut())
	d.s.trace(d.where, "cuDevicePrimaryCtxRelease", "", err)
	return err
}

func (d *gpu) shut() error {
	if d.shutting.Swap(true) {
		return nil
	}
	d.cancel(errClosed)
	d.mu.Lock()
	var left []closer
	for h := range d.handles {
		left = append(left, h)
	}
	d.mu.Unlock()
	var errs []error
	for _, h := range left {
		errs = append(errs, h.abandon())
	}
	d.work.Wait()
	d.s.mu.Lock()
	delete(d.s.open, d)
	d.s.mu.Unlock()
	return errors.Join(errs...)
}

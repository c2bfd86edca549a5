package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// object is what memory and multicast objects have in common: a handle of the
// driver that can be exported and mapped.
type object struct {
	gpu       *gpu
	kind      string // for messages: "memory", "multicast object"
	handle    C.cu_mem
	bytes     uint64
	alignment uint64 // of the address it is mapped at
	ptr       C.cu_ptr
	closed    bool
}

func (o *object) Bytes() uint64 { return o.bytes }

func (o *object) Export() (*os.File, error) {
	g := o.gpu
	var fd C.int
	if err := g.check("cuMemExportToShareableHandle", C.cuda_mem_export(g.lib.api, g.ctx, o.handle, &fd)); err != nil {
		return nil, err
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), "CUDA "+o.kind), nil
}

// importHandle opens what another process exported. The kernel holds the object
// from then on, so the file may be closed.
func (g *gpu) importHandle(f *os.File) (C.cu_mem, error) {
	var handle C.cu_mem
	err := g.check("cuMemImportFromShareableHandle", C.cuda_mem_import(g.lib.api, g.ctx, C.int(f.Fd()), &handle))
	runtime.KeepAlive(f)
	return handle, err
}

// Map reserves addresses, maps the object there from its offset 0 (multicast
// objects accept no other) and gives this device access.
func (o *object) Map() (device.Ptr, error) {
	g := o.gpu
	if o.ptr != 0 {
		return 0, g.refuse("cuMemMap", device.InvalidValue, "the "+o.kind+" is mapped already")
	}
	var ptr C.cu_ptr
	size := C.size_t(o.bytes)
	if err := g.check("cuMemAddressReserve", C.cuda_address_reserve(g.lib.api, g.ctx, size, C.size_t(o.alignment), &ptr)); err != nil {
		return 0, err
	}
	if err := g.check("cuMemMap", C.cuda_mem_map(g.lib.api, g.ctx, ptr, size, o.handle)); err != nil {
		return 0, errors.Join(err, o.free(ptr))
	}
	if err := g.check("cuMemSetAccess", C.cuda_mem_set_access(g.lib.api, g.ctx, ptr, size, g.dev)); err != nil {
		return 0, errors.Join(err, o.unmap(ptr))
	}
	o.ptr = ptr
	return device.Ptr(ptr), nil
}

func (o *object) Unmap() error {
	if o.ptr == 0 {
		return o.gpu.refuse("cuMemUnmap", device.InvalidValue, "the "+o.kind+" is not mapped")
	}
	ptr := o.ptr
	o.ptr = 0
	return o.unmap(ptr)
}

func (o *object) unmap(ptr C.cu_ptr) error {
	g := o.gpu
	return errors.Join(
		g.check("cuMemUnmap", C.cuda_mem_unmap(g.lib.api, g.ctx, ptr, C.size_t(o.bytes))),
		o.free(ptr))
}

func (o *object) free(ptr C.cu_ptr) error {
	g := o.gpu
	return g.check("cuMemAddressFree", C.cuda_address_free(g.lib.api, g.ctx, ptr, C.size_t(o.bytes)))
}

// release drops the handle. The object must be unmapped.
func (o *object) release() error {
	if o.closed {
		return nil
	}
	g := o.gpu
	if o.ptr != 0 {
		return g.refuse("cuMemRelease", device.IllegalState, "the "+o.kind+" is still mapped")
	}
	o.closed = true
	return g.check("cuMemRelease", C.cuda_mem_release(g.lib.api, g.ctx, o.handle))
}

// memory is a physical allocation, own or imported.
type memory struct {
	object
	bindings int // to multicast objects
}

func (g *gpu) Granularity() (uint64, error) {
	if g.granularity == 0 {
		var n C.size_t
		if err := g.check("cuMemGetAllocationGranularity", C.cuda_mem_granularity(g.lib.api, g.dev, C.CU_GRANULARITY_RECOMMENDED, &n)); err != nil {
			return 0, err
		}
		g.granularity = uint64(n)
	}
	return g.granularity, nil
}

func (g *gpu) Alloc(bytes uint64) (device.Memory, error) {
	granularity, err := g.Granularity()
	if err != nil {
		return nil, err
	}
	if bytes == 0 || bytes%granularity != 0 {
		return nil, g.refuse("cuMemCreate", device.InvalidValue, fmt.Sprintf("%d bytes are no multiple of the granularity of %d", bytes, granularity))
	}
	m := &memory{object: object{gpu: g, kind: "memory", bytes: bytes, alignment: granularity}}
	if err := g.check("cuMemCreate", C.cuda_mem_create(g.lib.api, g.ctx, g.dev, C.size_t(bytes), &m.handle)); err != nil {
		return nil, g.explainShortage(err, bytes)
	}
	// The driver does not promise zeros, and a peer may map the memory before
	// this process does: clear it now, at an address that is given up again.
	if err := m.clear(); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

func (m *memory) clear() error {
	ptr, err := m.Map()
	if err != nil {
		return err
	}
	return errors.Join(m.gpu.clear(ptr, m.bytes), m.Unmap())
}

// explainShortage adds to an out-of-memory error how much there is.
func (g *gpu) explainShortage(err error, bytes uint64) error {
	var e *device.Error
	if !errors.As(err, &e) || e.Code != device.OutOfMemory {
		return err
	}
	if free, total, infoErr := g.MemInfo(); infoErr == nil {
		e.Text = fmt.Sprintf("%s: %d bytes wanted, %d of %d free", e.Text, bytes, free, total)
	}
	return e
}

func (g *gpu) Import(f *os.File, bytes uint64) (device.Memory, error) {
	granularity, err := g.Granularity()
	if err != nil {
		return nil, err
	}
	m := &memory{object: object{gpu: g, kind: "memory", bytes: bytes, alignment: granularity}}
	if m.handle, err = g.importHandle(f); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *memory) Close() error {
	if m.bindings > 0 {
		return m.gpu.refuse("cuMemRelease", device.IllegalState, "the memory is still bound to a multicast object")
	}
	return m.release()
}

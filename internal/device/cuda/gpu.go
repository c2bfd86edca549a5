package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// gpu is one opened device: its primary context and a stream of its own for
// copies to and from the host and for clearing new memory.
type gpu struct {
	driver *Driver
	lib    *library
	info   device.Info
	dev    C.int
	ctx    C.cu_handle
	copies C.cu_handle

	granularity uint64 // recommended, of allocations; 0 until asked for
}

func openDevice(d *Driver, info device.Info) (*gpu, error) {
	g := &gpu{driver: d, lib: d.lib, info: info}
	var err error
	if g.dev, err = g.lib.deviceHandle(info.Ordinal); err != nil {
		return nil, err
	}
	if err := g.check("cuDevicePrimaryCtxRetain", C.cuda_context_retain(g.lib.api, g.dev, &g.ctx)); err != nil {
		return nil, err
	}
	if err := g.check("cuStreamCreate", C.cuda_stream_create(g.lib.api, g.ctx, &g.copies)); err != nil {
		C.cuda_context_release(g.lib.api, g.dev)
		return nil, err
	}
	return g, nil
}

func (g *gpu) check(call string, code C.int) error { return g.lib.check(call, code, g.info.UUID) }

// refuse makes the error of a call that was not made, because it would be wrong
// or, worse, accepted.
func (g *gpu) refuse(call string, code device.Code, text string) error {
	return &device.Error{Call: call, Code: code, Name: errorName(g.lib, code), Text: text, Device: g.info.UUID}
}

func errorName(l *library, code device.Code) string {
	if s := C.cuda_error_name(l.api, C.int(code)); s != nil {
		return C.GoString(s)
	}
	return "unknown to this driver"
}

func (g *gpu) Info() device.Info { return g.info }

func (g *gpu) MemInfo() (free, total uint64, err error) {
	var f, t C.size_t
	err = g.check("cuMemGetInfo", C.cuda_mem_info(g.lib.api, g.ctx, &f, &t))
	return uint64(f), uint64(t), err
}

func (g *gpu) CopyToDevice(dst device.Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	var waited C.int
	code := C.cuda_copy_to_device(g.lib.api, g.ctx, C.cu_ptr(dst), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src)), g.copies, &waited)
	return g.check(copyCall("cuMemcpyHtoDAsync", waited), code)
}

func (g *gpu) CopyToHost(dst []byte, src device.Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	var waited C.int
	code := C.cuda_copy_to_host(g.lib.api, g.ctx, unsafe.Pointer(unsafe.SliceData(dst)), C.cu_ptr(src), C.size_t(len(dst)), g.copies, &waited)
	return g.check(copyCall("cuMemcpyDtoHAsync", waited), code)
}

// copyCall names the call that failed of a copy and the wait after it.
func copyCall(copy string, waited C.int) string {
	if waited != 0 {
		return "cuStreamSynchronize"
	}
	return copy
}

// clear fills mapped memory with zeros and waits for it.
func (g *gpu) clear(dst device.Ptr, bytes uint64) error {
	if err := g.check("cuMemsetD32Async", C.cuda_set32_async(g.lib.api, g.ctx, C.cu_ptr(dst), 0, C.size_t(bytes/4), g.copies)); err != nil {
		return err
	}
	return g.check("cuStreamSynchronize", C.cuda_stream_synchronize(g.lib.api, g.ctx, g.copies))
}

func (g *gpu) Close() error {
	if g.ctx == 0 {
		return nil
	}
	err := errors.Join(
		g.check("cuStreamDestroy", C.cuda_stream_destroy(g.lib.api, g.ctx, g.copies)),
		g.check("cuDevicePrimaryCtxRelease", C.cuda_context_release(g.lib.api, g.dev)))
	g.ctx = 0
	g.driver.opened.Add(-1)
	return err
}

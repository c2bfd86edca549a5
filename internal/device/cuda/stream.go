package cuda

// #include "shim.h"
//
// // A launch happens for every few microseconds of a benchmark: nothing of it
// // may escape to the heap, and libcuda calls nothing in Go.
// #cgo noescape cuda_launch
// #cgo nocallback cuda_launch
// #cgo nocallback cuda_stream_query
// #cgo nocallback cuda_graph_launch
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// stream is a queue of work in the device's primary context.
type stream struct {
	gpu       *gpu
	handle    C.cu_handle
	capturing bool
}

func (g *gpu) NewStream() (device.Stream, error) {
	s := &stream{gpu: g}
	if err := g.check("cuStreamCreate", C.cuda_stream_create(g.lib.api, g.ctx, &s.handle)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *stream) Launch(f device.Function, grid, block device.Dim, sharedBytes uint32, args []byte) error {
	g := s.gpu
	k, ok := f.(*function)
	if !ok {
		return g.refuse("cuLaunchKernel", device.InvalidHandle, fmt.Sprintf("the kernel %s is of another driver", f.Name()))
	}
	if int(sharedBytes) > k.dynamicShared {
		if err := g.check("cuFuncSetAttribute", C.cuda_function_allow_shared(g.lib.api, g.ctx, k.handle, C.int(sharedBytes))); err != nil {
			return err
		}
		k.dynamicShared = int(sharedBytes)
	}
	code := C.cuda_launch(g.lib.api, g.ctx, k.handle, C.uint(grid), C.uint(block), C.uint(sharedBytes), s.handle,
		(*C.uchar)(unsafe.Pointer(unsafe.SliceData(args))), C.size_t(len(args)))
	if code != C.CU_SUCCESS {
		return g.check("cuLaunchKernel", code)
	}
	return nil
}

func (s *stream) Copy(dst, src device.Ptr, bytes uint64) error {
	g := s.gpu
	return g.check("cuMemcpyAsync", C.cuda_copy_async(g.lib.api, g.ctx, C.cu_ptr(dst), C.cu_ptr(src), C.size_t(bytes), s.handle))
}

func (s *stream) Set32(dst device.Ptr, value uint32, n uint64) error {
	g := s.gpu
	return g.check("cuMemsetD32Async", C.cuda_set32_async(g.lib.api, g.ctx, C.cu_ptr(dst), C.uint(value), C.size_t(n), s.handle))
}

func (s *stream) Record(e device.Event) error {
	g := s.gpu
	ev, ok := e.(*event)
	if !ok {
		return g.refuse("cuEventRecord", device.InvalidHandle, "the event is of another driver")
	}
	return g.check("cuEventRecord", C.cuda_event_record(g.lib.api, g.ctx, ev.handle, s.handle))
}

func (s *stream) WaitEvent(e device.Event) error {
	g := s.gpu
	ev, ok := e.(*event)
	if !ok {
		return g.refuse("cuStreamWaitEvent", device.InvalidHandle, "the event is of another driver")
	}
	return g.check("cuStreamWaitEvent", C.cuda_stream_wait_event(g.lib.api, g.ctx, s.handle, ev.handle))
}

func (s *stream) Query() (done bool, err error) {
	g := s.gpu
	code := C.cuda_stream_query(g.lib.api, g.ctx, s.handle)
	if code == C.int(device.NotReady) {
		return false, nil
	}
	return code == C.CU_SUCCESS, g.check("cuStreamQuery", code)
}

const (
	// spinFor is how long Wait asks again and again: a benchmark's clock stops
	// when Wait returns, so what polling adds has to be small against the wait.
	spinFor = 20 * time.Millisecond
	// yieldAfter is when Wait begins to let other goroutines run in between.
	yieldAfter = 200 * time.Microsecond
	// After spinFor Wait sleeps this fraction of what it has waited so far, and
	// never longer than longestSleep.
	sleepFraction = 1000
	longestSleep  = time.Millisecond
)

func (s *stream) Wait(ctx context.Context) error {
	start := time.Now()
	for {
		done, err := s.Query()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch waited := time.Since(start); {
		case waited < yieldAfter:
		case waited < spinFor:
			runtime.Gosched()
		default:
			time.Sleep(min(waited/sleepFraction, longestSleep))
		}
	}
}

func (s *stream) Close() error {
	if s.handle == 0 {
		return nil
	}
	handle := s.handle
	s.handle = 0
	return s.gpu.check("cuStreamDestroy", C.cuda_stream_destroy(s.gpu.lib.api, s.gpu.ctx, handle))
}

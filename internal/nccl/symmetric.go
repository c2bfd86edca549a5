package nccl

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Symmetric is NCCL's all-reduce of buffers in a symmetric window.
type Symmetric struct {
	*AllReduce
	region C.uintptr_t
	bytes  uint64
	window C.nccl_handle
}

// OpenSymmetric is Open, and has NCCL allocate bytes on every rank and register
// them as a symmetric window. It is collective.
func OpenSymmetric(ctx context.Context, g *collective.Group, bytes uint64, o Options) (*Symmetric, error) {
	a, err := open(ctx, g, ModeSymmetric, o)
	if err != nil {
		return nil, err
	}
	s := &Symmetric{AllReduce: a, bytes: bytes}
	if err := s.register(ctx); err != nil {
		a.dog.stop()
		if failure.CodeOf(err) != failure.Unavailable {
			return nil, err // the process ends; NCCL may still be at work
		}
		return nil, s.free(ctx, a.comm.abandon(err))
	}
	return s, nil
}

// register allocates the region and makes it a window.
func (s *Symmetric) register(ctx context.Context) error {
	c := s.comm
	node := c.group.Node()
	var region C.uintptr_t
	err := c.call(ctx, "ncclMemAlloc", func() C.int { return C.nccl_mem_alloc(c.lib.api, c.stream, C.size_t(s.bytes), &region) })
	if err == nil {
		s.region = region
	} else {
		err = s.outOfMemory(err)
	}
	if err := node.Vote(ctx, "allocate symmetric buffers of NCCL", err); err != nil {
		return err
	}
	var window C.nccl_handle
	took, err := c.taken(func() error {
		err := c.call(ctx, "ncclCommWindowRegister", func() C.int {
			return C.nccl_window_register(c.lib.api, c.stream, c.handle, s.region, C.size_t(s.bytes), &window)
		})
		if err == nil && window == 0 {
			// NCCL says so in no other way.
			err = &failure.Error{Code: failure.Unavailable, What: s.mode + " cannot run here", Where: c.group.Where(),
				Why: "NCCL registered no window: not all GPUs reach each other peer to peer, or NCCL_WIN_ENABLE or NCCL_CUMEM_ENABLE is 0",
				Do:  "leave " + s.mode + " out of --mode, or unset these variables", By: failure.User}
		}
		return err
	})
	if err := node.Vote(ctx, "register a symmetric window of NCCL", err); err != nil {
		return err
	}
	s.window = window
	c.bytes += took
	return nil
}

func (s *Symmetric) outOfMemory(err error) error {
	f := failure.Wrap(failure.Unavailable, err, "%s needs %s more for its own send and receive buffers", s.mode, collective.FormatBytes(s.bytes))
	if free, total, e := s.comm.group.Device().MemInfo(); e == nil {
		f.Why = fmt.Sprintf("%d of %d bytes are free", free, total)
	}
	f.Do, f.By = "use smaller messages (--maxbytes)", failure.User
	return f
}

// free gives the region back after an error that all ranks know.
func (s *Symmetric) free(ctx context.Context, because error) error {
	if s.region == 0 {
		return because
	}
	c, region := s.comm, s.region
	s.region = 0
	if err := c.call(ctx, "ncclMemFree", func() C.int { return C.nccl_mem_free(c.lib.api, c.stream, region) }); err != nil {
		return &failure.Error{Code: failure.Device, What: "NCCL's memory could not be freed", Where: c.group.Where(), Err: errors.Join(err, because)}
	}
	return because
}

// Region is the address of the memory that calls must use, Bytes its size.
func (s *Symmetric) Region() device.Ptr { return device.Ptr(s.region) }

// Bytes is the size of the region that was asked for.
func (s *Symmetric) Bytes() uint64 { return s.bytes }

// Prepare implements collective.AllReducer. Both buffers must lie in the region:
// NCCL would reduce others too, but not as symmetric memory.
func (s *Symmetric) Prepare(c collective.Call) (collective.Prepared, error) {
	for _, b := range []collective.Buffer{c.Send, c.Recv} {
		if at := uint64(b.Local() - s.Region()); b.Local() < s.Region() || at > s.bytes || c.Bytes() > s.bytes-at {
			return nil, failure.New(failure.Usage, "%s needs both buffers in its own region; %#x with %d bytes is not", s.mode, uint64(b.Local()), c.Bytes())
		}
	}
	return s.AllReduce.Prepare(c)
}

// Close implements collective.AllReducer: it takes down the window, frees the
// region and destroys the communicator.
func (s *Symmetric) Close(ctx context.Context) error {
	s.dog.stop()
	c := s.comm
	// No rank takes down what another may still be using.
	if err := c.group.Node().Barrier(ctx, "free symmetric buffers of NCCL"); err != nil {
		return err
	}
	window := s.window
	err := c.call(ctx, "ncclCommWindowDeregister", func() C.int { return C.nccl_window_deregister(c.lib.api, c.stream, c.handle, window) })
	if err == nil {
		err = s.free(ctx, nil)
	}
	return errors.Join(err, s.AllReduce.Close(ctx))
}

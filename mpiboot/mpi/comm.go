//go:build linux

// Package mpi calls an MPI library that is found at run time: Open MPI, the
// MPICH family (Intel MPI, MVAPICH, Cray) and libraries of the MPI 5.0 standard
// ABI. The program is built without mpi.h and runs without any of them.
//
// It binds what a job needs to learn who it is and to leave together, in the
// manner of the Go bindings that exist: a Comm with methods. Bulk data does not
// go this way. Rules:
//
//   - Every MPI call is made from one locked thread, at MPI_THREAD_FUNNELED.
//   - Every call that waits for others takes a context and the name of the
//     stage. When the context ends, the caller gets a *DeadlineError and the
//     world is good for nothing but Abort.
//   - Error codes come back as *Error; the library never kills the process for
//     one.
//   - The library's hands stay off Go's signals (package sigguard).
package mpi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// Op is a reduction.
type Op int

const (
	Max Op = iota
	Min
	Sum
)

func (o Op) String() string { return [...]string{"max", "min", "sum"}[o] }

// Comm is MPI_COMM_WORLD of an initialized library. Its methods may be called
// from any goroutine; they run one after another.
type Comm struct {
	lib        *Library
	rank, size int
}

// Init calls MPI_Init_thread and sets MPI_ERRORS_RETURN. ifEnded is printed
// should the library end the process meanwhile, as Open MPI does when srun
// offers no interface that it speaks; the exit code is then that of
// failure.Unavailable. ifCrashed is printed, with that code too, should it crash.
// A process initializes MPI once.
func (l *Library) Init(ctx context.Context, ifEnded, ifCrashed string) (*Comm, error) {
	const stage = "start of MPI"
	l.thread = newThread()
	c := &Comm{lib: l}
	text, crash := C.CString(ifEnded), C.CString(ifCrashed)
	err := l.thread.do(ctx, "MPI_Init_thread", stage, func() error {
		defer C.free(unsafe.Pointer(text))
		defer C.free(unsafe.Pointer(crash))
		return sigguard.GuardSignals(func() error {
			C.nvls_mpi_arm(text, C.int(failure.Unavailable))
			defer C.nvls_mpi_disarm()
			C.nvls_mpi_guard(crash, C.int(failure.Unavailable))
			defer C.nvls_mpi_unguard()
			var provided C.int
			required := C.int(l.consts.threadFunneled)
			if err := l.errorOf("MPI_Init_thread", stage, C.nvls_mpi_init(&l.c, required, &provided)); err != nil {
				return err
			}
			if provided < required {
				return fmt.Errorf("MPI_Init_thread gave thread level %d, below MPI_THREAD_FUNNELED (%d): %s was built without threads",
					int(provided), int(required), l.file)
			}
			if err := l.errorOf("MPI_Comm_set_errhandler", stage, C.nvls_mpi_errors_return(&l.c)); err != nil {
				return err
			}
			var rank, size C.int
			if err := l.errorOf("MPI_Comm_rank", stage, C.nvls_mpi_rank(&l.c, &rank)); err != nil {
				return err
			}
			if err := l.errorOf("MPI_Comm_size", stage, C.nvls_mpi_size(&l.c, &size)); err != nil {
				return err
			}
			c.rank, c.size = int(rank), int(size)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Guarded lets f make its calls with words for the case that the library crashes
// in one of them: ifCrashed is printed then, and the exit code is that of
// failure.Unavailable. It is for the first calls, in which libraries map the memory
// of other ranks.
func (c *Comm) Guarded(ctx context.Context, ifCrashed string, f func() error) error {
	const stage = "start of MPI"
	text := C.CString(ifCrashed)
	defer C.free(unsafe.Pointer(text))
	if err := c.lib.thread.do(ctx, "MPI", stage, func() error { C.nvls_mpi_guard(text, C.int(failure.Unavailable)); return nil }); err != nil {
		return err
	}
	err := f()
	// After a call that was given up, the thread is in it for good, and guarded.
	c.lib.thread.do(context.WithoutCancel(ctx), "MPI", stage, func() error { C.nvls_mpi_unguard(); return nil })
	return err
}

// Rank is this process's number in the world.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of processes in the world.
func (c *Comm) Size() int { return c.size }

// Barrier waits for every rank.
func (c *Comm) Barrier(ctx context.Context, stage string) error {
	return c.lib.thread.do(ctx, "MPI_Barrier", stage, func() error {
		return c.lib.errorOf("MPI_Barrier", stage, C.nvls_mpi_barrier(&c.lib.c))
	})
}

// Bcast gives root's data to every rank. Only root's data is looked at.
func (c *Comm) Bcast(ctx context.Context, stage string, root int, data []byte) ([]byte, error) {
	if root < 0 || root >= c.size {
		return nil, fmt.Errorf("broadcast at stage %q: root %d is not in a world of %d", stage, root, c.size)
	}
	if len(data) > math.MaxInt32 {
		return nil, fmt.Errorf("broadcast at stage %q: %d bytes are more than MPI's int can count", stage, len(data))
	}
	// The buffers belong to the closures: C may still write to them after the
	// caller has stopped waiting.
	var head [8]byte
	binary.NativeEndian.PutUint64(head[:], uint64(len(data)))
	if err := c.bcast(ctx, stage, root, head[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.NativeEndian.Uint64(head[:]))
	if c.rank == root {
		copy(buf, data)
	}
	if len(buf) == 0 {
		return buf, nil
	}
	if err := c.bcast(ctx, stage, root, buf); err != nil {
		return nil, err
	}
	return buf, nil
}

func (c *Comm) bcast(ctx context.Context, stage string, root int, buf []byte) error {
	return c.lib.thread.do(ctx, "MPI_Bcast", stage, func() error {
		return c.lib.errorOf("MPI_Bcast", stage,
			C.nvls_mpi_bcast(&c.lib.c, unsafe.Pointer(&buf[0]), C.int(len(buf)), C.int(root)))
	})
}

// Allgather gives every rank what each brought, by rank. Lengths may differ.
func (c *Comm) Allgather(ctx context.Context, stage string, mine []byte) ([][]byte, error) {
	var head [8]byte
	binary.NativeEndian.PutUint64(head[:], uint64(len(mine)))
	heads, err := c.allgather(ctx, stage, head[:])
	if err != nil {
		return nil, err
	}
	lens, longest := make([]int, c.size), 1
	for i := range lens {
		lens[i] = int(binary.NativeEndian.Uint64(heads[8*i:]))
		longest = max(longest, lens[i])
	}
	if longest > math.MaxInt32/c.size {
		return nil, fmt.Errorf("all-gather at stage %q: %d bytes from each of %d ranks are more than MPI's int can count", stage, longest, c.size)
	}
	padded := make([]byte, longest)
	copy(padded, mine)
	all, err := c.allgather(ctx, stage, padded)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, c.size)
	for i := range out {
		out[i] = all[i*longest:][:lens[i]:lens[i]]
	}
	return out, nil
}

func (c *Comm) allgather(ctx context.Context, stage string, mine []byte) ([]byte, error) {
	all := make([]byte, len(mine)*c.size)
	err := c.lib.thread.do(ctx, "MPI_Allgather", stage, func() error {
		return c.lib.errorOf("MPI_Allgather", stage,
			C.nvls_mpi_allgather(&c.lib.c, unsafe.Pointer(&mine[0]), C.int(len(mine)), unsafe.Pointer(&all[0])))
	})
	return all, err
}

// AllreduceInt64 reduces values elementwise over the ranks; every rank brings
// as many.
func (c *Comm) AllreduceInt64(ctx context.Context, stage string, op Op, values []int64) ([]int64, error) {
	return allreduce(ctx, c, stage, op, c.lib.c.int64, values)
}

// AllreduceFloat64 reduces values elementwise over the ranks; every rank brings
// as many.
func (c *Comm) AllreduceFloat64(ctx context.Context, stage string, op Op, values []float64) ([]float64, error) {
	return allreduce(ctx, c, stage, op, c.lib.c.float64, values)
}

func allreduce[T int64 | float64](ctx context.Context, c *Comm, stage string, op Op, typ C.uintptr_t, values []T) ([]T, error) {
	if len(values) == 0 {
		return nil, nil
	}
	send := append([]T(nil), values...)
	recv := make([]T, len(values))
	err := c.lib.thread.do(ctx, "MPI_Allreduce", stage, func() error {
		return c.lib.errorOf("MPI_Allreduce", stage,
			C.nvls_mpi_allreduce(&c.lib.c, unsafe.Pointer(&send[0]), unsafe.Pointer(&recv[0]), C.int(len(send)), typ, c.lib.ops[op]))
	})
	if err != nil {
		return nil, err
	}
	return recv, nil
}

// Finalize ends MPI. No method but Rank and Size may be called after it.
func (c *Comm) Finalize(ctx context.Context) error {
	const stage = "end of MPI"
	return c.lib.thread.do(ctx, "MPI_Finalize", stage, func() error {
		if rc := C.nvls_mpi_finalize(&c.lib.c); rc != 0 {
			return &Error{Call: "MPI_Finalize", Stage: stage, Code: int(rc)}
		}
		return nil
	})
}

// Abort ends every process of the world with code. It does not return, unless
// the library fails to do that. Called while another MPI call is under way,
// it runs beside that call: the standard does not promise this, and both Open MPI and
// MPICH do it.
func (c *Comm) Abort(code int) {
	abort := func() { C.nvls_mpi_abort(&c.lib.c, C.int(code)) }
	if !c.lib.thread.idle(abort) {
		abort()
	}
}

package nccl

// #include "shim.h"
//
// // NCCL calls nothing in Go, and nothing of a call may escape to the heap.
// #cgo noescape nccl_all_reduce
// #cgo nocallback nccl_all_reduce
import "C"

import (
	"context"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Mode names, as in configuration and results.
const (
	Mode          = "nccl"
	ModeSymmetric = "nccl-symmetric"
)

// AllReduce is NCCL's all-reduce of buffers of any origin.
type AllReduce struct {
	comm *comm
	mode string
	dog  *watchdog
}

// Open makes a communicator of all ranks of the group. It is collective. NCCL
// that cannot run here is a failure.Unavailable; a set-up call that does not
// return a failure.Timeout, after which the process can only end.
func Open(ctx context.Context, g *collective.Group, o Options) (*AllReduce, error) {
	return open(ctx, g, Mode, o)
}

func open(ctx context.Context, g *collective.Group, mode string, o Options) (*AllReduce, error) {
	c, err := newComm(ctx, g, mode, o)
	if err != nil {
		return nil, err
	}
	a := &AllReduce{comm: c, mode: mode}
	a.dog = watch(g.Timeout(), func() {
		if o.Hung != nil {
			o.Hung(c.hung("ncclAllReduce", g.Timeout(), "NCCL connects ranks at their first call of a kind, and a rank may have ended", "look at the other ranks; NCCL_DEBUG=INFO shows where it waits"))
		}
	})
	return a, nil
}

// Version is NCCL's version: "2.28.9".
func (a *AllReduce) Version() string { return versionName(a.comm.lib.version) }

// Library is the file or name under which libnccl was opened.
func (a *AllReduce) Library() string { return a.comm.lib.path }

// NVLSOff names the site switch by which NCCL was kept from NVLS, "" when none
// forbids it.
func (a *AllReduce) NVLSOff() string { return a.comm.lib.off }

// SetupBytes is the device memory that making the communicator took on this
// rank, buffers of OpenSymmetric not counted: by the free memory before and
// after, so that it holds only while nothing else uses the GPU. NCCL takes more
// when it first uses an algorithm.
func (a *AllReduce) SetupBytes() uint64 { return a.comm.bytes }

// Mode implements collective.AllReducer.
func (a *AllReduce) Mode() string { return a.mode }

// Supports implements collective.AllReducer.
func (a *AllReduce) Supports(d collective.DType, op collective.Op) error {
	return Supports(a.mode, a.comm.group.Size(), d, op)
}

// Supports says why a mode of NCCL cannot do an operation on a type among n ranks,
// nil when it can. NCCL multiplies by 1/n before it adds floating-point numbers, so that
// its average is not that of a division when n is no power of two, and
// verification bit for bit would call it wrong.
func Supports(mode string, n int, d collective.DType, op collective.Op) error {
	if op == collective.Avg && d.IsFloat() && n&(n-1) != 0 {
		return &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("%s cannot do %s of %s on %d ranks", mode, op, d, n),
			Why: fmt.Sprintf("NCCL multiplies by 1/%d, rounded, before it adds; the result differs in the last bits from the sum divided by %d, which is verified", n, n), Do: "use sum, or a number of ranks that is a power of two", By: failure.User}
	}
	return nil
}

// dtypes and ops are NCCL's numbers (ncclDataType_t, ncclRedOp_t).
var (
	dtypes = [...]C.int{
		collective.Int8: 0, collective.Uint8: 1, collective.Int32: 2, collective.Uint32: 3, collective.Int64: 4,
		collective.Uint64: 5, collective.Half: 6, collective.Float: 7, collective.Double: 8, collective.BFloat16: 9,
	}
	ops = [...]C.int{collective.Sum: 0, collective.Prod: 1, collective.Max: 2, collective.Min: 3, collective.Avg: 4}
)

// Prepare implements collective.AllReducer. Buffers may be anywhere.
func (a *AllReduce) Prepare(c collective.Call) (collective.Prepared, error) {
	if err := a.Supports(c.DType, c.Op); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &call{a: a, send: C.uintptr_t(c.Send.Local()), recv: C.uintptr_t(c.Recv.Local()), count: C.size_t(c.Count), dtype: dtypes[c.DType], op: ops[c.Op]}, nil
}

// Close implements collective.AllReducer: it destroys the communicator. Graphs
// with its calls must have been closed.
func (a *AllReduce) Close(ctx context.Context) error {
	a.dog.stop()
	return a.comm.close(ctx)
}

// call is a prepared ncclAllReduce.
type call struct {
	a          *AllReduce
	send, recv C.uintptr_t
	count      C.size_t
	dtype, op  C.int
}

// Enqueue implements collective.Prepared. The stream may be recording a graph.
func (c *call) Enqueue(s device.Stream) error {
	n, ok := s.(native)
	if !ok {
		return failure.New(failure.Internal, "%s: the stream is of another driver", c.a.mode)
	}
	comm := c.a.comm
	c.a.dog.enter()
	code := C.nccl_all_reduce(comm.lib.api, streamOf(n), c.send, c.recv, c.count, c.dtype, c.op, comm.handle)
	c.a.dog.leave()
	if code != C.NCCL_SUCCESS {
		return &failure.Error{Code: failure.Device, What: "NCCL's all-reduce failed", Where: comm.group.Where(), Err: comm.lib.check("ncclAllReduce", code)}
	}
	return nil
}

// Algorithm implements collective.Prepared.
func (c *call) Algorithm() string { return "chosen by NCCL" }

// Tuning implements collective.Prepared: NCCL's own is not known.
func (c *call) Tuning() collective.Tuning { return collective.Tuning{} }

// Close implements collective.Prepared.
func (c *call) Close() error { return nil }

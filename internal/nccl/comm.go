package nccl

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/cuda"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// Options of Open and OpenSymmetric. All ranks give the same but for Library.
type Options struct {
	// Library is the file or name of libnccl; "" searches Candidates.
	Library string
	// Setup bounds each set-up call of NCCL. It should be below the bootstrap's
	// own deadline, so that a rank whose call hangs can still tell the others.
	// 0 means 20 s.
	Setup time.Duration
	// Hung is called, on a goroutine of its own, when an all-reduce call does not
	// return within the group's timeout. It should end the process. nil does
	// nothing.
	Hung func(error)
}

// native is a stream of package cuda.
type native interface{ Native() cuda.Native }

// comm is this rank's part of a communicator of all ranks of a group.
type comm struct {
	group  *collective.Group
	lib    *library
	setup  time.Duration
	stream C.nccl_stream // the group's
	handle C.nccl_handle
	bytes  uint64 // device memory that its making took
}

// newComm makes a communicator. It is collective. mode is named in refusals.
func newComm(ctx context.Context, g *collective.Group, mode string, o Options) (*comm, error) {
	if err := refused(g, mode); err != nil {
		return nil, err
	}
	c := &comm{group: g, setup: o.Setup, stream: streamOf(g.Stream().(native))}
	if c.setup == 0 {
		c.setup = 20 * time.Second
	}
	var err error
	c.lib, err = openLibrary(o.Library, g.Device().Info().MulticastOff)
	if err := g.Node().Vote(ctx, "open NCCL", err); err != nil {
		return nil, err
	}
	if err := c.sameVersion(ctx); err != nil {
		return nil, err
	}
	// All ranks have the same version, and so come to the same verdict.
	if mode == ModeSymmetric {
		if err := c.lib.needWindows(); err != nil {
			return nil, err
		}
	}
	id, err := c.uniqueID(ctx)
	if err != nil {
		return nil, err
	}
	// Only a call that succeeded has left a communicator; while one is still in
	// progress, NCCL writes here.
	var handle C.nccl_handle
	c.bytes, err = c.taken(func() error {
		return c.call(ctx, "ncclCommInitRank", func() C.int {
			return C.nccl_init(c.lib.api, c.stream, &handle, C.int(g.Size()), id, C.int(g.Rank()))
		})
	})
	if err == nil {
		c.handle = handle
	}
	if err := g.Node().Vote(ctx, "make a communicator of NCCL", err); err != nil {
		return nil, c.abandon(err)
	}
	return c, nil
}

// refused says why NCCL cannot work for this group at all. Every rank comes to
// the same verdict.
func refused(g *collective.Group, mode string) error {
	f := &failure.Error{Code: failure.Unavailable, What: mode + " cannot run here", By: failure.User}
	switch {
	case g.Driver().Name() != "cuda":
		f.Why, f.Do = "NCCL needs real GPUs, and this is the software device", "leave "+mode+" out of --mode, or run with --device cuda"
	case g.SharesGPU():
		f.Why, f.Do = "ranks share a GPU, which NCCL refuses", "leave "+mode+" out of --mode, or give every rank a GPU of its own"
	default:
		return nil
	}
	return f
}

func streamOf(s native) C.nccl_stream {
	n := s.Native()
	return C.nccl_stream{stream: C.uintptr_t(n.Stream), context: C.uintptr_t(n.Context),
		get_current: C.uintptr_t(n.CtxGetCurrent), set_current: C.uintptr_t(n.CtxSetCurrent)}
}

// sameVersion refuses ranks that opened different NCCLs: their communicator
// would not come about.
func (c *comm) sameVersion(ctx context.Context) error {
	all, err := c.group.Node().Allgather(ctx, "compare versions of NCCL", []byte(versionName(c.lib.version)))
	if err != nil {
		return err
	}
	for r, v := range all {
		if string(v) != string(all[0]) {
			return &failure.Error{Code: failure.Unavailable, What: "NCCL cannot run here", Why: fmt.Sprintf("rank 0 opened version %s and rank %d version %s", all[0], r, v),
				Do: "give every rank the same by library under [nccl]", By: failure.User}
		}
	}
	return nil
}

// uniqueID takes NCCL's unique id from rank 0 to all by the bootstrap.
func (c *comm) uniqueID(ctx context.Context) (*C.nccl_unique_id, error) {
	node := c.group.Node()
	id := new(C.nccl_unique_id)
	var err error
	if node.Rank() == 0 {
		err = c.call(ctx, "ncclGetUniqueId", func() C.int { return C.nccl_unique(c.lib.api, c.stream, id) })
	}
	if err := node.Vote(ctx, "get NCCL's unique id", err); err != nil {
		return nil, err
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(id)), C.sizeof_nccl_unique_id)
	got, err := node.Bcast(ctx, "share NCCL's unique id", 0, raw)
	if err != nil {
		return nil, err
	}
	if len(got) != len(raw) {
		return nil, failure.New(failure.Internal, "NCCL's unique id has %d bytes, not %d", len(got), len(raw))
	}
	copy(raw, got)
	return id, nil
}

// taken runs work and gives the device memory that it took, 0 when that is not
// known.
func (c *comm) taken(work func() error) (uint64, error) {
	before, _, err := c.group.Device().MemInfo()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, _, err := c.group.Device().MemInfo()
	return before - min(after, before), err
}

// call runs a set-up call of NCCL with a deadline. It may read the environment
// and load plugins, so the site switch is checked again and signal handlers are
// guarded. After a Timeout the call is still in progress.
func (c *comm) call(ctx context.Context, name string, f func() C.int) error {
	if c.lib.off != "" {
		if err := checkForbidden(c.lib.off); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- sigguard.GuardSignals(func() error { return c.lib.check(name, f()) })
	}()
	deadline := time.NewTimer(c.setup)
	defer deadline.Stop()
	var err error
	select {
	case err = <-done:
	case <-deadline.C:
		return c.hung(name, c.setup, "its set-up waits for every rank and for the network interface it chose", "look at the other ranks; NCCL_SOCKET_IFNAME=lo keeps NCCL to this node, NCCL_DEBUG=INFO shows where it waits")
	case <-ctx.Done():
		return failure.Wrap(failure.Timeout, context.Cause(ctx), "%s was given up", name)
	}
	if err == nil {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: "NCCL cannot run here", Where: c.group.Where(), Why: meaning(err),
		Do: "set NCCL_DEBUG=WARN to see NCCL's own account, or leave NCCL out of --mode", By: failure.User, Err: err}
}

func (c *comm) hung(call string, after time.Duration, why, do string) error {
	return &failure.Error{Code: failure.Timeout, What: fmt.Sprintf("%s did not return within %v", call, after), Where: c.group.Where(), Why: why, Do: do, By: failure.User}
}

// meaning says what an error of NCCL's set-up means here, "" when its own words
// say it all.
func meaning(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	switch last := strings.ToLower(e.Last); {
	case strings.Contains(last, "duplicate gpu"):
		return "two ranks are on one GPU"
	case strings.Contains(last, "driver version is insufficient"):
		return "this NCCL was built for a newer CUDA than the driver has"
	case strings.Contains(last, "no socket interface"), strings.Contains(last, "bootstrap : no"):
		return "NCCL found no network interface; NCCL_SOCKET_IFNAME=lo makes it use loopback"
	}
	return ""
}

// abandon gives up the communicator without the other ranks, because of an error
// that all of them know. That error comes back, unless giving up fails too.
func (c *comm) abandon(because error) error {
	if c.handle == 0 {
		return because
	}
	handle := c.handle
	c.handle = 0
	err := c.call(context.Background(), "ncclCommAbort", func() C.int { return C.nccl_abort(c.lib.api, c.stream, handle) })
	if err != nil {
		return &failure.Error{Code: failure.Device, What: "NCCL could not be given up", Where: c.group.Where(), Err: errors.Join(err, because)}
	}
	return because
}

// close destroys the communicator. It is collective.
func (c *comm) close(ctx context.Context) error {
	if c.handle == 0 {
		return nil
	}
	if err := c.group.Node().Barrier(ctx, "close NCCL"); err != nil {
		return err
	}
	handle := c.handle
	c.handle = 0
	return c.call(ctx, "ncclCommDestroy", func() C.int { return C.nccl_destroy(c.lib.api, c.stream, handle) })
}

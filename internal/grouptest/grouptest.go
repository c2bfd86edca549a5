// Package grouptest runs a whole group of ranks inside one test: each rank is a
// goroutine with a world, a session of the software device and a group of its
// own. All between them is real: sockets, descriptors, shared memory, kernels.
//
// Rules:
//
//   - Every rank's function runs in a goroutine, where testing's FailNow must not
//     be called: it ends by Rank.Fatalf or Rank.OK instead. Then the rank leaves
//     its world, which ends the waits of the others.
//   - Run closes what it opened and fails the test if that fails.
package grouptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// patience bounds the waits between ranks, and for a device, of a test that is
// expected to go on. Machines that run tests can be slow.
const patience = time.Minute

// memoryBytes is the memory of each software GPU unless a test says otherwise.
const memoryBytes = 256 << 20

// Rank is one rank of a test.
type Rank struct {
	*collective.Group
	T     testing.TB // for Errorf and Logf
	World *mpiboot.World
}

// failed is what Fatalf panics with.
type failed struct{ err error }

// Fatalf ends this rank's part and fails the test.
func (r *Rank) Fatalf(format string, args ...any) { panic(failed{fmt.Errorf(format, args...)}) }

// OK ends this rank's part if err is not nil.
func (r *Rank) OK(err error, what string, args ...any) {
	if err != nil {
		r.Fatalf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// Barrier waits for all ranks.
func (r *Rank) Barrier() {
	r.OK(r.Node().Barrier(context.Background(), "barrier of the test"), "barrier")
}

// Wait waits for the group's stream.
func (r *Rank) Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.OK(r.Group.Wait(ctx), "waiting for the device")
}

// Write copies to this rank's device.
func (r *Rank) Write(at device.Ptr, b []byte) { r.OK(r.Device().CopyToDevice(at, b), "CopyToDevice") }

// Read copies n bytes from this rank's device.
func (r *Rank) Read(at device.Ptr, n uint64) []byte {
	b := make([]byte, n)
	r.OK(r.Device().CopyToHost(b, at), "CopyToHost")
	return b
}

// Word reads a 32-bit word from this rank's device.
func (r *Rank) Word(at device.Ptr) uint32 { return binary.LittleEndian.Uint32(r.Read(at, 4)) }

// Alloc makes symmetric memory of the group.
func (r *Rank) Alloc(bytes uint64) *collective.Memory {
	m, err := r.Group.Alloc(context.Background(), "memory of the test", bytes)
	r.OK(err, "Alloc of %d bytes", bytes)
	return m
}

// Close closes memory or an all-reducer of all ranks.
func (r *Rank) Close(c interface{ Close(context.Context) error }) {
	r.OK(c.Close(context.Background()), "Close")
}

// Run opens a group of n ranks and calls part on each. configure, unless nil,
// changes the options with which one rank opens the group.
func Run(t testing.TB, n int, configure func(rank int, o *collective.Options), part func(*Rank)) {
	t.Helper()
	Worlds(t, n, func(w *mpiboot.World) error {
		o := Options()
		if configure != nil {
			configure(w.Rank(), &o)
		}
		g, err := collective.Open(context.Background(), w, o)
		if err != nil {
			return fmt.Errorf("opening the group: %w", err)
		}
		err = (&Rank{g, t, w}).play(part)
		if err != nil {
			// The others must not wait for this rank; what it holds is given back
			// whatever they do.
			w.Finish(failure.Internal)
		}
		if e := g.Close(context.Background()); err == nil && e != nil {
			err = fmt.Errorf("closing the group: %w", e)
		}
		return err
	})
}

// Options are what Run opens a group with.
func Options() collective.Options {
	o := collective.Options{Device: "sim", Timeout: patience / 2}
	o.Sim.MemoryBytes = memoryBytes
	return o
}

// play runs a rank's part and gives what went wrong in it.
func (r *Rank) play(part func(*Rank)) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			err = p.err
		default:
			panic(p)
		}
	}()
	part(r)
	return nil
}

// Worlds joins n ranks and calls part on each. Each error fails the test.
func Worlds(t testing.TB, n int, part func(*mpiboot.World) error) {
	t.Helper()
	id := mpiboot.NewUniqueID()
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank := range n {
		all.Go(func() { errs[rank] = world(rank, n, id, part) })
	}
	all.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func world(rank, n int, id mpiboot.UniqueID, part func(*mpiboot.World) error) error {
	w, err := mpiboot.Join(context.Background(), mpiboot.Options{
		Timeout: patience, Stderr: io.Discard,
		Environ: []string{
			fmt.Sprintf("%s=%d", mpiboot.EnvRank, rank), fmt.Sprintf("%s=%d", mpiboot.EnvSize, n), fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, id)},
	})
	if err != nil {
		return err
	}
	err = part(w)
	if code := w.Finish(failure.CodeOf(err)); err == nil && code != failure.OK {
		err = errors.New("another rank failed")
	}
	return err
}

package devicetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

func testModule(r *rank) {
	_, err := r.LoadModule("this is no PTX")
	r.refused(err, "LoadModule of text that is no PTX", device.InvalidPTX, device.InvalidImage)
	m, err := r.LoadModule(portablePTX)
	r.ok(err, "LoadModule")
	_, err = m.Function("no_such_kernel")
	r.refused(err, "Function of a kernel that is not there", device.NotFound)
	f, err := m.Function("fold")
	r.ok(err, "Function")
	a := f.Attributes()
	if f.Name() != "fold" || a.SharedBytes != 1024 || a.Registers < 1 || a.MaxThreadsPerBlock < 256 {
		r.failf("function %s has attributes %+v, expected 1024 bytes of shared memory", f.Name(), a)
	}
	s := r.stream()
	args := bytesOf(&foldArgs{})
	r.refused(s.Launch(f, 0, 32, 0, args), "Launch of no block", device.InvalidValue)
	r.refused(s.Launch(f, 1, 0, 0, args), "Launch of no thread", device.InvalidValue)
	r.refused(s.Launch(f, 1, 2048, 0, args), "Launch of 2048 threads a block", device.InvalidValue)
	r.refused(s.Launch(f, 1, 32, 1<<20, args), "Launch with 1 MiB of shared memory", device.InvalidValue)
	r.wait(s)
	r.ok(s.Close(), "Close of a stream")
	r.ok(m.Close(), "Close of a module")
}

func testStreamOrder(r *rank) {
	const n = 100_000
	m, p := r.alloc(r.granule)
	s := r.stream()
	affine := r.portable("affine")
	second := p + 4*n
	for range 3 {
		// 3, then 3·2+1 = 7, copied, then 7·5+2 = 37 over the original.
		r.ok(s.Set32(p, 3, n), "Set32")
		r.launch(s, affine, 7, 128, bytesOf(&affineArgs{Out: p, In: p, N: n, Factor: 2, Term: 1}))
		r.ok(s.Copy(second, p, 4*n), "Copy")
		r.launch(s, affine, 3, 64, bytesOf(&affineArgs{Out: p, In: second, N: n, Factor: 5, Term: 2}))
	}
	r.wait(s)
	if done, err := s.Query(); err != nil || !done {
		r.failf("Query after Wait: %v, %v", done, err)
	}
	r.expect("copied words", second, n, func(uint32) uint32 { return 7 })
	r.expect("final words", p, n, func(uint32) uint32 { return 37 })
	r.expect("words behind", p+8*n, 100, func(uint32) uint32 { return 0 })
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

// testBlocks runs many blocks, each with shared memory and block barriers.
func testBlocks(r *rank) {
	const grid, block = 100, 256
	m, p := r.alloc(r.granule)
	out := p + 4*grid*block
	r.write(p, ramp(0, grid*block))
	s := r.stream()
	r.launch(s, r.portable("fold"), grid, block, bytesOf(&foldArgs{Out: out, In: p}))
	r.wait(s)
	r.expect("sum of a block", out, grid, func(b uint32) uint32 { return block*block*b + block*(block-1)/2 })
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

// hold enqueues a kernel that keeps the stream busy until let is called, but
// not for longer than limit. The flag is the word at p, the outcome the next.
func (r *rank) hold(s device.Stream, p device.Ptr, limit time.Duration) {
	r.write(p, []uint32{0, 0})
	r.launch(s, r.portable("await"), 1, 32, bytesOf(&awaitArgs{Data: p + 64, Flag: p, Out: p + 128, Outcome: p + 4,
		Nanoseconds: uint64(limit), N: 1, Value: 1}))
}

// let ends a hold and waits for the stream.
func (r *rank) let(s device.Stream, p device.Ptr) {
	r.write(p, []uint32{1})
	r.wait(s)
	r.expect("outcome of a hold", p+4, 1, func(uint32) uint32 { return 1 })
}

func testWaitDeadline(r *rank) {
	m, p := r.alloc(r.granule)
	s := r.stream()
	r.hold(s, p, patience/2)
	if done, err := s.Query(); err != nil || done {
		r.failf("Query while a kernel runs: %v, %v", done, err)
	}
	reason := errors.New("the test's deadline")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Millisecond, reason)
	defer cancel()
	start := time.Now()
	if err := s.Wait(ctx); !errors.Is(err, reason) {
		r.failf("Wait with a deadline: %v, expected its cause", err)
	}
	if took := time.Since(start); took > patience/4 {
		r.failf("Wait with a deadline of 30 ms took %v", took)
	}
	r.let(s, p)

	// The kernel's own deadline, by the clock of the device.
	start = time.Now()
	r.hold(s, p, 20*time.Millisecond)
	r.wait(s)
	if took := time.Since(start); took < 18*time.Millisecond {
		r.failf("a kernel with a deadline of 20 ms ended after %v", took)
	}
	r.expect("outcome of a wait for nobody", p+4, 1, func(uint32) uint32 { return 2 })
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

// testTwoStreams lets a kernel of one stream wait for one of another.
func testTwoStreams(r *rank) {
	const n = 1000
	m, p := r.alloc(r.granule)
	flag, outcome, data, out := p, p+4, p+4096, p+65536
	waiting, raising := r.stream(), r.stream()
	await, signal := r.portable("await"), r.portable("signal")
	for value := uint32(1); value <= 5; value++ {
		r.launch(waiting, await, 1, 64, bytesOf(&awaitArgs{Data: data, Flag: flag, Out: out, Outcome: outcome,
			Nanoseconds: uint64(patience / 2), N: n, Value: value}))
		r.launch(raising, signal, 1, 64, bytesOf(&signalArgs{Data: data, Flag: flag, N: n, Value: value}))
		r.wait(raising)
		r.wait(waiting)
		r.expect("outcome", outcome, 1, func(uint32) uint32 { return 1 })
		r.expect("data behind the flag", out, n, func(i uint32) uint32 { return value + i })
	}
	r.ok(waiting.Close(), "Close of a stream")
	r.ok(raising.Close(), "Close of a stream")
	r.free(m)
}

func testEvents(r *rank) {
	m, p := r.alloc(r.granule)
	s := r.stream()
	before, after := r.event(), r.event()
	r.ok(s.Record(before), "Record")
	r.wait(s)
	r.hold(s, p, patience/2)
	r.ok(s.Record(after), "Record")
	_, err := after.Since(before)
	r.refused(err, "Since of an event that was not reached", device.NotReady)
	const pause = 50 * time.Millisecond
	start := time.Now()
	time.Sleep(pause)
	r.let(s, p)
	longest := time.Since(start) + patience/4
	took, err := after.Since(before)
	r.ok(err, "Since")
	if took < pause*9/10 || took > longest {
		r.failf("the events are %v apart, expected %v to %v", took, pause, longest)
	}
	r.ok(before.Close(), "Close of an event")
	r.ok(after.Close(), "Close of an event")
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

func (r *rank) event() device.Event {
	e, err := r.NewEvent()
	r.ok(err, "NewEvent")
	return e
}

func testGraph(r *rank) {
	const n = 1000
	m, p := r.alloc(r.granule)
	s := r.stream()
	affine := r.portable("affine")
	copied := p + 4*n
	args := affineArgs{Out: p, In: p, N: n, Factor: 2, Term: 1}
	r.ok(s.BeginCapture(), "BeginCapture")
	r.launch(s, affine, 2, 128, bytesOf(&args))
	r.ok(s.Copy(copied, p, 4*n), "Copy")
	r.ok(s.Set32(p+8*n, 9, n), "Set32")
	g, err := s.EndCapture()
	r.ok(err, "EndCapture")
	args = affineArgs{} // the graph has its own copy
	r.wait(s)
	r.expect("memory after recording only", p, 3*n, func(uint32) uint32 { return 0 })
	for range 3 {
		r.ok(s.LaunchGraph(g), "LaunchGraph")
	}
	r.wait(s)
	r.expect("after three launches of the graph", p, n, func(uint32) uint32 { return 7 })
	r.expect("copied by the graph", copied, n, func(uint32) uint32 { return 7 })
	r.expect("set by the graph", p+8*n, n, func(uint32) uint32 { return 9 })
	r.ok(g.Close(), "Close of a graph")
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

// testLaunchAllocates counts allocations of Launch while the stream is held up,
// so that nothing else runs.
func testLaunchAllocates(r *rank) {
	m, p := r.alloc(r.granule)
	s := r.stream()
	affine := r.portable("affine")
	args := bytesOf(&affineArgs{Out: p + 4096, In: p + 4096, N: 1, Factor: 1})
	const launches = 200
	var perLaunch float64
	for range 2 { // the first round makes the queue large enough
		r.hold(s, p, patience/2)
		time.Sleep(20 * time.Millisecond) // the kernel has started
		var err error
		perLaunch = testing.AllocsPerRun(launches, func() { err = errors.Join(err, s.Launch(affine, 1, 1, 0, args)) })
		r.ok(err, "Launch")
		r.let(s, p)
	}
	if perLaunch != 0 {
		r.failf("Launch makes %v allocations", perLaunch)
	}
	r.ok(s.Close(), "Close of a stream")
	r.free(m)
}

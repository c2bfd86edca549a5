package devicetest

import (
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// testWaitEvent holds one stream up and lets another one wait for a moment of it.
func testWaitEvent(r *rank) {
	const n = 1000
	m, p := r.alloc(r.granule)
	first, second := r.stream(), r.stream()
	moment, never := r.event(), r.event()
	data, out := p+4096, p+65536
	r.ok(second.WaitEvent(never), "WaitEvent of an event that was never recorded")
	r.wait(second)
	for value := uint32(1); value <= 3; value++ {
		r.hold(first, p, patience/2)
		r.ok(first.Set32(data, value, n), "Set32")
		r.ok(first.Record(moment), "Record")
		r.ok(second.WaitEvent(moment), "WaitEvent")
		r.ok(second.Copy(out, data, 4*n), "Copy")
		// What the event marks was settled by the call: a later record is no concern
		// of it.
		r.ok(first.Record(moment), "Record")
		time.Sleep(10 * time.Millisecond)
		if done, err := second.Query(); err != nil || done {
			r.failf("the stream that waits is done: %v, %v", done, err)
		}
		r.let(first, p)
		r.wait(second)
		r.expect("what was copied behind the event", out, n, func(uint32) uint32 { return value })
	}
	for _, c := range []interface{ Close() error }{moment, never, second, first} {
		r.ok(c.Close(), "Close")
	}
	r.free(m)
}

// testBranches records work of three streams into one graph: each branch has its
// order, and events order pieces of different branches.
func testBranches(r *rank) {
	const n = 20_000
	m, p := r.alloc(r.granule)
	at := func(i int) device.Ptr { return p + device.Ptr(4*n*i) }
	s, left, right := r.stream(), r.stream(), r.stream()
	affine := r.portable("affine")
	turn := func(on device.Stream, out, in device.Ptr, factor, term uint32) {
		r.launch(on, affine, 5, 128, bytesOf(&affineArgs{Out: out, In: in, N: n, Factor: factor, Term: term}))
	}
	fork, leftDone, rightDone := r.event(), r.event(), r.event()
	r.ok(s.BeginCapture(), "BeginCapture")
	turn(s, at(0), at(0), 1, 1) // at(0) counts the launches
	r.ok(s.Record(fork), "Record")
	for _, b := range []device.Stream{left, right} {
		r.ok(b.WaitEvent(fork), "WaitEvent")
	}
	if !s.Capturing() || left.Capturing() {
		r.failf("Capturing of the stream that records is %v, of one that joined %v", s.Capturing(), left.Capturing())
	}
	turn(left, at(1), at(0), 2, 0)
	turn(left, at(2), at(1), 3, 1) // 6k+1
	r.ok(left.Record(leftDone), "Record")
	turn(left, at(1), at(1), 1, 5) // 2k+5
	r.ok(right.Copy(at(3), at(0), 4*n), "Copy")
	r.ok(right.WaitEvent(leftDone), "WaitEvent")
	turn(right, at(4), at(2), 10, 0) // 60k+10
	turn(right, at(3), at(3), 7, 0)  // 7k
	r.ok(right.Record(rightDone), "Record")
	r.ok(s.WaitEvent(rightDone), "WaitEvent")
	r.ok(left.Record(leftDone), "Record")
	r.ok(s.WaitEvent(leftDone), "WaitEvent")
	r.ok(s.Copy(at(5), at(4), 4*n), "Copy")
	g, err := s.EndCapture()
	r.ok(err, "EndCapture")
	_, err = leftDone.Since(fork)
	r.refused(err, "Since of events inside a graph")
	// Streams that took part are free again.
	r.wait(left)
	r.expect("memory after recording only", at(0), 6*n, func(uint32) uint32 { return 0 })
	const launches = 20
	for range launches {
		r.ok(s.LaunchGraph(g), "LaunchGraph")
	}
	r.wait(s)
	for i, want := range []uint32{launches, 2*launches + 5, 6*launches + 1, 7 * launches, 60*launches + 10, 60*launches + 10} {
		r.expect("a result of the branches", at(i), n, func(uint32) uint32 { return want })
	}
	for _, c := range []interface{ Close() error }{g, fork, leftDone, rightDone, left, right, s} {
		r.ok(c.Close(), "Close")
	}
	r.free(m)
}

// testUnjoined: a branch that nothing waits for is no graph.
func testUnjoined(r *rank) {
	m, p := r.alloc(r.granule)
	s, other := r.stream(), r.stream()
	e := r.event()
	r.ok(s.BeginCapture(), "BeginCapture")
	r.ok(s.Set32(p, 1, 1), "Set32")
	r.ok(s.Record(e), "Record")
	r.ok(other.WaitEvent(e), "WaitEvent")
	r.ok(other.Set32(p+4, 1, 1), "Set32")
	_, err := s.EndCapture()
	r.refused(err, "EndCapture with a branch that nothing waits for", device.CaptureUnjoined)
	// Both streams work again.
	r.ok(s.Set32(p, 5, 1), "Set32")
	r.ok(other.Set32(p+4, 6, 1), "Set32")
	r.wait(s)
	r.wait(other)
	r.expect("words", p, 2, func(i uint32) uint32 { return 5 + i })
	for _, c := range []interface{ Close() error }{e, other, s} {
		r.ok(c.Close(), "Close")
	}
	r.free(m)
}

package fallback

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// drawCopies is a plan for copy engines and what it was made from.
func drawCopies(t *rapid.T, log2 uint) (collective.Call, copyPlan, uint64) {
	_, ranks, most, u := draw(t)
	c, _ := drawCall(t, 1<<rapid.UintRange(4, log2).Draw(t, "log2 bytes"))
	if rapid.Bool().Draw(t, "most of it") { // not a few bytes
		c.Count = max(c.Count, 1<<(log2-1)/uint64(c.DType.Size()))
	}
	if rapid.Bool().Draw(t, "tune chunk") {
		u.Chunk = rapid.OneOf(rapid.Uint64Range(1, 2048), rapid.Uint64Range(1, 1<<40)).Draw(t, "chunk")
	}
	if rapid.Bool().Draw(t, "tune slots") {
		u.Slots = rapid.OneOf(rapid.Uint32Range(1, 5), rapid.Uint32Range(1, 1000)).Draw(t, "slots")
	}
	scratch := rapid.Uint64Range(collective.MinScratchBytes, 64<<20).Draw(t, "scratch")
	p := planCopies(c, ranks, most, scratch, u)
	checkGeometry(t, p.Geometry, min(most, copyBlocks), u)
	checkAtOnce(t, p.Geometry, most)
	if again := planCopies(c, ranks, most, scratch, collective.Tuning{Blocks: p.Blocks, Threads: p.Threads, Chunk: p.chunk, Slots: uint32(p.slots)}); again != p {
		t.Fatalf("%+v asked for is %+v", p, again)
	}
	return c, p, scratch
}

// Parts cover the message once, and fit their rows, which fit scratch memory and lie
// as in the send buffer, apart from each other.
func TestCopiesCoverMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, p, scratch := drawCopies(t, 33)
		if p.chunks < 1 || p.slots < leastSlots || p.slots > maxCopySlots {
			t.Fatalf("%+v", p)
		}
		next := uint64(0)
		for r := range p.ranks {
			for k := range p.chunks {
				from, to := p.part(r, k)
				if from == to {
					continue
				}
				if from != next || to > c.Bytes() || to-from > p.chunk || from%copyUnit != 0 || (to-from)%uint64(c.DType.Size()) != 0 {
					t.Fatalf("%+v: part %d of rank %d is %d to %d behind %d of %d bytes", p, k, r, from, to, next, c.Bytes())
				}
				next = to
			}
		}
		if next != c.Bytes() {
			t.Fatalf("%+v: parts end at %d of %d bytes", p, next, c.Bytes())
		}
		end := uint64(0)
		for k := range p.slots {
			for d := 1; d < p.ranks; d++ {
				at := uint64(p.at(k, d))
				if at < end || (at-uint64(c.Send.Local()))%kernels.PackBytes != 0 {
					t.Fatalf("%+v: the row of slot %d, distance %d is at %d behind %d", p, k, d, at, end)
				}
				end = at + p.chunk
			}
		}
		if end > scratch {
			t.Fatalf("%+v: slots end at %d, there are %d", p, end, scratch)
		}
	})
}

// world is what all ranks do, as a graph: which steps are done for certain before
// which.
type world struct {
	steps  [][]step // by rank
	before map[[2]int]map[[2]int]bool
}

// newWorld follows streams, events and barriers. entering and leaving a barrier are
// one step; what a rank did before it entered is before what a peer does after it.
func newWorld(p copyPlan) *world {
	w := &world{before: map[[2]int]map[[2]int]bool{}}
	for r := range p.ranks {
		w.steps = append(w.steps, p.steps(r))
	}
	barrier := func(s step) bool { return s.stage == meet || s.stage == finish }
	// own are the steps of the same rank that a step comes directly behind.
	own := func(r, i int) (out []int) {
		s := w.steps[r][i]
		if s.after >= 0 {
			out = append(out, s.after)
		}
		for j := i - 1; j >= 0; j-- {
			if w.steps[r][j].stage.queue() == s.stage.queue() {
				return append(out, j)
			}
		}
		return out
	}
	var all func(r, i int) map[[2]int]bool
	all = func(r, i int) map[[2]int]bool {
		key := [2]int{r, i}
		if m := w.before[key]; m != nil {
			return m
		}
		m := map[[2]int]bool{}
		w.before[key] = m
		take := func(r, j int, itself bool) {
			if itself {
				m[[2]int{r, j}] = true
			}
			for b := range all(r, j) {
				m[b] = true
			}
		}
		for _, j := range own(r, i) {
			take(r, j, true)
			if !barrier(w.steps[r][j]) {
				continue
			}
			// Behind a barrier is also what each peer put before its own.
			for peer := range p.ranks {
				for k, s := range w.steps[peer] {
					if peer != r && s.stage == w.steps[r][j].stage && s.chunk == w.steps[r][j].chunk {
						take(peer, k, false)
					}
				}
			}
		}
		return m
	}
	for r := range p.ranks {
		for i := range w.steps[r] {
			all(r, i)
		}
	}
	return w
}

// find gives the index of a rank's step, -1 where it has none.
func (w *world) find(rank int, s copyStage, chunk int) int {
	for i, x := range w.steps[rank] {
		if x.stage == s && x.chunk == chunk {
			return i
		}
	}
	return -1
}

// ordered tells whether a rank's step is done before another one's begins; a step
// that does not exist disturbs nobody.
func (w *world) ordered(r, i, r2, i2 int) bool {
	return i < 0 || i2 < 0 || w.before[[2]int{r2, i2}][[2]int{r, i}]
}

// Whatever one step writes and another one reads or writes is ordered, on all ranks.
func TestCopiesAreOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p, _ := drawCopies(t, 15)
		if p.chunks*p.ranks > 80 {
			t.Skip("too many steps for a quick test")
		}
		w := newWorld(p)
		for r := range p.ranks {
			last := len(w.steps[r]) - 1
			for peer := range p.ranks {
				for k := range p.chunks {
					arrived, reduced, sent := w.find(peer, scatter, k), w.find(r, reduce, k), w.find(r, gather, k)
					for _, x := range []struct {
						what         string
						r, i, r2, i2 int
					}{
						{"a reduction finds the peers' parts", peer, arrived, r, reduced},
						{"a result is copied when it is there", r, reduced, r, sent},
						{"a slot is overwritten when it was reduced", r, reduced, peer, w.find(peer, scatter, k+p.slots)},
						{"a result overwrites the place of a part that was copied", peer, arrived, r, sent},
						{"the call ends when results are there", peer, w.find(peer, gather, k), r, last + 1},
						{"the call ends when scratch memory is free", peer, w.find(peer, reduce, k), r, last + 1},
						{"own copies end with the call", r, w.find(r, scatter, k), r, last + 1},
					} {
						if peer == r && x.r == peer && x.what != "own copies end with the call" && x.what != "a result is copied when it is there" {
							continue
						}
						if x.i2 == last+1 { // behind finish
							if x.i >= 0 && !w.before[[2]int{r, last}][[2]int{x.r, x.i}] && !w.behindFinish(p, r, x.r, x.i) {
								t.Fatalf("%+v: not so: %s (ranks %d and %d, chunk %d)", p, x.what, r, peer, k)
							}
							continue
						}
						if !w.ordered(x.r, x.i, x.r2, x.i2) {
							t.Fatalf("%+v: not so: %s (ranks %d and %d, chunk %d)", p, x.what, r, peer, k)
						}
					}
				}
			}
		}
	})
}

// behindFinish tells whether a peer's step is done when a rank has left the last
// barrier.
func (w *world) behindFinish(p copyPlan, r, peer, i int) bool {
	return peer != r && w.before[[2]int{peer, len(w.steps[peer]) - 1}][[2]int{peer, i}]
}

// Ranks whose hardware has a single queue, in whatever order streams and events
// allow, all come to the end.
func TestCopiesNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p, _ := drawCopies(t, 15)
		if p.chunks > 30 {
			t.Skip("too many steps for a quick test")
		}
		queues := make([][]step, p.ranks)
		for r := range queues {
			steps := p.steps(r)
			var placed [copyQueues]int // per stream: steps of it that are in the queue
			done := map[int]bool{}
			for len(queues[r]) < len(steps) {
				var ready []int
				for q := range copyQueues {
					n := 0
					for i, s := range steps {
						if s.stage.queue() != q {
							continue
						}
						if n == placed[q] {
							if s.after < 0 || done[s.after] {
								ready = append(ready, i)
							}
							break
						}
						n++
					}
				}
				i := rapid.SampledFrom(ready).Draw(t, "next")
				placed[steps[i].stage.queue()]++
				done[i] = true
				queues[r] = append(queues[r], steps[i])
			}
		}
		// Each rank goes on until it is at a barrier; one that all are at lets them on.
		at := make([]int, p.ranks)
		for {
			var waiting []step
			for r := range queues {
				for at[r] < len(queues[r]) && queues[r][at[r]].stage != meet && queues[r][at[r]].stage != finish {
					at[r]++
				}
				if at[r] < len(queues[r]) {
					waiting = append(waiting, queues[r][at[r]])
				}
			}
			if len(waiting) == 0 {
				return
			}
			for _, s := range waiting {
				if len(waiting) != p.ranks || s.stage != waiting[0].stage || s.chunk != waiting[0].chunk {
					t.Fatalf("%+v: ranks wait at different barriers: %+v", p, waiting)
				}
			}
			for r := range at {
				at[r]++
			}
		}
	})
}

// What a step awaits was enqueued before it, and its event does not stand for
// another step by then.
func TestCopiesEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p, _ := drawCopies(t, 20)
		steps := p.steps(rapid.IntRange(0, p.ranks-1).Draw(t, "rank"))
		recorded := map[[2]int]int{}
		begun := [copyQueues]bool{mainQueue: true}
		for i, s := range steps {
			if s.after >= 0 {
				a := steps[s.after]
				if got, ok := recorded[[2]int{int(a.stage), a.chunk % maxCopySlots}]; !ok || got != s.after || a.stage.queue() == s.stage.queue() {
					t.Fatalf("%+v: step %d, %+v, waits for %+v, whose event stands for step %d", p, i, s, a, got)
				}
			}
			if q := s.stage.queue(); !begun[q] && s.after == inOrder {
				t.Fatalf("%+v: step %d, %+v, may begin before the call", p, i, s)
			} else {
				begun[q] = true
			}
			if s.awaited {
				recorded[[2]int{int(s.stage), s.chunk % maxCopySlots}] = i
			}
		}
	})
}

// Sizes that are chosen where nothing is asked for: 32 MiB of scratch memory are
// used well, and small messages are one chunk.
func TestCopyChunks(t *testing.T) {
	for _, x := range []struct {
		bytes  uint64
		ranks  int
		chunk  uint64
		chunks int
	}{
		{1 << 10, 2, 512, 1}, {4 << 20, 2, 2 << 20, 1}, {64 << 20, 2, 4 << 20, 8}, {1 << 30, 2, 8 << 20, 64},
		{64 << 20, 8, 1 << 20, 8}, {1 << 30, 8, 1187840, 113},
	} {
		c := collective.Call{Count: x.bytes, DType: collective.Uint8}
		c.Send.Address, c.Recv.Address = device.Ptr(1<<40), device.Ptr(1<<41)
		if p := planCopies(c, x.ranks, 132, 32<<20, collective.Tuning{}); p.chunk != x.chunk || p.chunks != x.chunks || p.slots != copySlots {
			t.Errorf("%d bytes, %d ranks: %+v, want %d chunks of %d", x.bytes, x.ranks, p, x.chunks, x.chunk)
		}
	}
}

// What is tried is possible, and differs.
func TestCopyTunings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes, ranks := rapid.Uint64Range(1, 1<<36).Draw(t, "bytes"), rapid.IntRange(2, kernels.MaxRanks).Draw(t, "ranks")
		scratch := rapid.Uint64Range(collective.MinScratchBytes, 64<<20).Draw(t, "scratch")
		seen := map[collective.Tuning]bool{}
		all := copyTunings(bytes, ranks, scratch)
		if all[0] != (collective.Tuning{}) || len(all) > 40 {
			t.Fatalf("%d tunings: %+v", len(all), all)
		}
		for _, u := range all[1:] {
			c := collective.Call{Count: bytes, DType: collective.Uint8}
			p := planCopies(c, ranks, 132, scratch, u)
			if seen[u] || p.chunk > u.Chunk || uint32(p.slots) != u.Slots || u.Chunk-p.chunk > uint64(p.chunks)*copyUnit+u.Chunk/2 {
				t.Fatalf("%+v becomes %+v", u, p)
			}
			seen[u] = true
		}
	})
}

package grouptest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// Mode is an all-reduce under test.
type Mode struct {
	Name string
	// New makes it for buffers in any of the memories. It is collective.
	New func(r *Rank, t collective.Tuning, memories ...*collective.Memory) collective.AllReducer
	// MaxBytes is the largest message that it takes; nil where there is no limit.
	MaxBytes func(ranks int) uint64
	// Aligned says that buffers must start at a multiple of 16 bytes.
	Aligned bool
	// Plain says that it takes memory that is not symmetric.
	Plain bool
}

// arenaBytes is the size of each memory of a test.
const arenaBytes = 4 << 20

// counts are what divides badly: none, one, primes, one more or less than a
// whole number of packs and blocks.
var counts = []uint64{0, 1, 2, 3, 5, 7, 13, 17, 63, 97, 251, 509, 1009, 1024, 2053, 4093, 5000}

// Test runs the whole suite.
func (m Mode) Test(t *testing.T) {
	t.Run("matrix", m.testMatrix)
	t.Run("counts", m.testCounts)
	t.Run("random", m.testRandom)
	t.Run("reuse", m.testReuse)
	t.Run("tuning", m.testTuning)
	if !m.Aligned {
		t.Run("alignment", m.testAlignment)
	}
	if m.Plain {
		t.Run("plain memory", m.testPlain)
	}
}

// bench is an all-reduce of one rank with buffers to use it on. Send and receive
// buffers are in the same memory or in two.
type bench struct {
	*Rank
	reducer collective.AllReducer
	max     uint64 // bytes
	aligned bool
	arenas  [2]*Arena
	turn    int // chooses the arenas
	seed    uint64
	started []*Started
}

// run opens a group of n ranks with the mode and two memories.
func (m Mode) run(t *testing.T, n int, tuning collective.Tuning, part func(*bench)) {
	t.Helper()
	Run(t, n, nil, func(r *Rank) {
		a, b := r.Alloc(arenaBytes), r.Alloc(arenaBytes)
		w := &bench{Rank: r, reducer: m.New(r, tuning, a, b), max: ^uint64(0), aligned: m.Aligned, arenas: [2]*Arena{NewArena(a), NewArena(b)}}
		if m.MaxBytes != nil && n > 1 {
			w.max = m.MaxBytes(n)
		}
		part(w)
		w.finish()
		r.Close(w.reducer)
		r.Close(b)
		r.Close(a)
	})
}

// start enqueues a case in the next buffers. The skews are in elements.
func (w *bench) start(d collective.DType, op collective.Op, count uint64, inPlace bool, sendSkew, recvSkew uint64) {
	size := uint64(d.Size())
	count = min(count, w.max/size)
	if w.aligned {
		sendSkew, recvSkew = 0, 0
	}
	need := 3 * (count*size + 2*Guard + 32)
	if w.arenas[0].next+need > w.arenas[0].bytes || w.arenas[1].next+need > w.arenas[1].bytes {
		w.finish()
	}
	w.turn++
	w.seed++
	c := Case{Send: w.arenas[w.turn&1].Take(count*size, sendSkew*size%16), Count: count, DType: d, Op: op, Seed: w.seed}
	c.Recv = c.Send
	if !inPlace {
		c.Recv = w.arenas[w.turn>>1&1].Take(count*size, recvSkew*size%16)
	}
	c.Source = w.arenas[0].Take(count*size, 0)
	w.started = append(w.started, w.Start(w.reducer, c))
}

// finish waits for all that was started and verifies it.
func (w *bench) finish() {
	w.Wait()
	for _, s := range w.started {
		s.Verify()
		s.Close()
	}
	w.started = nil
	w.arenas[0].Reset()
	w.arenas[1].Reset()
}

// testMatrix goes over ranks, data types and operations. A group of three has all
// combinations and the others a tenth each: every rank compiles every kernel.
func (m Mode) testMatrix(t *testing.T) {
	for n := 1; n <= collective.MaxRanks; n++ {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			for i, d := range collective.DTypes() {
				for j, op := range collective.Ops() {
					k := i*len(collective.Ops()) + j
					if w.reducer.Supports(d, op) != nil || n != 3 && (i+2*j+n)%10 != 0 {
						continue
					}
					w.start(d, op, counts[k%len(counts)], false, 0, 0)
					w.start(d, op, counts[(k+6)%len(counts)], true, 0, 0)
					w.start(d, op, counts[(k+11)%len(counts)], k%2 == 0, 1, 1)
				}
			}
		})
	}
}

// testCounts goes over all counts, in both placements.
func (m Mode) testCounts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			for _, c := range counts {
				w.start(collective.Float, collective.Sum, c, false, 0, 0)
				w.start(collective.Float, collective.Sum, c, true, 0, 0)
			}
		})
	}
}

// testAlignment goes over the places of both buffers modulo 16 bytes.
func (m Mode) testAlignment(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			for _, d := range []collective.DType{collective.Int8, collective.Half, collective.Int32, collective.Double} {
				if w.reducer.Supports(d, collective.Sum) != nil {
					continue
				}
				per := uint64(16 / d.Size())
				for send := range per {
					for _, recv := range []uint64{send, 0, (send + 1) % per, (send + per/2) % per} {
						w.start(d, collective.Sum, 7*per+3+send, false, send, recv)
					}
					w.start(d, collective.Sum, 300+send, true, send, send)
					w.start(d, collective.Sum, 1+send%3, false, send, send) // shorter than the head
				}
			}
		})
	}
}

// testRandom enqueues calls of all kinds one after the other, and waits at the
// end only.
func (m Mode) testRandom(t *testing.T) {
	for n := 2; n <= collective.MaxRanks; n += 3 {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			rng := rand.New(rand.NewPCG(7, uint64(n))) // the same on every rank
			types := []collective.DType{collective.Float, collective.Half, collective.Int64}
			for range 100 {
				count := rng.Uint64N(1 << rng.UintN(13))
				w.start(types[rng.IntN(len(types))], collective.Sum, count, rng.IntN(2) == 0, rng.Uint64N(16), rng.Uint64N(16))
			}
		})
	}
}

// testReuse gives one send buffer new contents for every call, on the stream: a
// call may end only when no peer needs the buffer any more.
func (m Mode) testReuse(t *testing.T) {
	for _, n := range []int{2, 5} {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			count := min(3000, w.max/4)
			send := w.arenas[0].Take(4*count, 0)
			for i := range uint64(40) {
				w.started = append(w.started, w.Start(w.reducer, Case{
					Send: send, Recv: w.arenas[1].Take(4*count, 0), Source: w.arenas[0].Take(4*count, 0), Reused: true,
					Count: count, DType: collective.Float, Op: collective.Sum, Seed: i,
				}))
			}
		})
	}
}

// testTuning tries grids and blocks that no plan would choose.
func (m Mode) testTuning(t *testing.T) {
	for i, tuning := range []collective.Tuning{{Blocks: 1, Threads: 32}, {Blocks: 1, Threads: 512}, {Blocks: 7, Threads: 96}, {Blocks: 32, Threads: 64}, {Blocks: 256, Threads: 32}, {Blocks: 256, Threads: 512}, {Blocks: 200}} {
		m.run(t, 2+i, tuning, func(w *bench) {
			for _, c := range []uint64{1, 1009, 20011} {
				w.start(collective.Float, collective.Sum, c, false, 1, 1)
				w.start(collective.Float, collective.Sum, c, true, 0, 0)
			}
			// A mode may have room for less than was asked for, never use more; and never
			// more blocks than run at once, for each waits for one of every peer's: a
			// multiprocessor has registers for 512 threads of any kernel.
			s := w.started[0]
			var name string
			var blocks, threads uint32
			if _, err := fmt.Sscanf(s.Prepared.Algorithm(), "%s %dx%d", &name, &blocks, &threads); err != nil || blocks > tuning.Blocks || tuning.Threads != 0 && threads > tuning.Threads {
				w.Fatalf("algorithm %q was tuned to %dx%d, %v", s.Prepared.Algorithm(), tuning.Blocks, tuning.Threads, err)
			}
			if most := uint32(w.Group.Devices()[0].SMs) * min(512/threads, 8); blocks > most {
				w.Fatalf("algorithm %q was tuned to %dx%d; %d such blocks run at once", s.Prepared.Algorithm(), tuning.Blocks, tuning.Threads, most)
			}
			if p := s.Prepared.Tuning(); p.Blocks != blocks || p.Threads != threads {
				w.Fatalf("algorithm %q has the tuning %+v", s.Prepared.Algorithm(), p)
			}
		})
	}
}

// testPlain uses memory that peers cannot reach, for either buffer and both.
func (m Mode) testPlain(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		m.run(t, n, collective.Tuning{}, func(w *bench) {
			plain, free := w.PlainArena(arenaBytes)
			symmetric := w.arenas[0]
			for i, arenas := range [][2]*Arena{{plain, plain}, {plain, symmetric}, {symmetric, plain}} {
				w.arenas = arenas
				for j, c := range counts {
					w.turn = 1 // so that it sends from the first and receives in the second
					w.start(collective.Half, collective.Sum, c, (i+j)%3 == 0, uint64(j), uint64(j+i))
				}
				w.Wait()
			}
			w.finish()
			free()
			w.arenas = [2]*Arena{symmetric, symmetric}
		})
	}
}

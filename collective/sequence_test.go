package collective_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Calls of all modes follow each other on one stream, and the host waits at the
// end only.
func TestMixedModes(t *testing.T) {
	for _, n := range []int{2, 5, 8} {
		grouptest.Run(t, n, nil, func(r *grouptest.Rank) {
			m := r.Alloc(8 << 20)
			all := reducers(r, m)
			arena := grouptest.NewArena(m)
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			for range 2 {
				var started []*grouptest.Started
				for range 80 {
					count := 1 + rng.Uint64N(1<<rng.UintN(12))
					c := grouptest.Case{Send: arena.Take(4*count, 0), Count: count, DType: collective.Int32, Seed: rng.Uint64()}
					c.Recv = c.Send
					if rng.IntN(2) == 0 {
						c.Recv = arena.Take(4*count, 0)
					}
					c.Source = arena.Take(4*count, 0)
					started = append(started, r.Start(all[rng.IntN(len(all))], c))
				}
				r.Wait()
				for _, s := range started {
					s.Verify()
					s.Close()
				}
				arena.Reset()
			}
			closeAll(r, all)
			r.Close(m)
		})
	}
}

// An all-reduce in place, again and again by changing modes: after k
// calls an element is its first sum times n^(k-1), modulo 2^32.
func TestChain(t *testing.T) {
	const n, calls, count = 3, 40, 777
	grouptest.Run(t, n, nil, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		all := reducers(r, m)
		buffer := grouptest.NewArena(m).Take(4*count, 0)
		s := r.Prepare(all[0], grouptest.Case{Send: buffer, Recv: buffer, Count: count, DType: collective.Int32, Op: collective.Sum})
		factor := uint32(1)
		for k := range calls {
			p, err := all[k%len(all)].Prepare(s.Case.Call())
			r.OK(err, "Prepare")
			r.OK(p.Enqueue(r.Stream()), "Enqueue")
			defer p.Close()
			if k > 0 {
				factor *= n
			}
		}
		r.Wait()
		s.VerifyTimes(factor)
		closeAll(r, all)
		r.Close(m)
	})
}

// A graph of calls of all modes is launched many times. Nothing on the host or
// on the device is set back in between.
func TestGraphReplay(t *testing.T) {
	for _, n := range []int{2, 4} {
		grouptest.Run(t, n, nil, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			all := reducers(r, m)
			arena := grouptest.NewArena(m)
			var started []*grouptest.Started
			for i, a := range all {
				count := uint64(100 + 333*i)
				started = append(started, r.Prepare(a, grouptest.Case{Send: arena.Take(4*count, 0), Recv: arena.Take(4*count, 0), Count: count, DType: collective.Float, Seed: uint64(i)}))
			}
			r.OK(r.Stream().BeginCapture(), "BeginCapture")
			for _, s := range started {
				r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue")
			}
			g, err := r.Stream().EndCapture()
			r.OK(err, "EndCapture")
			for round := range 3 {
				for range 15 {
					r.OK(r.Stream().LaunchGraph(g), "LaunchGraph")
				}
				if round == 1 { // calls outside the graph in between
					for _, s := range started {
						r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue")
					}
				}
				r.Wait()
				for _, s := range started {
					s.Verify()
					s.Poison()
				}
				r.Barrier() // a peer's next launch may store into what was poisoned
			}
			r.OK(g.Close(), "closing the graph")
			for _, s := range started {
				s.Close()
			}
			closeAll(r, all)
			r.Close(m)
		})
	}
}

// Where counters of struct Signals stand, one a block; see control.cuh.
const (
	epochAt        = 256
	packetEpochAt  = epochAt + 4*kernels.MaxBlocks
	ringMessagesAt = packetEpochAt + 4*kernels.MaxBlocks
)

// Counters are set a few calls before they wrap, on all ranks alike, as if as
// many calls had been made.
func TestCountersWrap(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		grouptest.Run(t, n, nil, func(r *grouptest.Rank) {
			m := r.Alloc(4 << 20)
			all := reducers(r, m)
			arena := grouptest.NewArena(m)
			setCounters(r, 0xfffffff4)
			var started []*grouptest.Started
			for round := range 12 {
				for i, a := range all {
					count := uint64(50 + 100*i + round)
					c := grouptest.Case{Send: arena.Take(4*count, 0), Recv: arena.Take(4*count, 0), Count: count, DType: collective.Uint32, Seed: uint64(round)}
					started = append(started, r.Start(a, c))
				}
			}
			r.Wait()
			for _, s := range started {
				s.Verify()
				s.Close()
			}
			for name, at := range map[string]device.Ptr{"epoch": epochAt, "packet": packetEpochAt, "ring messages": ringMessagesAt} {
				if v := r.Word(r.Workspace().Signals() + at); v >= 0xfffffff4 {
					r.Fatalf("the counter %q has not wrapped: %#x", name, v)
				}
			}
			closeAll(r, all)
			r.Close(m)
		})
	}
}

// setCounters writes value to every counter of this rank's signals.
func setCounters(r *grouptest.Rank, value uint32) {
	r.Barrier()
	base := r.Workspace().Signals()
	r.OK(r.Stream().Set32(base+epochAt, value, (kernels.SignalBytes-epochAt)/4), "Set32")
	r.Wait()
	r.Barrier()
}

// Packets have a race of their own at the wrap: flags that follow each other must
// go to different halves of the inbox, so that a fast rank does not overwrite what
// a slow one has not read.
func TestPacketFlagsAlternate(t *testing.T) {
	for _, start := range []uint32{0xfffffffe, 0xfffffffd} {
		grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			arena := grouptest.NewArena(m)
			packet := fallback.NewP2P(r.Group, fallback.Packet, collective.Tuning{})
			setCounters(r, start)
			flags := []uint32{start}
			for range 4 {
				r.Check(packet, grouptest.Case{Send: arena.Take(8, 0), Recv: arena.Take(8, 0), Count: 2, DType: collective.Uint32})
				flag := r.Word(r.Workspace().Signals() + packetEpochAt)
				if last := flags[len(flags)-1]; flag&1 == last&1 {
					r.Fatalf("the flag %#x follows %#x into the same half", flag, last)
				}
				if flag == 0 {
					r.Fatalf("flag 0 is what fresh memory holds")
				}
				flags = append(flags, flag)
			}
			r.Close(m)
		})
	}
}

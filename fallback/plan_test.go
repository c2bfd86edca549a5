package fallback

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Plans take the message, the number of ranks, the smallest device's blocks and
// the tuning, all the same on every rank; none takes a rank.

func draw(t *rapid.T) (units uint64, ranks int, most uint32, u collective.Tuning) {
	units = rapid.OneOf(rapid.Uint64Range(1, 3000), rapid.Uint64Range(1, 1<<36)).Draw(t, "units")
	ranks = rapid.IntRange(2, kernels.MaxRanks).Draw(t, "ranks")
	most = rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "most")
	if rapid.Bool().Draw(t, "tune blocks") {
		u.Blocks = rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "blocks")
	}
	if rapid.Bool().Draw(t, "tune threads") {
		u.Threads = 32 * rapid.Uint32Range(1, kernels.MaxThreads/32).Draw(t, "threads")
	}
	return units, ranks, most, u
}

// checkAtOnce refuses a grid whose blocks do not all run at once.
func checkAtOnce(t *rapid.T, g collective.Geometry, multiprocessors uint32) {
	if n := min(256, multiprocessors*min(512/g.Threads, 8)); g.Blocks > n {
		t.Fatalf("%+v: %d such blocks run at once on %d multiprocessors", g, n, multiprocessors)
	}
}

func checkGeometry(t *rapid.T, g collective.Geometry, most uint32, u collective.Tuning) {
	if limit := max(most, u.Blocks); g.Blocks < 1 || g.Blocks > limit {
		t.Fatalf("%+v: 1 to %d blocks are possible", g, limit)
	}
	if u.Blocks != 0 && g.Blocks > u.Blocks || u.Threads != 0 && g.Threads > u.Threads {
		t.Fatalf("%+v is more than tuning %+v asks for", g, u)
	}
	if g.Threads%32 != 0 || g.Threads < kernels.MaxRanks || g.Threads > kernels.MaxThreads {
		t.Fatalf("%+v: threads", g)
	}
}

// ran is the tuning that a plan's geometry is recorded as.
func ran(g collective.Geometry) collective.Tuning {
	return collective.Tuning{Blocks: g.Blocks, Threads: g.Threads}
}

// Every packet belongs to one block, its inbox has room for it, and all blocks run
// at once.
func TestPlanPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packets, ranks, most, u := draw(t)
		p, ok := planPackets(packets, ranks, most, u)
		if fits := 8*packets <= maxPacketBytes(ranks); fits && !ok && u.Blocks == 0 {
			t.Fatalf("%d packets, %d fit: ok is %v", packets, maxPacketBytes(ranks)/8, ok)
		}
		if !ok {
			return
		}
		if p.Blocks < 1 || uint64(p.Blocks) > inboxes(most) {
			t.Fatalf("%+v: %d blocks have an inbox", p, inboxes(most))
		}
		if p.Blocks > most && (p.Blocks > 2*most || p.Threads > kernels.MaxThreads/2) {
			t.Fatalf("%+v do not run at once on %d multiprocessors", p, most)
		}
		checkGeometry(t, p.Geometry, packetBlocks, collective.Tuning{Threads: u.Threads})
		if again, _ := planPackets(packets, ranks, most, ran(p.Geometry)); again != p {
			t.Fatalf("%+v asked for is %+v", p, again)
		}
		if other, _ := planPackets(1, ranks, most, collective.Tuning{}); other.slots != p.slots {
			t.Fatalf("inboxes of %d packets, and of %d in another call", p.slots, other.slots)
		}
		if p.perBlock > p.slots {
			t.Fatalf("%+v: more than an inbox holds", p)
		}
		if p.perBlock*uint64(p.Blocks) < packets {
			t.Fatalf("%+v: blocks leave some of %d packets", p, packets)
		}
	})
}

// The inboxes of all blocks, two halves with a row for every other rank, fit the
// workspace; and hold what the refusal says, on however small a GPU.
func TestInboxesFit(t *testing.T) {
	for ranks := 2; ranks <= kernels.MaxRanks; ranks++ {
		for most := uint32(1); most <= kernels.MaxBlocks; most++ {
			n := inboxes(most)
			if used := n * 2 * uint64(ranks-1) * inboxPackets(ranks, n) * kernels.PacketBytes; used > collective.InboxBytes {
				t.Errorf("%d ranks, %d blocks: inboxes of %d bytes, there are %d", ranks, most, used, collective.InboxBytes)
			}
			if p, ok := planPackets(maxPacketBytes(ranks)/8, ranks, most, collective.Tuning{}); !ok {
				t.Errorf("%d ranks, %d blocks: the largest message is refused: %+v", ranks, most, p)
			}
		}
		if _, ok := planPackets(maxPacketBytes(ranks)/8+1, ranks, kernels.MaxBlocks, collective.Tuning{}); ok {
			t.Errorf("%d ranks: more than the largest message is taken", ranks)
		}
	}
}

// drawCall is a message with its division into packs.
func drawCall(t *rapid.T, bytes uint64) (collective.Call, collective.Span) {
	d := rapid.SampledFrom(collective.DTypes()).Draw(t, "type")
	size := uint64(d.Size())
	c := collective.Call{DType: d, Count: rapid.Uint64Range(1, bytes/size).Draw(t, "count")}
	c.Send.Address = device.Ptr(1<<40 + size*rapid.Uint64Range(0, 16).Draw(t, "send"))
	c.Recv.Address = device.Ptr(1<<41 + size*rapid.Uint64Range(0, 16).Draw(t, "recv"))
	return c, collective.NewSpan(c.Send.Address, c.Recv.Address, c.Count, d)
}

// planner is a plan with slots in scratch memory; a slot holds rows shares.
type planner struct {
	plan  func(collective.Call, collective.Span, int, uint32, uint64, collective.Tuning) slotPlan
	slots int
	rows  func(ranks int) int
	most  uint32
}

var planners = map[string]planner{
	"push": {planPush, pushSlots, func(n int) int { return n - 1 }, kernels.MaxBlocks},
	"bulk": {planBulk, bulkSlots, func(n int) int { return n - 1 }, kernels.MaxBlocks},
	"ring": {planRing, 1, func(n int) int { return n - 1 }, kernels.MaxBlocks},
}

// The slots of all blocks fit the scratch memory, and shares fit the slots.
func TestPlanSlots(t *testing.T) {
	for name, l := range planners {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			_, ranks, most, u := draw(t)
			c, span := drawCall(t, 1<<rapid.UintRange(4, 38).Draw(t, "log2 bytes"))
			scratch := rapid.Uint64Range(collective.MinScratchBytes, 64<<20).Draw(t, "scratch")
			p := l.plan(c, span, ranks, most, scratch, u)
			checkGeometry(t, p.Geometry, min(most, l.most), u)
			checkAtOnce(t, p.Geometry, most)
			if name == "bulk" && p.Blocks > most {
				t.Fatalf("%+v: no multiprocessor of %d has shared memory for two", p, most)
			}
			if again := l.plan(c, span, ranks, most, scratch, ran(p.Geometry)); again != p {
				t.Fatalf("%+v asked for is %+v", p, again)
			}
			if used := uint64(p.Blocks) * uint64(l.slots*l.rows(ranks)) * p.slotBytes; used > scratch {
				t.Fatalf("%+v: slots of %d bytes, there are %d", p, used, scratch)
			}
			for _, bytes := range []uint64{p.packs * kernels.PackBytes, p.outside * uint64(c.DType.Size())} {
				if bytes < 1 || bytes > p.slotBytes {
					t.Fatalf("%+v: a share of %d bytes in a slot of %d", p, bytes, p.slotBytes)
				}
			}
		}))
	}
}

// As many messages of scratch memory as are said to be of use give the plan that
// any more give.
func TestScratchOfUse(t *testing.T) {
	for name, l := range planners {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			_, ranks, most, u := draw(t)
			c, span := drawCall(t, 1<<rapid.UintRange(4, 36).Draw(t, "log2 bytes"))
			enough := max(collective.ScratchMessages*c.Bytes(), collective.ScratchBytes)
			p, q := l.plan(c, span, ranks, most, enough, u), l.plan(c, span, ranks, most, 1<<40, u)
			if p.slotBytes = q.slotBytes; p != q {
				t.Fatalf("%d bytes: %+v, with more scratch memory than %d %+v", c.Bytes(), p, enough, q)
			}
		}))
	}
}

// A copy of the division in push.cuh and ring.cuh: in round k, block b has a
// share for each rank, of packs and then of elements outside.
func TestSharesCoverMessage(t *testing.T) {
	for name, l := range planners {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			_, ranks, most, u := draw(t)
			c, span := drawCall(t, 1<<15)
			p := l.plan(c, span, ranks, most, collective.MinScratchBytes, u)
			outside := c.Count - span.Packs*uint64(kernels.PackBytes/c.DType.Size())
			for _, part := range []struct{ units, share uint64 }{{span.Packs, p.packs}, {outside, p.outside}} {
				seen := make([]int, part.units)
				for b := range uint64(p.Blocks) {
					for k := uint64(0); ; k++ {
						base := (b + k*uint64(p.Blocks)) * uint64(ranks) * part.share
						if base >= part.units {
							break
						}
						for i := base; i < min(base+uint64(ranks)*part.share, part.units); i++ {
							seen[i]++
						}
					}
				}
				for i, n := range seen {
					if n != 1 {
						t.Fatalf("%+v: unit %d of %d is moved %d times", p, i, part.units, n)
					}
				}
			}
		}))
	}
}

// A larger message never goes back to packets, and packets are chosen only where
// they fit.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, kernels.MaxRanks).Draw(t, "ranks")
		a := rapid.Uint64Range(0, 1<<20).Draw(t, "bytes")
		b := a + rapid.Uint64Range(0, 1<<20).Draw(t, "more")
		if choose(a, ranks, collective.ScratchBytes) != Packet && choose(b, ranks, collective.ScratchBytes) == Packet {
			t.Fatalf("%d bytes are pushed and %d are packets", a, b)
		}
		if choose(a, ranks, collective.ScratchBytes) == Packet {
			if _, ok := planPackets(collective.CeilDiv(a, 8), ranks, 1, collective.Tuning{}); !ok {
				t.Fatalf("%d bytes among %d ranks are packets and do not fit", a, ranks)
			}
		}
		for _, c := range []struct {
			bytes, scratch uint64
			want           Algorithm
		}{
			{1, collective.ScratchBytes, Packet}, {1 << 20, collective.ScratchBytes, TwoShot}, {1 << 30, collective.ScratchBytes, TwoShot},
			{1, 32 << 20, Packet}, {4 << 20, 32 << 20, TwoShot}, {16 << 20, 32 << 20, Push}, {1 << 30, 32 << 20, PushBulk},
		} {
			if got := choose(c.bytes, ranks, c.scratch); got != c.want {
				t.Fatalf("%s for %d bytes with %d of scratch memory, want %s", got, c.bytes, c.scratch, c.want)
			}
		}
	})
}

// The largest message of packets is a matter of ranks only: PacketLimit tells it
// without a device, and every device and geometry takes what it allows.
func TestPacketLimit(t *testing.T) {
	for ranks := 2; ranks <= collective.MaxRanks; ranks++ {
		limit := maxPacketBytes(ranks)
		for _, bytes := range []uint64{0, 1, 8, limit / 3, limit - 1, limit, limit + 1, limit + 8, 2 * limit} {
			err := PacketLimit(ranks, bytes)
			if (err == nil) != (bytes <= limit) || err != nil && failure.CodeOf(err) != failure.Unavailable {
				t.Errorf("%d bytes among %d ranks: %v", bytes, ranks, err)
			}
			for _, tuning := range []collective.Tuning{{}, {Blocks: 1}, {Blocks: 7, Threads: 64}, {Blocks: 256, Threads: 1024}} {
				for _, blocks := range []uint32{1, 8, 132} {
					if _, ok := planPackets(collective.CeilDiv(bytes, 8), ranks, blocks, tuning); !ok && err == nil {
						t.Errorf("%d bytes among %d ranks, %d blocks, %+v: a plan %v, and %v", bytes, ranks, blocks, tuning, ok, err)
					}
				}
			}
		}
	}
	if err := PacketLimit(1, 1<<40); err != nil {
		t.Error(err)
	}
}

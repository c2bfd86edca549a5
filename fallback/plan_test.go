package fallback

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
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

// Every packet belongs to one block, and its inbox has room for it.
func TestPlanPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packets, ranks, most, u := draw(t)
		p, ok := planPackets(packets, ranks, most, u)
		if fits := 8*packets <= maxPacketBytes(ranks); fits && !ok && u.Blocks == 0 || !fits && ok {
			t.Fatalf("%d packets, %d fit: ok is %v", packets, maxPacketBytes(ranks)/8, ok)
		}
		if !ok {
			return
		}
		// More blocks than one a multiprocessor are allowed here: no block waits for
		// another block.
		if p.Blocks < 1 || p.Blocks > packetBlocks {
			t.Fatalf("%+v: %d blocks have an inbox", p, packetBlocks)
		}
		checkGeometry(t, p.Geometry, packetBlocks, collective.Tuning{Threads: u.Threads})
		if p.perBlock > inboxPackets(ranks) {
			t.Fatalf("%+v: an inbox holds %d packets", p, inboxPackets(ranks))
		}
		if p.perBlock*uint64(p.Blocks) < packets {
			t.Fatalf("%+v: blocks leave some of %d packets", p, packets)
		}
	})
}

// The inboxes of all blocks, two halves with a row for every other rank, fit the
// workspace; and hold what the refusal says.
func TestInboxesFit(t *testing.T) {
	for ranks := 2; ranks <= kernels.MaxRanks; ranks++ {
		if used := packetBlocks * 2 * uint64(ranks-1) * inboxPackets(ranks) * kernels.PacketBytes; used > collective.InboxBytes {
			t.Errorf("%d ranks: inboxes of %d bytes, there are %d", ranks, used, collective.InboxBytes)
		}
		if p, ok := planPackets(maxPacketBytes(ranks)/8, ranks, 132, collective.Tuning{}); !ok {
			t.Errorf("%d ranks: the largest message is refused: %+v", ranks, p)
		}
		if _, ok := planPackets(maxPacketBytes(ranks)/8+1, ranks, 132, collective.Tuning{}); ok {
			t.Errorf("%d ranks: more than the largest message is taken", ranks)
		}
	}
}

// The slots of all blocks fit the scratch memory.
func TestPlanPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs, ranks, most, u := draw(t)
		p := planPush(packs, ranks, most, u)
		checkGeometry(t, p.Geometry, most, u)
		if used := uint64(p.Blocks) * pushSlots * uint64(ranks-1) * p.chunkPacks * kernels.PackBytes; p.chunkPacks < 1 || used > collective.ScratchBytes {
			t.Fatalf("%+v: slots of %d bytes, there are %d", p, used, collective.ScratchBytes)
		}
	})
}

// A copy of push.cuh's division: in round k, block b has a share in which every
// rank owns one chunk.
func TestPushCoversMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs := rapid.Uint64Range(1, 20000).Draw(t, "packs")
		_, ranks, most, u := draw(t)
		p := planPush(packs, ranks, most, u)
		parts := uint64(p.Blocks) * uint64(ranks)
		chunk := min(collective.CeilDiv(packs, parts), p.chunkPacks)
		seen := make([]int, packs)
		for b := range uint64(p.Blocks) {
			for k := uint64(0); (b+k*uint64(p.Blocks))*uint64(ranks)*chunk < packs; k++ {
				for r := range uint64(ranks) {
					first := ((b+k*uint64(p.Blocks))*uint64(ranks) + r) * chunk
					for i := first; i < min(first+chunk, packs); i++ {
						seen[i]++
					}
				}
			}
		}
		once(t, seen)
	})
}

func once(t *rapid.T, seen []int) {
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("pack %d has %d owners", i, n)
		}
	}
}

// The slots of all blocks fit the scratch memory, and a slot has something in it.
func TestPlanRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs, ranks, most, u := draw(t)
		p := planRing(packs, ranks, most, u)
		checkGeometry(t, p.Geometry, min(most, ringBlocks), u)
		if used := uint64(p.Blocks) * ringSlots * p.chunkPacks * kernels.PackBytes; p.chunkPacks < 1 || used > collective.ScratchBytes {
			t.Fatalf("%+v: slots of %d bytes, there are %d", p, used, collective.ScratchBytes)
		}
	})
}

// A copy of ring.cuh's division: a block's round has a chunk for each rank.
func TestRingCoversMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs := rapid.Uint64Range(1, 20000).Draw(t, "packs")
		_, ranks, most, u := draw(t)
		p := planRing(packs, ranks, most, u)
		n := uint64(ranks)
		chunk := min(collective.CeilDiv(packs, uint64(p.Blocks)*n), p.chunkPacks)
		seen := make([]int, packs)
		for b := range uint64(p.Blocks) {
			for base := b * n * chunk; base < packs; base += uint64(p.Blocks) * n * chunk {
				for r := range n {
					for i := base + r*chunk; i < min(base+(r+1)*chunk, packs); i++ {
						seen[i]++
					}
				}
			}
		}
		once(t, seen)
	})
}

// A larger message never goes back to packets, and packets are chosen only where
// they fit.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, kernels.MaxRanks).Draw(t, "ranks")
		a := rapid.Uint64Range(0, 1<<20).Draw(t, "bytes")
		b := a + rapid.Uint64Range(0, 1<<20).Draw(t, "more")
		if choose(a, ranks) != Packet && choose(b, ranks) == Packet {
			t.Fatalf("%d bytes are pushed and %d are packets", a, b)
		}
		if choose(a, ranks) == Packet {
			if _, ok := planPackets(collective.CeilDiv(a, 8), ranks, 1, collective.Tuning{}); !ok {
				t.Fatalf("%d bytes among %d ranks are packets and do not fit", a, ranks)
			}
		}
		if choose(1, ranks) != Packet || choose(1<<30, ranks) != Push {
			t.Fatalf("%s for a byte, %s for a GiB", choose(1, ranks), choose(1<<30, ranks))
		}
	})
}

package collective

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Every element is in the head, in a pack or after the packs, once; packs are
// aligned in both buffers, and no more is single than must be.
func TestSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(DTypes()).Draw(t, "type")
		size := uint64(d.Size())
		send := rapid.Uint64Range(0, 64).Draw(t, "send") * size
		recv := rapid.Uint64Range(0, 64).Draw(t, "recv") * size
		count := rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(0, 1<<40)).Draw(t, "count")
		s := NewSpan(device.Ptr(1<<40+send), device.Ptr(1<<41+recv), count, d)
		per := kernels.PackBytes / size
		if s.Head > count || s.Packs > (count-s.Head)/per {
			t.Fatalf("%+v reaches beyond %d elements of %s", s, count, d)
		}
		outside := count - s.Packs*per
		if (send^recv)%kernels.PackBytes != 0 {
			if s != (Span{}) {
				t.Fatalf("%+v of buffers that cannot both be aligned", s)
			}
			return
		}
		if s.Packs > 0 && ((send+s.Head*size)%kernels.PackBytes != 0 || (recv+s.Head*size)%kernels.PackBytes != 0) {
			t.Fatalf("%+v: packs are not aligned at %d and %d", s, send, recv)
		}
		if s.Head >= per || outside-s.Head >= per {
			t.Fatalf("%+v: %d single elements of %d; a pack has %d", s, outside, count, per)
		}
	})
}

func tuning(t *rapid.T) Tuning {
	var u Tuning
	if rapid.Bool().Draw(t, "tune blocks") {
		u.Blocks = rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "blocks")
	}
	if rapid.Bool().Draw(t, "tune threads") {
		u.Threads = 32 * rapid.Uint32Range(1, kernels.MaxThreads/32).Draw(t, "threads")
	}
	return u
}

// atOnce is how many blocks of so many threads run at once: a multiprocessor has
// registers for 512 threads of any kernel, and runs 8 blocks.
func atOnce(multiprocessors, threads uint32) uint32 {
	return min(256, multiprocessors*min(512/threads, 8))
}

// A grid is what was asked for as far as all of its blocks run at once.
func TestGeometry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := tuning(t)
		work := rapid.OneOf(rapid.Uint64Range(0, 5000), rapid.Uint64Range(0, 1<<40)).Draw(t, "work")
		most := rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "most")
		enough := rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "enough")
		g := u.Geometry(work, most, enough)
		// Blocks of open size are made so small that more run at once.
		least := u.Threads
		if least == 0 {
			least = 64
		}
		switch {
		case u.Blocks != 0 && g.Blocks != min(u.Blocks, atOnce(most, least)), u.Threads != 0 && g.Threads != u.Threads:
			t.Fatalf("%+v of tuning %+v, %d multiprocessors", g, u, most)
		case g.Blocks > atOnce(most, g.Threads):
			t.Fatalf("%+v do not run at once on %d multiprocessors", g, most)
		case u.Blocks == 0 && (g.Blocks < 1 || g.Blocks > min(most, enough)):
			t.Fatalf("%+v: 1 to %d blocks are possible", g, min(most, enough))
		case (Tuning{Blocks: g.Blocks, Threads: g.Threads}).Geometry(work, most, enough) != g:
			t.Fatalf("%+v asked for is not %+v", g, g)
		case g.Threads%32 != 0 || g.Threads < kernels.MaxRanks || g.Threads > kernels.MaxThreads:
			t.Fatalf("%+v: threads", g)
		}
		// No block without anything to do, and all blocks used before a thread gets more.
		if threads := uint64(g.Threads); u.Blocks == 0 {
			if work > 0 && uint64(g.Blocks-1)*threads >= work {
				t.Fatalf("%+v: a block has nothing to do of %d", g, work)
			}
			if g.Blocks < min(most, enough) && uint64(g.Blocks)*threads < work {
				t.Fatalf("%+v: threads have more than one of %d, and %d blocks are possible", g, work, most)
			}
		}
	})
}

// The slots of all blocks fit the staging buffer, and chunks go over the whole
// message. That each rank gets the same is in the arguments: none names a rank.
func TestPlanStaging(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := tuning(t)
		packs := rapid.OneOf(rapid.Uint64Range(1, 5000), rapid.Uint64Range(1, 1<<36)).Draw(t, "packs")
		staging := rapid.OneOf(rapid.Uint64Range(48, 1<<16), rapid.Uint64Range(48, 1<<33)).Draw(t, "staging")
		most := rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "most")
		ranks := rapid.IntRange(2, kernels.MaxRanks).Draw(t, "ranks")
		enough := rapid.Uint32Range(1, kernels.MaxBlocks).Draw(t, "enough")
		p := PlanStaging(packs, staging, ranks, most, enough, u)
		if p.ChunkPacks < 1 || p.Blocks < 1 || u.Blocks == 0 && p.Blocks > enough || p.Blocks > atOnce(most, p.Threads) {
			t.Fatalf("%+v", p)
		}
		if u.Blocks != 0 && p.Blocks > u.Blocks || u.Threads != 0 && p.Threads != u.Threads {
			t.Fatalf("%+v of tuning %+v", p, u)
		}
		if again := PlanStaging(packs, staging, ranks, most, enough, Tuning{Blocks: p.Blocks, Threads: p.Threads}); again != p {
			t.Fatalf("%+v asked for is %+v", p, again)
		}
		if used := uint64(p.Blocks) * kernels.StagingSlots * p.ChunkPacks * kernels.PackBytes; used > staging {
			t.Fatalf("%+v uses %d bytes of %d", p, used, staging)
		}
		// A block's pipeline overlaps only if it has several chunks.
		full := uint64(p.Blocks) * chunksPerBlock * uint64(p.Threads)
		if packs >= full && CeilDiv(packs, p.ChunkPacks) < uint64(p.Blocks)*(chunksPerBlock-1) {
			t.Fatalf("%+v: %d packs make %d chunks", p, packs, CeilDiv(packs, p.ChunkPacks))
		}
	})
}

// A copy of copy_in.cuh's division: block b has chunks b, b+blocks, …, each cut
// into a slice a rank.
func TestStagingCoversMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packs := rapid.Uint64Range(1, 3000).Draw(t, "packs")
		ranks := rapid.Uint64Range(2, kernels.MaxRanks).Draw(t, "ranks")
		p := PlanStaging(packs, rapid.Uint64Range(48, 1<<15).Draw(t, "staging"), int(ranks), 16, kernels.MaxBlocks, tuning(t))
		seen := make([]int, packs)
		for block := range uint64(p.Blocks) {
			for k := uint64(0); (block+k*uint64(p.Blocks))*p.ChunkPacks < packs; k++ {
				first := (block + k*uint64(p.Blocks)) * p.ChunkPacks
				n := min(packs-first, p.ChunkPacks)
				slice := CeilDiv(n, ranks)
				for r := range ranks {
					for i := r * slice; i < min(n, (r+1)*slice); i++ {
						seen[first+i]++
					}
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("%+v: pack %d is reduced %d times", p, i, n)
			}
		}
	})
}

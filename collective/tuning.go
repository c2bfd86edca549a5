package collective

import (
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Tuning overrides what a plan would choose. Zero fields are automatic. All ranks
// must use the same.
type Tuning struct {
	// Blocks and Threads are the launch geometry of the kernel that reduces.
	Blocks, Threads uint32
	// Chunk is how many bytes a copy of p2p-copy-engine moves, and Slots in how many
	// slots of scratch memory they arrive in turn. Other modes have neither.
	Chunk uint64
	Slots uint32
}

// Geometry chooses grid and block for a kernel in which work threads have
// something to do, with at most maxBlocks blocks.
func (t Tuning) Geometry(work uint64, maxBlocks uint32) Geometry {
	g := Geometry{t.Blocks, t.Threads}
	if g.Threads == 0 {
		// Whole warps; at least two, so that a barrier has a thread a rank.
		g.Threads = uint32(min(max(CeilDiv(work, 32)*32, 64), kernels.MaxThreads))
	}
	if g.Blocks == 0 {
		g.Blocks = uint32(min(max(CeilDiv(work, uint64(g.Threads)), 1), uint64(maxBlocks)))
	}
	return g
}

// MaxBlocksOf is MaxBlocks for blocks of so many threads: a multiprocessor runs
// as many at once as have kernels.MaxThreads together, to which the registers of
// every kernel are fitted. It does not hold for kernels with much shared memory.
func (g *Group) MaxBlocksOf(threads uint32) uint32 {
	n := kernels.MaxBlocks
	for _, i := range g.infos {
		n = min(n, i.SMs*int(max(kernels.MaxThreads/threads, 1)))
	}
	return uint32(max(n, 1))
}

// check refuses a tuning that no kernel can run with: a block beyond the counters
// would change memory of others, and barriers take a thread a rank.
func (g Geometry) check() error {
	if g.Blocks > kernels.MaxBlocks || g.Threads > kernels.MaxThreads || g.Threads < kernels.MaxRanks {
		return failure.New(failure.Usage, "kernels cannot run as %d blocks of %d threads: at most %d blocks and from %d to %d threads are possible",
			g.Blocks, g.Threads, kernels.MaxBlocks, kernels.MaxRanks, kernels.MaxThreads)
	}
	return nil
}

// MaxBlocks is the largest grid whose blocks all run at once on every rank's
// device: one a multiprocessor.
func (g *Group) MaxBlocks() uint32 { return g.MaxBlocksOf(kernels.MaxThreads) }

// StagingPlan divides a message for a copy-in kernel.
type StagingPlan struct {
	Geometry
	ChunkPacks uint64 // packs that a block copies in at a time
}

const (
	// chunksPerBlock is how often a block of a large message goes around, so that
	// copying in, reducing and copying out overlap.
	chunksPerBlock = 4
	// stagingThreads is the size of a block of a copy-in kernel: two of them share a
	// multiprocessor, and one copies while the other waits.
	stagingThreads = 256
)

// MaxStagingBlocks is the largest grid of a copy-in kernel whose blocks all run at
// once.
func (g *Group) MaxStagingBlocks(t Tuning) uint32 {
	return g.MaxBlocksOf(max(t.Threads, stagingThreads))
}

// PlanStaging divides a message of packs packs for a staging buffer of staging
// bytes: each block has kernels.StagingSlots chunks of its own in it. Every thread
// takes as many packs of a rank's slice of a chunk as any other, where that can be,
// and as many at once as it can have under way.
func PlanStaging(packs, staging uint64, ranks int, maxBlocks uint32, t Tuning) StagingPlan {
	if t.Threads == 0 {
		t.Threads = min(t.Geometry(packs, maxBlocks).Threads, stagingThreads)
	}
	geo := t.Geometry(packs, maxBlocks)
	slots := uint64(geo.Blocks) * kernels.StagingSlots
	if most := uint32(staging / (kernels.StagingSlots * kernels.PackBytes)); geo.Blocks > most {
		geo.Blocks = max(most, 1)
		slots = uint64(geo.Blocks) * kernels.StagingSlots
	}
	room := staging / (slots * kernels.PackBytes)
	want := max(CeilDiv(packs, uint64(geo.Blocks)*chunksPerBlock), uint64(geo.Threads))
	chunk := max(min(want, room), 1)
	for _, unroll := range []uint64{4, 2, 1} {
		if even := unroll * uint64(geo.Threads) * uint64(ranks); even <= chunk {
			chunk = chunk / even * even
			break
		}
	}
	return StagingPlan{Geometry: geo, ChunkPacks: chunk}
}

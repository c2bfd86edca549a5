package collective

import (
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Tuning overrides what a plan would choose. Zero fields are automatic. All ranks
// must use the same.
type Tuning struct {
	// Blocks and Threads are the launch geometry of the kernel that reduces. Blocks
	// wait for each other across ranks: more than run at once on every rank's device,
	// and more of either than a mode has room for, are cut. Packets take more blocks
	// where fewer have no room for the message. Prepared.Tuning is what runs.
	Blocks, Threads uint32
	// Chunk is how many bytes a copy of p2p-copy-engine moves, and Slots in how many
	// slots of scratch memory they arrive in turn. Other modes have neither.
	Chunk uint64
	Slots uint32
}

// Geometry chooses grid and block for a kernel in which work threads have
// something to do. maxBlocks is Group.MaxBlocks; enough is how many blocks are
// worth it where t does not say how many. Where t has more blocks than run at once,
// blocks have fewer threads if t leaves that open; else fewer blocks run. What no
// device can run is left as it is, to be refused.
func (t Tuning) Geometry(work uint64, maxBlocks, enough uint32) Geometry {
	g := Geometry{t.Blocks, t.Threads}
	if g.Threads == 0 {
		// Whole warps; at least two, so that a barrier has a thread a rank.
		g.Threads = uint32(min(max(CeilDiv(work, 32)*32, smallBlock), kernels.MaxThreads))
		if share := max(CeilDiv(uint64(g.Blocks), uint64(maxBlocks)), 1); share > 1 {
			g.Threads = min(g.Threads, uint32(max(kernels.MaxThreads/share/32*32, smallBlock)))
		}
	}
	if g.Blocks == 0 {
		g.Blocks = uint32(min(max(CeilDiv(work, uint64(g.Threads)), 1), uint64(min(maxBlocks, enough))))
	}
	if g.check() == nil {
		g.Blocks = min(g.Blocks, AtOnce(maxBlocks, g.Threads))
	}
	return g
}

// smallBlock is the smallest block of which more run at once than of larger ones:
// two warps, of which the software device runs 8 blocks a multiprocessor, as many as
// have kernels.MaxThreads threads, and GPUs of compute capability 7.0 or above more.
const smallBlock = 64

// AtOnce is how many blocks of so many threads all run at once where maxBlocks of
// kernels.MaxThreads do (Group.MaxBlocks), as far as kernels have counters for them.
// A multiprocessor runs as many as have kernels.MaxThreads threads together, to
// which the registers of every kernel are fitted. It does not hold for kernels with
// much shared memory.
func AtOnce(maxBlocks, threads uint32) uint32 {
	return min(maxBlocks*max(kernels.MaxThreads/max(threads, smallBlock), 1), kernels.MaxBlocks)
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

// MaxBlocks is the largest grid of blocks of kernels.MaxThreads threads that all run
// at once on every rank's device: one a multiprocessor. See AtOnce for smaller ones.
func (g *Group) MaxBlocks() uint32 {
	n := kernels.MaxBlocks
	for _, i := range g.infos {
		n = min(n, i.SMs)
	}
	return uint32(max(n, 1))
}

// checkAtOnce refuses a grid whose blocks do not all run at once: those that run
// would wait for ever for the peers' that have not started. Plans make none; this is
// for devices that run fewer than AtOnce says.
func (g *Group) checkAtOnce(geo Geometry, shared uint32) error {
	most := AtOnce(g.MaxBlocks(), geo.Threads)
	if shared > 0 {
		most = g.MaxBlocks()
	}
	for _, i := range g.infos {
		most = min(most, uint32(i.SMs*i.MaxBlocksPerSM))
	}
	if geo.Blocks <= most {
		return nil
	}
	return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("a kernel of %d blocks of %d threads cannot run", geo.Blocks, geo.Threads),
		Why: fmt.Sprintf("a GPU here runs %d such blocks at once, and blocks wait for those of the other ranks", most),
		Do:  fmt.Sprintf("take at most %d blocks (--blocks, nvls.blocks)", most), By: failure.User}
}

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

// PlanStaging divides a message of packs packs for a staging buffer of staging
// bytes: each block has kernels.StagingSlots chunks of its own in it. Every thread
// takes as many packs of a rank's slice of a chunk as any other, where that can be,
// and as many at once as it can have under way. maxBlocks and enough are those of
// Tuning.Geometry; enough may be more blocks than multiprocessors.
func PlanStaging(packs, staging uint64, ranks int, maxBlocks, enough uint32, t Tuning) StagingPlan {
	if t.Threads == 0 {
		t.Threads = min(t.Geometry(packs, maxBlocks, maxBlocks).Threads, stagingThreads)
	}
	if t.Blocks == 0 {
		// Fill multiprocessors, whose blocks are small on purpose.
		most := min(AtOnce(maxBlocks, max(t.Threads, stagingThreads)), enough)
		t.Blocks = uint32(min(max(CeilDiv(packs, uint64(t.Threads)), 1), uint64(most)))
	}
	geo := t.Geometry(packs, maxBlocks, enough)
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

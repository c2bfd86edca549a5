package fallback

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// CopyIn is the peer-to-peer all-reduce of any buffer: the pipeline of NVLS
// copy-in (copy in, reduce in a staging buffer, copy out) over peer mappings.
type CopyIn struct {
	group   *collective.Group
	staging *collective.Memory
	tuning  collective.Tuning
}

// NewCopyIn allocates a staging buffer of at least staging bytes on every rank.
// It is collective.
func NewCopyIn(ctx context.Context, g *collective.Group, staging uint64, t collective.Tuning) (*CopyIn, error) {
	m, err := g.Alloc(ctx, "the staging buffer", staging)
	if err != nil {
		return nil, err
	}
	return &CopyIn{g, m, t}, nil
}

// Mode implements collective.AllReducer.
func (c *CopyIn) Mode() string { return "p2p-copy-in" }

// Supports implements collective.AllReducer: everything.
func (c *CopyIn) Supports(collective.DType, collective.Op) error { return nil }

// Prepare implements collective.AllReducer.
func (c *CopyIn) Prepare(call collective.Call) (collective.Prepared, error) {
	if err := call.Check(); err != nil {
		return nil, err
	}
	if p, ok := c.group.Trivial(call); ok {
		return p, nil
	}
	g := c.group
	plan := collective.PlanStaging(collective.CeilDiv(call.Bytes(), kernels.PackBytes), c.staging.Bytes(), g.Size(), g.MaxBlocks(), kernels.MaxBlocks, c.tuning)
	args := kernels.Args{Chunk: plan.ChunkPacks, Scratch: uint64(c.staging.Local())}
	for i := range g.Size() {
		args.PeerIn[i] = uint64(c.staging.Peer((g.Rank() + i) % g.Size()))
	}
	return g.NewLaunch(kernels.CopyIn, call, plan.Geometry, args)
}

// Close frees the staging buffer. It is collective.
func (c *CopyIn) Close(ctx context.Context) error { return c.staging.Close(ctx) }

// Tuned is the same all-reduce with another launch geometry. It shares
// everything with c, which alone is to be closed.
func (c *CopyIn) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *c
	changed.tuning = t
	return &changed
}

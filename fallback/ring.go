package fallback

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Ring is the ring all-reduce: reduce-scatter then all-gather, each rank pushing
// to the next over peer mappings. It moves 2(n-1)/n of the message over each
// link in each direction.
type Ring struct {
	group  *collective.Group
	tuning collective.Tuning
}

// NewRing makes a ring of all ranks of the group.
func NewRing(g *collective.Group, t collective.Tuning) *Ring { return &Ring{g, t} }

// Mode implements collective.AllReducer.
func (r *Ring) Mode() string { return "ring" }

// Supports implements collective.AllReducer: a ring does everything.
func (r *Ring) Supports(collective.DType, collective.Op) error { return nil }

// Prepare implements collective.AllReducer.
func (r *Ring) Prepare(c collective.Call) (collective.Prepared, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if p, ok := r.group.Trivial(c); ok {
		return p, nil
	}
	if err := c.RequireSymmetric(r.Mode()); err != nil {
		return nil, err
	}
	g := r.group
	next := (g.Rank() + 1) % g.Size()
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	plan := planRing(c, span, g.Size(), g.MaxBlocks(), g.Workspace().ScratchBytes(), r.tuning)
	args := kernels.Args{
		Head: span.Head, Packs: span.Packs, Chunk: plan.packs, OutsideChunk: plan.outside, SlotBytes: plan.slotBytes,
		Scratch: uint64(g.Workspace().Scratch(g.Rank())), NextScratch: uint64(g.Workspace().Scratch(next)),
	}
	args.PeerOut[0] = uint64(c.Recv.Peer(next))
	return g.NewLaunch(kernels.Ring, c, plan.Geometry, args)
}

// Close implements collective.AllReducer.
func (r *Ring) Close(context.Context) error { return nil }

// Tuned is the same all-reduce with another launch geometry. It shares
// everything with r, which alone is to be closed.
func (r *Ring) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *r
	changed.tuning = t
	return &changed
}

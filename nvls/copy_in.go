package nvls

import (
	"context"
	"errors"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// CopyIn is the NVLS all-reduce of any buffer: it is copied chunk by chunk into
// a staging buffer behind a multicast object, reduced there by the switch, and
// copied out, as a pipeline.
type CopyIn struct {
	group   *collective.Group
	staging *collective.Memory
	channel *Channel // nil in a group of one
	tuning  collective.Tuning
}

// copyInBlocks bounds the grid: copying in and out takes more threads than the
// switch needs to reduce. Of the automatic size they fill 64 multiprocessors.
const copyInBlocks = 128

// NewCopyIn allocates a staging buffer of at least staging bytes on every rank
// and binds it to a multicast object. It is collective.
func NewCopyIn(ctx context.Context, g *collective.Group, staging uint64, t collective.Tuning) (*CopyIn, error) {
	c := &CopyIn{group: g, tuning: t}
	if err := Available(ctx, g); err != nil {
		return nil, err
	}
	if g.Size() == 1 {
		return c, nil // an all-reduce of one rank is a copy
	}
	m, err := g.Alloc(ctx, "the staging buffer", staging)
	if err != nil {
		return nil, err
	}
	c.staging = m
	if c.channel, err = NewChannel(ctx, g, m); err != nil {
		if failure.CodeOf(err) == failure.Timeout {
			return nil, err // a rank's driver still holds its memory: no free would return
		}
		return nil, errors.Join(err, m.Close(ctx))
	}
	return c, nil
}

// Mode implements collective.AllReducer.
func (c *CopyIn) Mode() string { return "nvls-copy-in" }

// Supports implements collective.AllReducer.
func (c *CopyIn) Supports(d collective.DType, op collective.Op) error { return Supports(d, op) }

// Prepare implements collective.AllReducer. Buffers may be anywhere and need
// their element's alignment only.
func (c *CopyIn) Prepare(call collective.Call) (collective.Prepared, error) {
	if err := Supports(call.DType, call.Op); err != nil {
		return nil, err
	}
	if err := call.Check(); err != nil {
		return nil, err
	}
	if p, ok := c.group.Trivial(call); ok {
		return p, nil
	}
	g := c.group
	plan := collective.PlanStaging(collective.CeilDiv(call.Bytes(), kernels.PackBytes), c.staging.Bytes(), g.Size(), g.MaxBlocks(), copyInBlocks, c.tuning)
	args := kernels.Args{Chunk: plan.ChunkPacks, Scratch: uint64(c.staging.Local()), MulticastIn: uint64(c.channel.At(0))}
	return g.NewLaunch(kernels.NVLSCopyIn, call, plan.Geometry, args)
}

// Close implements collective.AllReducer: it takes down the channel and frees
// the staging buffer.
func (c *CopyIn) Close(ctx context.Context) error {
	if c.staging == nil {
		return nil
	}
	return errors.Join(c.channel.Close(ctx), c.staging.Close(ctx))
}

// Tuned is the same all-reduce with another launch geometry. It shares
// everything with c, which alone is to be closed.
func (c *CopyIn) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *c
	changed.tuning = t
	return &changed
}

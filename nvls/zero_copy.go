package nvls

import (
	"context"
	"errors"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// ZeroCopy is the NVLS all-reduce of registered buffers: each rank lets the
// switch reduce one slice of the buffers themselves and multicasts the result.
type ZeroCopy struct {
	group    *collective.Group
	channels []*Channel // in the order of registration, the same on every rank
	tuning   collective.Tuning
}

// zeroCopyBlocks bounds the grid: a few blocks saturate the switch, and each
// thread has zeroCopyUnroll packs in flight (kUnroll of fabric.cuh).
const (
	zeroCopyBlocks = 32
	zeroCopyUnroll = 4
)

// NewZeroCopy makes a zero-copy all-reduce; memory is added by Register.
func NewZeroCopy(g *collective.Group, t collective.Tuning) *ZeroCopy {
	return &ZeroCopy{group: g, tuning: t}
}

// Register binds symmetric memory to a multicast object, so that buffers in it
// can be reduced. It is collective, and the slow part: do it once. The memory
// must stay until Close.
func (z *ZeroCopy) Register(ctx context.Context, m *collective.Memory) error {
	if z.channel(m) != nil {
		return nil
	}
	if z.group.Size() == 1 {
		// An all-reduce of one rank is a copy, but a device that has no NVLS must not
		// seem to have it.
		return Available(ctx, z.group)
	}
	c, err := NewChannel(ctx, z.group, m)
	if err != nil {
		return err
	}
	z.channels = append(z.channels, c)
	return nil
}

// channel finds the channel of registered memory, nil if there is none.
func (z *ZeroCopy) channel(m *collective.Memory) *Channel {
	for _, c := range z.channels {
		if c.memory == m {
			return c
		}
	}
	return nil
}

// Mode implements collective.AllReducer.
func (z *ZeroCopy) Mode() string { return "nvls-zero-copy" }

// Supports implements collective.AllReducer.
func (z *ZeroCopy) Supports(d collective.DType, op collective.Op) error { return Supports(d, op) }

// Prepare implements collective.AllReducer. Both buffers must be in registered
// memory and start at a multiple of 16 bytes, the width of a multimem access.
func (z *ZeroCopy) Prepare(c collective.Call) (collective.Prepared, error) {
	if err := Supports(c.DType, c.Op); err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	if p, ok := z.group.Trivial(c); ok {
		return p, nil
	}
	if err := c.RequireSymmetric(z.Mode()); err != nil {
		return nil, err
	}
	send, recv := z.channel(c.Send.Memory), z.channel(c.Recv.Memory)
	if send == nil || recv == nil {
		return nil, failure.New(failure.Usage, "nvls-zero-copy needs buffers in memory that was registered with it")
	}
	if c.Send.Offset%kernels.PackBytes != 0 || c.Recv.Offset%kernels.PackBytes != 0 {
		return nil, &failure.Error{Code: failure.Usage, What: "nvls-zero-copy needs buffers aligned to 16 bytes",
			Why: "a multimem access of 16 bytes must be aligned to its size, and the buffer itself is what the switch reads",
			Do:  "align the buffers' offsets, or use nvls-copy-in, which takes any alignment", By: failure.User}
	}
	g := z.group
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	args := kernels.Args{
		Packs: span.Packs, Chunk: collective.Slice(span.Packs, g.Size()),
		MulticastIn: uint64(send.At(c.Send.Offset)), MulticastOut: uint64(recv.At(c.Recv.Offset)),
	}
	for i := range g.Size() { // for the elements after the last pack
		r := (g.Rank() + i) % g.Size()
		args.PeerIn[i], args.PeerOut[i] = uint64(c.Send.Peer(r)), uint64(c.Recv.Peer(r))
	}
	work := collective.CeilDiv(c.Bytes(), kernels.PackBytes*uint64(g.Size())*zeroCopyUnroll)
	geo := z.tuning.Geometry(work, g.MaxBlocks(), zeroCopyBlocks)
	return g.NewLaunch(kernels.NVLSZeroCopy, c, geo, args)
}

// Close implements collective.AllReducer: it takes down every channel.
func (z *ZeroCopy) Close(ctx context.Context) error {
	var errs []error
	for _, c := range z.channels {
		errs = append(errs, c.Close(ctx))
	}
	z.channels = nil
	return errors.Join(errs...)
}

// Tuned is the same all-reduce with another launch geometry. It shares
// everything with z, which alone is to be closed.
func (z *ZeroCopy) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *z
	changed.tuning = t
	return &changed
}

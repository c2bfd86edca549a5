package fallback

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Algorithm is a peer-to-peer algorithm.
type Algorithm string

const (
	Auto    Algorithm = ""         // by size and number of ranks
	Packet  Algorithm = "packet"   // push the message with flags inside the data; small messages only
	OneShot Algorithm = "one-shot" // read every rank's message
	Push    Algorithm = "push"     // store slices to their owners, who reduce them and store the results to all
	// PushBulk is Push by bulk copies, which need compute capability 9.0. On older
	// GPUs it is Push, and its calls say so.
	PushBulk Algorithm = "push-bulk"
	TwoShot  Algorithm = "two-shot" // reduce one slice, store it to all: what NVLS zero-copy does, without the switch
)

// P2P is the peer-to-peer all-reduce over peer mappings.
type P2P struct {
	group     *collective.Group
	algorithm Algorithm
	tuning    collective.Tuning
}

// NewP2P makes a peer-to-peer all-reduce with one algorithm, or the one that
// suits each size (Auto).
func NewP2P(g *collective.Group, a Algorithm, t collective.Tuning) *P2P { return &P2P{g, a, t} }

// Mode implements collective.AllReducer: "p2p", "p2p-two-shot", ….
func (p *P2P) Mode() string {
	if p.algorithm == Auto {
		return "p2p"
	}
	return "p2p-" + string(p.algorithm)
}

// Supports implements collective.AllReducer: every algorithm does everything.
func (p *P2P) Supports(collective.DType, collective.Op) error { return nil }

// Prepare implements collective.AllReducer.
func (p *P2P) Prepare(c collective.Call) (collective.Prepared, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if t, ok := p.group.Trivial(c); ok {
		return t, nil
	}
	a := p.algorithm
	if a == Auto {
		a = choose(c.Bytes(), p.group.Size(), p.group.Workspace().ScratchBytes())
	}
	if a == Packet {
		return p.packet(c)
	}
	if err := c.RequireSymmetric(p.Mode()); err != nil {
		return nil, err
	}
	switch a {
	case OneShot:
		return p.oneShot(c)
	case Push:
		return p.push(c)
	case PushBulk:
		return p.pushBulk(c)
	}
	return p.twoShot(c)
}

// Close implements collective.AllReducer.
func (p *P2P) Close(context.Context) error { return nil }

func (p *P2P) packet(c collective.Call) (collective.Prepared, error) {
	g := p.group
	if err := PacketLimit(g.Size(), c.Bytes()); err != nil {
		return nil, err
	}
	plan, ok := planPackets(collective.CeilDiv(c.Bytes(), 8), g.Size(), g.MaxBlocks(), p.tuning)
	if !ok {
		return nil, failure.New(failure.Internal, "p2p-packet has no plan for %d bytes among %d ranks", c.Bytes(), g.Size())
	}
	args := kernels.Args{Chunk: plan.perBlock, Slots: uint32(plan.slots), Scratch: uint64(g.Workspace().Inbox(g.Rank()))}
	for r := range g.Size() {
		args.PeerOut[r] = uint64(g.Workspace().Inbox(r))
	}
	return g.NewLaunch(kernels.Packet, c, plan.Geometry, args)
}

func (p *P2P) push(c collective.Call) (collective.Prepared, error) {
	g := p.group
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	plan := planPush(c, span, g.Size(), g.MaxBlocks(), g.Workspace().ScratchBytes(), p.tuning)
	return p.launchPush(kernels.Push, pushSlots, c, span, plan)
}

func (p *P2P) launchPush(f kernels.Family, slots uint32, c collective.Call, span collective.Span, plan slotPlan) (collective.Prepared, error) {
	g := p.group
	args := kernels.Args{
		Head: span.Head, Packs: span.Packs, Chunk: plan.packs, OutsideChunk: plan.outside, SlotBytes: plan.slotBytes,
		Slots: slots, Scratch: uint64(g.Workspace().Scratch(g.Rank())),
	}
	for i := range g.Size() {
		args.PeerOut[i] = uint64(c.Recv.Peer((g.Rank() + i) % g.Size()))
	}
	return g.NewLaunch(f, c, plan.Geometry, args)
}

func (p *P2P) oneShot(c collective.Call) (collective.Prepared, error) {
	g := p.group
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	args := kernels.Args{Head: span.Head, Packs: span.Packs}
	for r := range g.Size() {
		args.PeerIn[r] = uint64(c.Send.Peer(r))
	}
	geo := p.tuning.Geometry(collective.CeilDiv(c.Bytes(), kernels.PackBytes), g.MaxBlocks(), oneShotBlocks)
	return g.NewLaunch(kernels.OneShot, c, geo, args)
}

func (p *P2P) twoShot(c collective.Call) (collective.Prepared, error) {
	g := p.group
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	args := kernels.Args{Head: span.Head, Packs: span.Packs, Chunk: collective.Slice(span.Packs, g.Size())}
	// Own first, then the following ranks: at any moment the ranks read from and
	// store to different peers.
	for i := range g.Size() {
		r := (g.Rank() + i) % g.Size()
		args.PeerIn[i], args.PeerOut[i] = uint64(c.Send.Peer(r)), uint64(c.Recv.Peer(r))
	}
	return g.NewLaunch(kernels.TwoShot, c, twoShotGeometry(c.Bytes(), g.Size(), g.MaxBlocks(), p.tuning), args)
}

// Tuned is the same all-reduce with another launch geometry. It shares
// everything with p, which alone is to be closed.
func (p *P2P) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *p
	changed.tuning = t
	return &changed
}

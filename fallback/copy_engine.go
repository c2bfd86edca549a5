package fallback

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// CopyEngine is the all-reduce whose bytes are moved by the GPUs' copy engines,
// which get more out of a link than loads and stores of kernels do. Each rank
// copies the others' slices of its input into their scratch memory, reduces its
// own slice there, and copies the result to all: in chunks, so that all three go
// on at once. It is for large messages: every chunk costs some microseconds.
type CopyEngine struct {
	group  *collective.Group
	tuning collective.Tuning
	*copyStreams
}

// copyStreams are the two streams beside the caller's, and the events by which
// the three are ordered.
type copyStreams struct {
	scatter, gather device.Stream
	begun           device.Event
	// Of each stage, an event for as many chunks as are under way.
	reached [copyStages][maxCopySlots]device.Event
}

// NewCopyEngine makes the streams that copies run on. It is collective. Scratch
// memory should be some 32 MiB (collective.Options.ScratchBytes): chunks are as
// large as it has room for.
func NewCopyEngine(ctx context.Context, g *collective.Group, t collective.Tuning) (*CopyEngine, error) {
	c := &CopyEngine{group: g, tuning: t, copyStreams: &copyStreams{}}
	err := c.open(g.Device())
	if err := g.Node().Vote(ctx, "make streams for copies", err); err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

func (c *copyStreams) open(d device.Device) error {
	var errs []error
	for _, s := range []*device.Stream{&c.scatter, &c.gather} {
		made, err := d.NewStream()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*s = made
	}
	for _, e := range c.events() {
		made, err := d.NewEvent()
		if err != nil {
			errs = append(errs, err)
			break
		}
		*e = made
	}
	return errors.Join(errs...)
}

func (c *copyStreams) events() []*device.Event {
	all := []*device.Event{&c.begun}
	for s := range c.reached {
		for i := range c.reached[s] {
			all = append(all, &c.reached[s][i])
		}
	}
	return all
}

func (c *copyStreams) release() error {
	var errs []error
	for _, e := range c.events() {
		if *e != nil {
			errs = append(errs, (*e).Close())
		}
	}
	for _, s := range []device.Stream{c.gather, c.scatter} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Mode implements collective.AllReducer.
func (c *CopyEngine) Mode() string { return "p2p-copy-engine" }

// Supports implements collective.AllReducer: everything.
func (c *CopyEngine) Supports(collective.DType, collective.Op) error { return nil }

// Prepare implements collective.AllReducer.
func (c *CopyEngine) Prepare(call collective.Call) (collective.Prepared, error) {
	if err := call.Check(); err != nil {
		return nil, err
	}
	if p, ok := c.group.Trivial(call); ok {
		return p, nil
	}
	if err := call.RequireSymmetric(c.Mode()); err != nil {
		return nil, err
	}
	g := c.group
	w := &copyWork{engine: c, call: call, plan: planCopies(call, g.Size(), g.MaxBlocks(), g.Workspace().ScratchBytes(), c.tuning)}
	w.steps = w.plan.steps(g.Rank())
	var err error
	if w.reduce, err = g.NewKernel(kernels.LocalReduce, call, w.plan.Geometry, kernels.Args{}); err != nil {
		return nil, err
	}
	if w.scattered, err = g.NewRankBarrier(kernels.Scattered); err != nil {
		return nil, err
	}
	if w.gathered, err = g.NewRankBarrier(kernels.Gathered); err != nil {
		return nil, err
	}
	return g.Record(w, fmt.Sprintf("copy-engine %dx%d chunk=%s slots=%d", w.plan.Blocks, w.plan.Threads, collective.FormatBytes(w.plan.chunk), w.plan.slots),
		collective.Tuning{Blocks: w.plan.Blocks, Threads: w.plan.Threads, Chunk: w.plan.chunk, Slots: uint32(w.plan.slots)})
}

// Close frees the streams. Work enqueued before must be done.
func (c *CopyEngine) Close(context.Context) error { return c.release() }

// Tuned is the same all-reduce with another tuning. It shares everything with c,
// which alone is to be closed.
func (c *CopyEngine) Tuned(t collective.Tuning) collective.AllReducer {
	changed := *c
	changed.tuning = t
	return &changed
}

// Tunings are the chunk sizes and numbers of slots worth trying for a message of
// so many bytes.
func (c *CopyEngine) Tunings(bytes uint64) []collective.Tuning {
	return copyTunings(bytes, c.group.Size(), c.group.Workspace().ScratchBytes())
}

// copyWork is the work of one call on this rank.
type copyWork struct {
	engine *CopyEngine
	call   collective.Call
	plan   copyPlan
	steps  []step

	reduce, scattered, gathered *collective.Kernel
}

// Enqueue implements collective.Work. The three streams are one piece of work for
// whoever waits for s, and one graph if s is capturing.
func (w *copyWork) Enqueue(s collective.Stream) error {
	c := w.engine
	streams := [copyQueues]device.Stream{mainQueue: s, scatterQueue: c.scatter, gatherQueue: c.gather}
	if err := s.Record(c.begun); err != nil {
		return err
	}
	for _, st := range w.steps {
		on := streams[st.stage.queue()]
		switch {
		case st.after >= 0:
			if err := on.WaitEvent(c.event(w.steps[st.after])); err != nil {
				return err
			}
		case st.after == start:
			if err := on.WaitEvent(c.begun); err != nil {
				return err
			}
		}
		if err := w.do(st, on); err != nil {
			return err
		}
		if st.awaited {
			if err := on.Record(c.event(st)); err != nil {
				return err
			}
		}
	}
	return nil
}

// event marks a step. A step of as many chunks later takes the same one: by then
// what awaits this one is enqueued.
func (c *copyStreams) event(s step) device.Event { return c.reached[s.stage][s.chunk%maxCopySlots] }

func (w *copyWork) do(st step, on device.Stream) error {
	switch st.stage {
	case scatter:
		return w.scatter(st.chunk, on)
	case meet:
		return w.scattered.Enqueue(on)
	case reduce:
		return w.reduceChunk(st.chunk).Enqueue(on)
	case gather:
		return w.gather(st.chunk, on)
	}
	return w.gathered.Enqueue(on)
}

// scatter copies the parts of the peers, the next rank's first: at any moment the
// ranks copy to different peers.
func (w *copyWork) scatter(k int, on device.Stream) error {
	g := w.engine.group
	for d := 1; d < g.Size(); d++ {
		peer := (g.Rank() + d) % g.Size()
		from, to := w.plan.part(peer, k)
		if from == to {
			continue
		}
		into := g.Workspace().Scratch(peer) + w.plan.at(k, g.Size()-d)
		if err := on.Copy(into, w.call.Send.Local()+device.Ptr(from), to-from); err != nil {
			return err
		}
	}
	return nil
}

func (w *copyWork) gather(k int, on device.Stream) error {
	g := w.engine.group
	from, to := w.plan.part(g.Rank(), k)
	for d := 1; d < g.Size(); d++ {
		peer := (g.Rank() + d) % g.Size()
		if err := on.Copy(w.call.Recv.Peer(peer)+device.Ptr(from), w.call.Recv.Local()+device.Ptr(from), to-from); err != nil {
			return err
		}
	}
	return nil
}

// reduceChunk is the kernel for this rank's part of a chunk.
func (w *copyWork) reduceChunk(k int) *collective.Kernel {
	g := w.engine.group
	from, to := w.plan.part(g.Rank(), k)
	in, out := w.call.Send.Local()+device.Ptr(from), w.call.Recv.Local()+device.Ptr(from)
	count := (to - from) / uint64(w.call.DType.Size())
	span := collective.NewSpan(in, out, count, w.call.DType)
	return w.reduce.With(func(a *kernels.Args) {
		a.Count, a.Head, a.Packs = count, span.Head, span.Packs
		a.PeerIn[0], a.PeerOut[0] = uint64(in), uint64(out)
		for d := 1; d < g.Size(); d++ {
			a.PeerIn[d] = uint64(g.Workspace().Scratch(g.Rank()) + w.plan.at(k, d))
		}
	})
}

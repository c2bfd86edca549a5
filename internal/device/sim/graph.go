package sim

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// graph is recorded work. It implements device.Graph. Arguments are copied when
// they are recorded; memory is looked at when the graph runs.
type graph struct {
	d        *gpu
	ops      []op
	branches int
	awaited  []bool // by op: whether another branch waits for it
	closed   atomic.Bool
}

// recording is a graph in the making: by the stream that began it, and by streams
// that waited for an event of it.
type recording struct {
	origin *stream

	mu      sync.Mutex
	graph   *graph
	members []*stream // whose part is the branch of that number
	ended   bool
}

// branch is a stream's part in a recording.
type branch struct {
	number int
	after  []int // work that the next piece must follow: the last one, and what events told
	next   op    // being filled
}

// mark is what an event that was recorded into a graph stands for.
type mark struct {
	in    *recording
	after []int
}

// join makes st a part of the recording. st.mu is held.
func (r *recording) join(st *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.capturing, st.branch = r, &branch{number: len(r.members)}
	r.members = append(r.members, st)
}

// add takes the branch's next piece of work.
func (r *recording) add(b *branch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.next.branch, b.next.after = b.number, b.after
	b.after = []int{len(r.graph.ops)}
	r.graph.ops = append(r.graph.ops, b.next)
}

func (st *stream) BeginCapture() error {
	return st.d.do("cuStreamBeginCapture", "", func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if err := st.usable(); err != nil {
			return err
		}
		(&recording{origin: st, graph: &graph{d: st.d}}).join(st)
		return nil
	})
}

func (st *stream) EndCapture() (device.Graph, error) {
	st.mu.Lock()
	n := 0
	if r := st.capturing; r != nil {
		r.mu.Lock()
		n = len(r.graph.ops)
		r.mu.Unlock()
	}
	st.mu.Unlock()
	var g *graph
	err := st.d.do("cuStreamEndCapture", fmt.Sprintf("%d nodes", n), func() (err error) {
		st.mu.Lock()
		r, b := st.capturing, st.branch
		st.mu.Unlock()
		switch {
		case r == nil:
			return refuse(device.IllegalState, "the stream is not recording")
		case r.origin != st:
			return refuse(device.CaptureUnmatched, "another stream began this recording")
		}
		g, err = r.end(b.after)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// end lets all members go. last is what the graph ends with: the work of every
// branch must lie before it.
func (r *recording) end(last []int) (*graph, error) {
	r.mu.Lock()
	r.ended = true
	g, members := r.graph, r.members
	r.mu.Unlock()
	for _, m := range members {
		m.mu.Lock()
		m.capturing, m.branch = nil, nil
		m.mu.Unlock()
	}
	g.branches = len(members)
	g.awaited = make([]bool, len(g.ops))
	joined := make([]bool, len(g.ops))
	for _, i := range last {
		joined[i] = true
	}
	for i, o := range slices.Backward(g.ops) {
		if !joined[i] {
			return nil, refuse(device.CaptureUnjoined, "the stream does not wait for branch %d of its recording", o.branch)
		}
		for _, before := range o.after {
			joined[before] = true
		}
	}
	g.dropEdges()
	for _, o := range g.ops {
		for _, before := range o.after {
			g.awaited[before] = g.awaited[before] || g.ops[before].branch != o.branch
		}
	}
	return g, nil
}

// dropEdges leaves out what Session.DropEdge says.
func (g *graph) dropEdges() {
	drop := g.d.s.DropEdge
	if drop == nil {
		return
	}
	for i := range g.ops {
		o := &g.ops[i]
		o.after = slices.DeleteFunc(slices.Clone(o.after), func(before int) bool {
			return g.ops[before].branch != o.branch && drop(g.ops[before].node(), o.node())
		})
	}
}

// node names a piece of work in a graph.
func (o *op) node() string {
	switch o.kind {
	case opLaunch:
		return o.kernel.Name()
	case opSet:
		return fmt.Sprintf("memset on branch %d", o.branch)
	}
	return fmt.Sprintf("copy on branch %d", o.branch)
}

// run does all work of a graph, each branch on its own as on hardware with a queue
// for each.
func (l *lane) run(g *graph) {
	r := replay{g: g, start: l.known, done: make([]chan struct{}, len(g.ops)), left: make([]*exec.Known, len(g.ops))}
	for i := range g.ops {
		if g.awaited[i] {
			r.done[i] = make(chan struct{})
		}
	}
	var others sync.WaitGroup
	for n := 1; n < g.branches; n++ {
		b := lane{d: l.d, number: l.number + n}
		if l.seat != nil {
			b.seat = l.seat.Fork(n)
		}
		others.Go(func() {
			if b.seat != nil {
				defer b.seat.Leave()
				if b.seat.Begin() != nil {
					return
				}
			}
			r.branch(&b, n)
		})
	}
	r.branch(l, 0)
	ended := make(chan struct{})
	go func() {
		others.Wait()
		close(ended)
	}()
	if !l.await(ended) {
		<-ended
	}
	l.known = r.start
	for _, k := range r.left {
		l.known = l.known.Join(k)
	}
}

// replay is one run of a graph.
type replay struct {
	g     *graph
	start *exec.Known     // what the work before the graph has left
	done  []chan struct{} // of work that another branch waits for; closed when it is done
	left  []*exec.Known   // by work, once it is done
}

// branch does the work of one branch.
func (r *replay) branch(l *lane, number int) {
	for i := range r.g.ops {
		o := &r.g.ops[i]
		if o.branch != number {
			continue
		}
		for _, before := range o.after {
			if r.g.ops[before].branch != number && !l.await(r.done[before]) {
				return
			}
		}
		// A node knows what those have left that its edges come from: nothing of what just
		// happens to be done.
		l.known = r.start
		for _, before := range o.after {
			l.known = l.known.Join(r.left[before])
		}
		l.execute(o)
		r.left[i] = l.known
		if r.done[i] != nil {
			close(r.done[i])
		}
	}
}

// await waits for work of another branch. False when the device is closed, whose
// branches all end then.
func (l *lane) await(done chan struct{}) bool {
	for l.seat != nil { // the others need turns
		select {
		case <-done:
			return true
		default:
		}
		if l.seat.Turn() != nil {
			return false
		}
	}
	select {
	case <-done:
		return true
	case <-l.d.ctx.Done():
		return false
	}
}

func (g *graph) Close() error {
	return g.d.do("cuGraphExecDestroy", "", func() error {
		g.closed.Store(true)
		return nil
	})
}

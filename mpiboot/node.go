//go:build linux

package mpiboot

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// Node is the ranks of one host, connected each to each. Its operations are
// collective: every rank calls the same ones, with the same stage, in the same
// order. They may be called from any goroutine, one at a time. After an
// operation has failed, the ranks may be at different steps, which the next one
// then reports: what remains is Finish or Abort.
//
// Roots and indices are local ranks; errors name world ranks.
type Node struct {
	me      int
	world   []int
	host    string
	timeout time.Duration
	enter   func(stage string) // nil for none

	op  sync.Mutex // one operation at a time
	seq uint32

	box   sync.Mutex // guards the queues of peers, and closed
	peers []*peer    // by local rank; nil at me
	news  chan struct{}
	alarm chan struct{} // an objection has come
	lost  chan struct{} // closed when the first of them has gone
	went  int
	open  bool
}

func newNode(cfg meshConfig, peers []*peer) *Node {
	n := &Node{me: cfg.me, world: cfg.world, host: cfg.host, timeout: cfg.timeout, enter: cfg.enter, peers: peers, news: make(chan struct{}, 1), alarm: make(chan struct{}, 1), lost: make(chan struct{}), open: true}
	for _, p := range peers {
		if p != nil {
			go n.listen(p)
		}
	}
	return n
}

// listen moves all that a peer sends into its queue at once, so that no rank's
// sending ever waits for another's receiving, whatever the order.
func (n *Node) listen(p *peer) {
	for {
		m, err := p.read()
		if err == nil && m.kind == kindVote {
			var v Verdict
			m.objects = json.Unmarshal(m.body, &v) == nil && !v.OK
		}
		n.box.Lock()
		switch {
		case err != nil:
			p.gone = err
			if n.went == 0 {
				close(n.lost)
			}
			n.went++
			p.order = n.went
		case m.kind == kindBye && len(m.body) > 0:
			if c, err := strconv.Atoi(string(m.body)); err == nil {
				code := failure.Code(c)
				p.left = &code
			}
		case !n.open:
			closeFiles(m.files)
		default:
			p.queue = append(p.queue, m)
		}
		n.box.Unlock()
		wake(n.news)
		if err == nil && m.objects {
			wake(n.alarm)
		}
		if err != nil {
			return
		}
	}
}

// wake leaves a note for one that waits, unless there is one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Rank is this rank's number on the host.
func (n *Node) Rank() int { return n.me }

// Size is the number of ranks on the host.
func (n *Node) Size() int { return len(n.world) }

// WorldRanks gives the world rank of each local rank.
func (n *Node) WorldRanks() []int { return slices.Clone(n.world) }

// Barrier waits until every rank of the host is at this stage.
func (n *Node) Barrier(ctx context.Context, stage string) error {
	_, err := n.gather(ctx, kindBarrier, stage, &message{})
	return err
}

// Allgather gives every rank what each brought, by local rank. Lengths may
// differ.
func (n *Node) Allgather(ctx context.Context, stage string, mine []byte) ([][]byte, error) {
	all, err := n.gather(ctx, kindGather, stage, &message{body: slices.Clone(mine)})
	if err != nil {
		return nil, err
	}
	return bodies(all), nil
}

func bodies(all []*message) [][]byte {
	out := make([][]byte, len(all))
	for i, m := range all {
		out[i] = m.body
	}
	return out
}

// Bcast gives root's data to every rank.
func (n *Node) Bcast(ctx context.Context, stage string, root int, data []byte) ([]byte, error) {
	m, err := n.bcast(ctx, kindBcast, stage, root, &message{body: data})
	if err != nil {
		return nil, err
	}
	return m.body, nil
}

// AllreduceInt64 reduces values elementwise over the ranks of the host; every
// rank brings as many.
func (n *Node) AllreduceInt64(ctx context.Context, stage string, op mpi.Op, values []int64) ([]int64, error) {
	return reduce(ctx, n, stage, op, values, func(v int64) uint64 { return uint64(v) }, func(b uint64) int64 { return int64(b) })
}

// AllreduceFloat64 reduces values elementwise over the ranks of the host, in
// the order of ranks; every rank brings as many.
func (n *Node) AllreduceFloat64(ctx context.Context, stage string, op mpi.Op, values []float64) ([]float64, error) {
	return reduce(ctx, n, stage, op, values, math.Float64bits, math.Float64frombits)
}

func reduce[T int64 | float64](ctx context.Context, n *Node, stage string, op mpi.Op, values []T, bits func(T) uint64, from func(uint64) T) ([]T, error) {
	var body []byte
	for _, v := range values {
		body = binary.LittleEndian.AppendUint64(body, bits(v))
	}
	all, err := n.gather(ctx, kindReduce, stage, &message{body: body})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(values))
	for r, m := range all {
		if len(m.body) != len(body) {
			return nil, &failure.Error{Code: failure.Internal, What: fmt.Sprintf("all-reduce at stage %q: rank %d brought %d values, rank %d %d",
				stage, n.world[r], len(m.body)/8, n.world[n.me], len(values)), Where: n.where()}
		}
		for i := range out {
			v := from(binary.LittleEndian.Uint64(m.body[8*i:]))
			switch {
			case r == 0:
				out[i] = v
			case op == mpi.Max:
				out[i] = max(out[i], v)
			case op == mpi.Min:
				out[i] = min(out[i], v)
			default:
				out[i] += v
			}
		}
	}
	return out, nil
}

// Watch gives a context that ends when another rank leaves, or brings an error to
// the vote that comes next. It is for waits that hear nothing of the ranks, such
// as those for a device whose kernel waits for them. The operation after such a
// wait tells who it was; a vote takes the error of such a wait for a consequence.
func (n *Node) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			if n.objection() {
				cancel(errObjection)
			}
			select {
			case <-n.lost:
				cancel(errLeft)
				return
			case <-ctx.Done():
				return
			case <-n.alarm:
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

var (
	errLeft      = errors.New("another rank left")
	errObjection = errors.New("another rank failed")
)

// consequence says whether an error comes from a wait that Watch ended.
func consequence(err error) bool { return errors.Is(err, errLeft) || errors.Is(err, errObjection) }

// objection says whether a rank has brought an error to a vote that this rank
// has not come to.
func (n *Node) objection() bool {
	n.box.Lock()
	defer n.box.Unlock()
	for _, p := range n.peers {
		if p != nil && slices.ContainsFunc(p.queue, func(m *message) bool { return m.objects }) {
			return true
		}
	}
	return false
}

func (n *Node) where() string { return fmt.Sprintf("rank %d on %s", n.world[n.me], n.host) }

// gather sends mine to every peer and waits for one message from each. The
// entry at the own rank is mine.
func (n *Node) gather(ctx context.Context, k kind, stage string, mine *message) ([]*message, error) {
	n.op.Lock()
	defer n.op.Unlock()
	if n.enter != nil {
		n.enter(stage)
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	n.seq++
	mine.kind, mine.seq, mine.stage = k, n.seq, stage
	var others []int
	for i := range n.peers {
		if i != n.me {
			others = append(others, i)
		}
	}
	if err := n.send(ctx, others, mine, false); err != nil {
		return nil, err
	}
	all, err := n.receive(ctx, others, mine)
	if err != nil {
		return nil, err
	}
	all[n.me] = mine
	return all, nil
}

// bcast sends root's message to all others. The root does not learn who took it.
func (n *Node) bcast(ctx context.Context, k kind, stage string, root int, mine *message) (*message, error) {
	if root < 0 || root >= len(n.world) {
		return nil, failure.New(failure.Internal, "broadcast at stage %q: root %d is not among the %d ranks of the host", stage, root, len(n.world))
	}
	n.op.Lock()
	defer n.op.Unlock()
	if n.enter != nil {
		n.enter(stage)
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	n.seq++
	mine.kind, mine.seq, mine.stage = k, n.seq, stage
	if n.me == root {
		var others []int
		for i := range n.peers {
			if i != n.me {
				others = append(others, i)
			}
		}
		return mine, n.send(ctx, others, mine, true)
	}
	all, err := n.receive(ctx, []int{root}, mine)
	if err != nil {
		return nil, err
	}
	return all[root], nil
}

// send writes m to each peer of to. That a peer is gone is an error only where
// nothing is received from it afterwards (final): what it sent before it went
// says more.
func (n *Node) send(ctx context.Context, to []int, m *message, final bool) error {
	deadline, _ := ctx.Deadline()
	start := time.Now()
	pe := &PeersError{Stage: m.stage, Op: m.kind.String()}
	for _, i := range to {
		p := n.peers[i]
		err := p.write(m, deadline)
		var ne interface{ Timeout() bool }
		switch {
		case err == nil:
		case errors.As(err, &ne) && ne.Timeout():
			pe.Missing = append(pe.Missing, p.rank)
			pe.Waited, pe.Cause = time.Since(start), context.DeadlineExceeded
		case hungUp(err):
			if final {
				pe.Gone = append(pe.Gone, n.departure(p))
			}
		default:
			return &failure.Error{Code: failure.Internal, What: fmt.Sprintf("sending to rank %d at stage %q failed", p.rank, m.stage), Where: n.where(), Err: err}
		}
	}
	if len(pe.Missing)+len(pe.Gone) > 0 {
		return pe.explain(n.world[n.me], n.host)
	}
	return nil
}

// receive waits for one message from each peer of from that belongs to the same
// operation as mine.
func (n *Node) receive(ctx context.Context, from []int, mine *message) ([]*message, error) {
	got := make([]*message, len(n.peers))
	pe := &PeersError{Stage: mine.stage, Op: mine.kind.String()}
	start := time.Now()
	for {
		waiting := n.collect(from, got)
		for _, i := range waiting {
			if p := n.peers[i]; n.spent(p) {
				pe.Gone = append(pe.Gone, n.departure(p))
			}
		}
		for _, i := range from {
			if m := got[i]; m != nil && (m.seq != mine.seq || m.kind != mine.kind || m.stage != mine.stage) {
				pe.OutOf = append(pe.OutOf, OutOfStep{n.world[i], m.stage, m.kind.String(), m.seq, n.world[n.me], mine.stage, mine.kind.String(), mine.seq})
			}
		}
		if len(pe.Gone)+len(pe.OutOf) > 0 {
			break
		}
		if len(waiting) == 0 {
			return got, nil
		}
		select {
		case <-n.news:
			continue
		case <-ctx.Done():
		}
		// News and the end may have come together.
		for _, i := range n.collect(from, got) {
			pe.Missing = append(pe.Missing, n.world[i])
		}
		if len(pe.Missing) == 0 {
			continue
		}
		pe.Waited, pe.Cause = time.Since(start), context.Cause(ctx)
		break
	}
	for _, m := range got {
		if m != nil {
			closeFiles(m.files)
		}
	}
	n.orderGone(pe)
	return nil, pe.explain(n.world[n.me], n.host)
}

// collect takes the next message of each peer of from that has none in got, and
// lists those that still have none.
func (n *Node) collect(from []int, got []*message) (waiting []int) {
	n.box.Lock()
	defer n.box.Unlock()
	for _, i := range from {
		p := n.peers[i]
		switch {
		case got[i] != nil:
		case len(p.queue) > 0:
			got[i], p.queue = p.queue[0], p.queue[1:]
		default:
			waiting = append(waiting, i)
		}
	}
	return waiting
}

// spent says whether nothing more will come from p.
func (n *Node) spent(p *peer) bool {
	n.box.Lock()
	defer n.box.Unlock()
	return p.gone != nil && len(p.queue) == 0
}

func (n *Node) departure(p *peer) Departure {
	n.box.Lock()
	defer n.box.Unlock()
	d := Departure{Rank: p.rank, Code: p.left}
	if p.gone != nil && !errors.Is(p.gone, io.EOF) {
		d.Err = p.gone
	}
	return d
}

// orderGone puts the rank that went first in front: the others may have gone
// because of it.
func (n *Node) orderGone(pe *PeersError) {
	n.box.Lock()
	defer n.box.Unlock()
	order := func(d Departure) int {
		for _, p := range n.peers {
			if p != nil && p.rank == d.Rank {
				return p.order
			}
		}
		return 0
	}
	slices.SortStableFunc(pe.Gone, func(a, b Departure) int { return order(a) - order(b) })
}

// leave tells every peer with which code this rank goes, and closes the
// connections. Descriptors that nobody took are closed.
func (n *Node) leave(code failure.Code) {
	n.announce(code)
	for _, p := range n.peers {
		if p != nil {
			p.conn.Close()
		}
	}
}

// announce is leave in one direction: what peers announce is still heard.
func (n *Node) announce(code failure.Code) {
	deadline := time.Now().Add(time.Second)
	n.box.Lock()
	wasOpen := n.open
	n.open = false
	for _, p := range n.peers {
		if p != nil {
			for _, m := range p.queue {
				closeFiles(m.files)
			}
		}
	}
	n.box.Unlock()
	if !wasOpen {
		return
	}
	for _, p := range n.peers {
		if p != nil {
			// An error means that the peer has gone already.
			p.write(&message{kind: kindBye, body: []byte(strconv.Itoa(int(code)))}, deadline)
			p.conn.CloseWrite()
		}
	}
}

// aborting reports whether a rank before this one has announced that it ends the
// job.
func (n *Node) aborting() bool {
	n.box.Lock()
	defer n.box.Unlock()
	return slices.ContainsFunc(n.peers[:n.me], func(p *peer) bool {
		return p.left != nil && *p.left != failure.OK && *p.left != failure.Terminated
	})
}

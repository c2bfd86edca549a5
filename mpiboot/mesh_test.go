//go:build linux

package mpiboot

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// This file connects ranks within a test's own process.

var bg = context.Background()

// gathering is how ranks of a test meet.
type gathering struct {
	ranks   int
	dir     string // of sockets; "": abstract ones
	timeout time.Duration
	first   *net.UnixListener // of rank 0, which listens already; nil: like the others
	log     *journal
	builds  []string // by rank; nil: none is compared
	// before is called before a rank listens. Its error keeps the rank away.
	before func(r int) error
}

// meet connects the ranks and gives what each has of it.
func (g gathering) meet(t *testing.T) ([]*Node, []error) {
	t.Helper()
	nodes := make([]*Node, g.ranks)
	errs := parallel(g.ranks, func(r int) (err error) {
		c, own := meshOf(g.ranks, r, g.dir, g.timeout, t), g.first
		if g.log != nil {
			c.log = g.log
		}
		if g.builds != nil {
			c.build = g.builds[r]
		}
		if g.before != nil {
			if err := g.before(r); err != nil {
				return err
			}
		}
		if r > 0 || own == nil {
			if own, err = listen(c.sockets[r]); err != nil {
				return err
			}
		}
		nodes[r], err = connect(bg, c, own)
		return err
	})
	return nodes, errs
}

// together is meet where nothing may fail. The ranks leave at the end of the test.
func (g gathering) together(t *testing.T) []*Node {
	t.Helper()
	nodes, errs := g.meet(t)
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.leave(0)
		}
	})
	return nodes
}

// mesh connects n ranks.
func mesh(t *testing.T, n int, dir string, timeout time.Duration) []*Node {
	t.Helper()
	return gathering{ranks: n, dir: dir, timeout: timeout}.together(t)
}

// early makes rank 0 of a gathering listen before anybody calls, and names its
// socket.
func (g *gathering) early(t *testing.T) (socket string) {
	t.Helper()
	socket = meshOf(g.ranks, 0, g.dir, g.timeout, t).sockets[0]
	l, err := listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	g.first = l
	return socket
}

var (
	meshMu  sync.Mutex
	meshIDs = map[*testing.T]UniqueID{}
)

// meshOf is rank me's part of a mesh of the test's run. World ranks are 10 and up,
// so that a local rank in a message shows.
func meshOf(n, me int, dir string, timeout time.Duration, t *testing.T) meshConfig {
	meshMu.Lock()
	defer meshMu.Unlock()
	id, ok := meshIDs[t]
	if !ok {
		id = NewUniqueID()
		meshIDs[t] = id
	}
	cfg := meshConfig{id: id, me: me, host: "h", timeout: timeout}
	for r := range n {
		cfg.world = append(cfg.world, 10+r)
		cfg.sockets = append(cfg.sockets, socketName(dir, id, r))
	}
	return cfg
}

func parallel(n int, f func(r int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errs
}

func all(t *testing.T, nodes []*Node, f func(n *Node) error) {
	t.Helper()
	for r, err := range parallel(len(nodes), func(r int) error { return f(nodes[r]) }) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

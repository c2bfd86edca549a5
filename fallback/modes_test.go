package fallback_test

import (
	"context"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// p2p is the suite's view of one algorithm.
func p2p(name string, a fallback.Algorithm) grouptest.Mode {
	return grouptest.Mode{Name: name, New: func(r *grouptest.Rank, t collective.Tuning, _ ...*collective.Memory) collective.AllReducer {
		return fallback.NewP2P(r.Group, a, t)
	}}
}

func copyIn(staging uint64) grouptest.Mode {
	return grouptest.Mode{Name: "p2p-copy-in", Plain: true, New: func(r *grouptest.Rank, t collective.Tuning, _ ...*collective.Memory) collective.AllReducer {
		c, err := fallback.NewCopyIn(context.Background(), r.Group, staging, t)
		r.OK(err, "NewCopyIn")
		return c
	}}
}

func ring() grouptest.Mode {
	return grouptest.Mode{Name: "ring", New: func(r *grouptest.Rank, t collective.Tuning, _ ...*collective.Memory) collective.AllReducer {
		return fallback.NewRing(r.Group, t)
	}}
}

func packet() grouptest.Mode {
	m := p2p("p2p-packet", fallback.Packet)
	m.Plain = true
	// The inboxes of 128 blocks hold 16 bytes for 8 of a message, twice, from every
	// other rank.
	m.MaxBytes = func(ranks int) uint64 { return collective.InboxBytes / (128 * 2 * 16 * uint64(ranks-1)) * 128 * 8 }
	return m
}

// copyEngine is the suite's view of copies in chunks of so many bytes, in so many
// slots; 0 is automatic.
func copyEngine(name string, chunk uint64, slots uint32) grouptest.Mode {
	return grouptest.Mode{Name: name, New: func(r *grouptest.Rank, t collective.Tuning, _ ...*collective.Memory) collective.AllReducer {
		t.Chunk, t.Slots = chunk, slots
		c, err := fallback.NewCopyEngine(context.Background(), r.Group, t)
		r.OK(err, "NewCopyEngine")
		return c
	}}
}

func modes() []grouptest.Mode {
	return []grouptest.Mode{ring(), p2p("p2p-one-shot", fallback.OneShot), p2p("p2p-two-shot", fallback.TwoShot), p2p("p2p-push", fallback.Push), p2p("p2p-push-bulk", fallback.PushBulk), packet(), copyIn(1),
		copyEngine("p2p-copy-engine", 0, 0), copyEngine("p2p-copy-engine in small chunks", 512, 2)}
}

func TestModes(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.Name, m.Test)
	}
}

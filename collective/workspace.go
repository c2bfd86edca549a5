package collective

import (
	"context"
	"encoding/binary"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Layout of the workspace on each device: signals, inboxes, scratch. It is all
// the memory that zero-copy, ring and peer-to-peer all-reduces need beside the
// user's buffers.
const (
	reportOffset = 32 << 10 // after the signals
	inboxOffset  = 64 << 10
	// ReportBytes is the part that kernels of all-reduces leave alone.
	ReportBytes = inboxOffset - reportOffset
	// InboxBytes is the memory in which packets arrive.
	InboxBytes    = 2 << 20
	scratchOffset = inboxOffset + InboxBytes
	// ScratchBytes is the scratch memory of ring, push and copy engines where nothing
	// else was asked for, and MinScratchBytes the least that can be.
	ScratchBytes    = 4<<20 - scratchOffset
	MinScratchBytes = 64 << 10
	// ScratchMessages is how many messages the slots of ring and push hold at most:
	// more scratch memory is of no use for a message.
	ScratchMessages = 4
)

// scratchBytes is the scratch memory for what Options.ScratchBytes asks.
func scratchBytes(asked uint64) uint64 {
	if asked == 0 {
		return ScratchBytes
	}
	return max(asked, MinScratchBytes)
}

// WorkspaceBytes is the size of the workspace on each device for what
// Options.ScratchBytes asks.
func WorkspaceBytes(asked uint64) uint64 { return scratchOffset + scratchBytes(asked) }

var _ [reportOffset - kernels.SignalBytes]byte // the signals fit

// Workspace is the symmetric memory that the kernels of all modes share:
// signals, the ring's scratch and the packets' inboxes. Calls of different modes
// may follow each other on one stream.
type Workspace struct {
	group   *Group
	memory  *Memory
	scratch uint64
}

func newWorkspace(ctx context.Context, g *Group) (*Workspace, error) {
	scratch := scratchBytes(g.options.ScratchBytes)
	m, err := g.Alloc(ctx, "signals and scratch", scratchOffset+scratch)
	if err != nil {
		return nil, err
	}
	peers := make([]byte, 8*kernels.MaxRanks)
	for r := range g.Size() {
		binary.LittleEndian.PutUint64(peers[8*r:], uint64(m.Peer(r)))
	}
	err = g.dev.CopyToDevice(m.Local()+kernels.PeersOffset, peers)
	if err := g.node.Vote(ctx, "set up signals", g.at(err)); err != nil {
		return nil, err
	}
	return &Workspace{group: g, memory: m, scratch: scratch}, nil
}

// Signals is the address of this rank's signals.
func (w *Workspace) Signals() Ptr { return w.memory.Local() }

// ScratchBytes is the size of each rank's scratch memory.
func (w *Workspace) ScratchBytes() uint64 { return w.scratch }

// Scratch is the address at which this rank reaches a rank's scratch memory.
func (w *Workspace) Scratch(rank int) Ptr { return w.memory.Peer(rank) + scratchOffset }

// Inbox is the address at which this rank reaches a rank's packet inbox.
func (w *Workspace) Inbox(rank int) Ptr { return w.memory.Peer(rank) + inboxOffset }

// Report is the address of ReportBytes of this rank for a program's own small
// results, such as those of a verification kernel.
func (w *Workspace) Report() Ptr { return w.memory.Local() + reportOffset }

// check reads the status that a kernel leaves when a wait ran into its deadline.
func (w *Workspace) check() error {
	b := make([]byte, kernels.StatusBytes)
	if err := w.group.dev.CopyToHost(b, w.Signals()+kernels.StatusOffset); err != nil {
		return w.group.at(err)
	}
	if s, failed := kernels.DecodeStatus(b); failed {
		return &failure.Error{Code: failure.Timeout, What: "an all-reduce kernel gave up after " + w.group.Timeout().String(), Where: w.group.Where(), Why: s.String(),
			Do: "look for a rank that ended or hangs; on a slow or shared device raise --timeout", By: failure.User}
	}
	return nil
}

func (w *Workspace) close(ctx context.Context) error { return w.memory.Close(ctx) }

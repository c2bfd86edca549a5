package fallback

import (
	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// packetsPerRank is how many packets one rank can have in an inbox at a time:
// inboxes are double-buffered and divided among the ranks.
func packetsPerRank(ranks int) uint64 {
	return collective.InboxBytes / (2 * uint64(ranks) * kernels.PacketBytes)
}

// maxPacketBytes is the largest message that the packet algorithm can take.
func maxPacketBytes(ranks int) uint64 { return 8 * packetsPerRank(ranks) }

// Blocks of each algorithm at most. A packet kernel has no barrier, but each of
// its blocks polls; one-shot is for messages that few blocks move.
const (
	packetBlocks  = 32
	oneShotBlocks = 64
	ringBlocks    = 24
	ringSlots     = 4
	// twoShotUnroll is the number of packs that a thread of the two-shot kernel
	// has in flight (kUnroll of fabric.cuh).
	twoShotUnroll = 2
)

// choose picks the algorithm for a message when the mode is plain p2p. The
// limits are defaults by world size: one-shot moves n-1 messages over each link
// where two-shot moves 2(n-1)/n, so its range shrinks as n grows; with two ranks
// both move the same. Mode auto measures instead.
func choose(bytes uint64, ranks int) Algorithm {
	packet, oneShot := uint64(32<<10), uint64(64<<10)
	switch {
	case ranks <= 2:
		packet, oneShot = 64<<10, 512<<10
	case ranks <= 4:
		packet, oneShot = 32<<10, 128<<10
	}
	switch {
	case bytes <= min(packet, maxPacketBytes(ranks)):
		return Packet
	case bytes <= oneShot:
		return OneShot
	}
	return TwoShot
}

// ringPlan divides the ring's scratch among blocks and slots.
type ringPlan struct {
	collective.Geometry
	chunkPacks uint64 // of a slot
}

func planRing(packs uint64, ranks int, maxBlocks uint32, t collective.Tuning) ringPlan {
	geo := t.Geometry(collective.CeilDiv(packs, uint64(ranks)), min(maxBlocks, ringBlocks))
	return ringPlan{geo, collective.ScratchBytes / (uint64(geo.Blocks) * ringSlots * kernels.PackBytes)}
}

package fallback

import (
	"cmp"
	"math/bits"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Blocks of each algorithm at most. One-shot is for messages that few blocks
// move; a packet kernel's blocks have an inbox each.
const (
	packetBlocks  = 128
	oneShotBlocks = 64
	pushSlots     = 3
	// pushRound is the packs for all other ranks that a block pushes in a round, where
	// scratch memory has room.
	pushRound = 5120
	// splitPacks is the share of a block above which more than two ranks push it in
	// two rounds.
	splitPacks = 1024
	// pushFill is how many times its scratch memory a rank may receive by push
	// before two-shot is the better choice, where it is less than pushScratch.
	pushFill    = 2
	pushScratch = 16 << 20
	// pushBytes is the message from which push is faster than two-shot.
	pushBytes = 8 << 20
	// bulkBytes is the message from which bulk copies are the faster way to push.
	bulkBytes = 64 << 20
)

// inboxes is the number of blocks that have an inbox, the same in every call of a
// group: as many as run at once, two on a multiprocessor, for a block waits for the
// same block of the peers, and hardware may start blocks in any order. A power of
// two, so that fewer inboxes hold no less than the most.
func inboxes(maxBlocks uint32) uint64 {
	return 1 << (bits.Len32(min(packetBlocks, 2*maxBlocks)) - 1)
}

// inboxPackets is how many packets each of so many inboxes holds for each other
// rank: inboxes are double-buffered.
func inboxPackets(ranks int, inboxes uint64) uint64 {
	return collective.InboxBytes / (inboxes * 2 * uint64(ranks-1) * kernels.PacketBytes)
}

// maxPacketBytes is the largest message that the packet algorithm can take: what
// the most inboxes hold.
func maxPacketBytes(ranks int) uint64 { return 8 * packetBlocks * inboxPackets(ranks, packetBlocks) }

// PacketLimit says why the packet algorithm cannot take a message of so many bytes
// among ranks, nil when it can. It depends on neither device nor geometry.
func PacketLimit(ranks int, bytes uint64) error {
	if ranks < 2 {
		return nil // there is nobody to send to
	}
	if bytes <= maxPacketBytes(ranks) {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: "p2p-packet cannot take this size", Why: "inboxes hold packets for messages of at most " + collective.FormatBytes(maxPacketBytes(ranks)) + " among this many ranks",
		Do: "use --mode p2p, which changes to another algorithm for larger messages, or a smaller --maxbytes", By: failure.User}
}

// packetPlan divides a message of packets among blocks.
type packetPlan struct {
	collective.Geometry
	perBlock uint64 // packets of a block, at most slots
	slots    uint64 // packets that an inbox holds for one rank
}

// planPackets gives each thread one packet as long as there are blocks, and
// then more: a thread that has several waits for them one after the other. ok is
// false for a message that is too large.
func planPackets(packets uint64, ranks int, maxBlocks uint32, t collective.Tuning) (p packetPlan, ok bool) {
	most := inboxes(maxBlocks)
	slots := inboxPackets(ranks, most)
	// Blocks go before threads: there are as many inboxes as blocks run at once.
	geo := collective.Tuning{Threads: t.Threads}.Geometry(packets, maxBlocks, uint32(most))
	geo.Blocks = cmp.Or(t.Blocks, geo.Blocks)
	geo.Threads = uint32(min(uint64(geo.Threads), max(collective.CeilDiv(slots, 32)*32, 64)))
	blocks := max(uint64(geo.Blocks), collective.CeilDiv(packets, slots))
	if t.Blocks == 0 {
		blocks = max(blocks, min(collective.CeilDiv(packets, uint64(geo.Threads)), most, uint64(maxBlocks)))
	}
	geo.Blocks = uint32(min(blocks, most))
	if geo.Blocks > maxBlocks {
		geo.Threads = min(geo.Threads, kernels.MaxThreads/2) // two share a multiprocessor
	}
	perBlock := collective.CeilDiv(packets, uint64(geo.Blocks))
	return packetPlan{geo, perBlock, slots}, perBlock <= slots
}

// slotPlan divides a message for the ring and for push, whose blocks pass it
// through scratch slots: of packs, and of the elements in no pack, what a block
// takes of each rank's share at a time.
type slotPlan struct {
	collective.Geometry
	slotBytes      uint64 // room in a slot for one rank's share
	packs, outside uint64 // shares: packs and elements, as much as is worth it and has room
}

// planSlots divides a message evenly over blocks, ranks and rounds: as few rounds as
// slots of room packs allow. Shares of packs are whole lines, for an access that
// lies across lines is carried by one packet of a link more.
func planSlots(c collective.Call, span collective.Span, ranks int, geo collective.Geometry, room uint64) slotPlan {
	if room > collective.LinePacks {
		room = room / collective.LinePacks * collective.LinePacks
	}
	perPack := uint64(kernels.PackBytes / c.DType.Size())
	parts := uint64(geo.Blocks) * uint64(ranks)
	share := func(units, room, line uint64) uint64 {
		all := collective.CeilDiv(max(units, 1), parts)
		rounds := collective.CeilDiv(all, room)
		return min(collective.RoundUp(collective.CeilDiv(all, rounds), line), room)
	}
	return slotPlan{geo, room * kernels.PackBytes, share(span.Packs, room, collective.LinePacks), share(c.Count-span.Packs*perPack, room*perPack, 1)}
}

// split is the share of packs in a plan for push that would take one round, in
// two: among more than two ranks the second is on its way while the first is
// waited for.
func (p *slotPlan) split(ranks int, packs uint64) {
	if parts := uint64(p.Blocks) * uint64(ranks); ranks > 2 && p.packs > splitPacks && p.packs*parts >= packs {
		p.packs = collective.RoundUp(collective.CeilDiv(packs, 2*parts), collective.LinePacks)
	}
}

// planPush takes as many blocks as have something to move, at most as many as
// have room for their slots in scratch: a row for each other rank.
func planPush(c collective.Call, span collective.Span, ranks int, maxBlocks uint32, scratch uint64, t collective.Tuning) slotPlan {
	geo := t.Geometry(collective.CeilDiv(c.Bytes(), uint64(ranks)*kernels.PackBytes), maxBlocks, kernels.MaxBlocks)
	slots := uint64(pushSlots * (ranks - 1) * kernels.PackBytes)
	geo.Blocks = uint32(max(min(uint64(geo.Blocks), scratch/slots), 1))
	room := scratch / (uint64(geo.Blocks) * slots)
	p := planSlots(c, span, ranks, geo, max(min(room, pushRound/uint64(ranks-1)), 1))
	p.split(ranks, span.Packs)
	return p
}

// planRing divides the ring's scratch among blocks and slots: one for each message
// of a round that goes through them.
func planRing(c collective.Call, span collective.Span, ranks int, maxBlocks uint32, scratch uint64, t collective.Tuning) slotPlan {
	geo := t.Geometry(collective.CeilDiv(c.Bytes(), uint64(ranks)*kernels.PackBytes), maxBlocks, kernels.MaxBlocks)
	return planSlots(c, span, ranks, geo, scratch/(uint64(geo.Blocks)*uint64(ranks-1)*kernels.PackBytes))
}

// twoShotGeometry gives each thread one pack, or two among few ranks, where its
// loads are fewer.
func twoShotGeometry(bytes uint64, ranks int, maxBlocks uint32, t collective.Tuning) collective.Geometry {
	packs := uint64(1)
	if ranks < 4 {
		packs = 2
	}
	return t.Geometry(collective.CeilDiv(bytes, kernels.PackBytes*uint64(ranks)*packs), maxBlocks, kernels.MaxBlocks)
}

// choose picks the algorithm for a message when the mode is plain p2p. The
// limits are defaults by world size, from docs/measurements for 2 to 4 ranks:
// packets move 2(n-1) messages over each link where push and two-shot move 2(n-1)/n,
// so their range shrinks as n grows. Push stores, which carries more than two-shot's
// loads, but takes longer to begin, and scratch memory for large slots. Mode auto
// measures instead.
func choose(bytes uint64, ranks int, scratch uint64) Algorithm {
	packet := uint64(32 << 10)
	switch {
	case ranks <= 2:
		packet = 512 << 10
	case ranks == 3:
		packet = 256 << 10
	case ranks == 4:
		packet = 128 << 10
	}
	switch {
	case bytes <= min(packet, maxPacketBytes(ranks)):
		return Packet
	case bytes < pushBytes, scratch < pushScratch && bytes*uint64(ranks-1)/uint64(ranks) > pushFill*scratch:
		return TwoShot
	case bytes >= bulkBytes:
		return PushBulk
	}
	return Push
}

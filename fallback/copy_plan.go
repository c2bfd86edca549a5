package fallback

import (
	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

const (
	// copyUnit is what slices and chunks are a multiple of, in bytes, but for the
	// message's end: copy engines are fastest from and to such addresses.
	copyUnit = 512
	// reducePacks is the packs of a chunk for each thread that reduces it.
	reducePacks = 2
	// copySlots is the number of chunks that are under way: two that are copied, one
	// whose arrival is awaited, one that is reduced.
	copySlots    = 4
	leastSlots   = 2
	maxCopySlots = 8
	// copyChunks is into how many chunks a slice is divided where that makes none
	// smaller than a step of copyStep bytes, all peers together, and scratch memory
	// has room: the first and the last one are not overlapped, and each costs some
	// microseconds.
	copyChunks = 8
	copyStep   = 2 << 20
	// mostChunks bounds the size of the graph where a chunk size is asked for.
	mostChunks = 1024
	// copyBlocks is enough to reduce what the links bring.
	copyBlocks = 32
)

// copyPlan divides a message for copy engines: every rank owns a slice, which moves
// in chunks.
type copyPlan struct {
	collective.Geometry
	ranks        int
	bytes        uint64 // of the message
	slice, chunk uint64 // bytes
	chunks       int    // of a slice
	slots        int    // in which chunks arrive in turn
	row          uint64 // bytes of a slot for the part from one peer
	skew         uint64 // where a part begins in its row: as in the send buffer, modulo a pack
}

// planCopies is the same on every rank. scratch are the bytes of each rank's scratch
// memory.
func planCopies(c collective.Call, ranks int, maxBlocks uint32, scratch uint64, t collective.Tuning) copyPlan {
	peers := uint64(ranks - 1)
	p := copyPlan{ranks: ranks, bytes: c.Bytes(), slots: copySlots, skew: uint64(c.Send.Local()) % kernels.PackBytes}
	if t.Slots != 0 {
		p.slots = int(min(max(t.Slots, leastSlots), maxCopySlots))
	}
	pad := uint64(0)
	if p.skew != 0 {
		pad = copyUnit
	}
	room := scratch/(uint64(p.slots)*peers)/copyUnit*copyUnit - pad
	p.slice = units(collective.CeilDiv(p.bytes, uint64(ranks)))
	chunk := max(p.slice/copyChunks, copyStep/peers)
	if t.Chunk != 0 {
		chunk = max(t.Chunk, p.slice/mostChunks)
	}
	chunk = min(units(chunk), room, p.slice)
	p.chunks = int(collective.CeilDiv(p.slice, chunk))
	p.chunk = units(collective.CeilDiv(p.slice, uint64(p.chunks)))
	p.chunks = int(collective.CeilDiv(p.slice, p.chunk))
	p.row = p.chunk + pad
	p.Geometry = t.Geometry(collective.CeilDiv(p.chunk, kernels.PackBytes*reducePacks), maxBlocks, copyBlocks)
	return p
}

// units rounds up to a multiple of copyUnit.
func units(bytes uint64) uint64 { return collective.RoundUp(bytes, copyUnit) }

// part is where chunk k of a rank's slice lies in the message: bytes from and to,
// equal where there is nothing.
func (p copyPlan) part(rank, k int) (from, to uint64) {
	from = uint64(rank)*p.slice + uint64(k)*p.chunk
	to = min(from+p.chunk, uint64(rank+1)*p.slice, p.bytes)
	return from, max(from, to)
}

func (p copyPlan) has(rank, k int) bool {
	from, to := p.part(rank, k)
	return from < to
}

// at is the offset in a rank's scratch memory at which a part of chunk k arrives from
// the rank that is distance (1, 2, …) behind it.
func (p copyPlan) at(k, distance int) device.Ptr {
	row := uint64(k%p.slots*(p.ranks-1) + distance - 1)
	return device.Ptr(row*p.row + p.skew)
}

// copyStage is what a step does.
type copyStage uint8

const (
	scatter copyStage = iota // copy the peers' parts of a chunk into their scratch memory
	meet                     // wait until all ranks have
	reduce                   // reduce own part of it
	gather                   // copy the result to the peers
	finish                   // wait until all ranks have
	copyStages
)

// copyQueue is a stream of a rank.
type copyQueue uint8

const (
	mainQueue copyQueue = iota // the caller's: kernels
	scatterQueue
	gatherQueue
	copyQueues
)

func (s copyStage) queue() copyQueue {
	switch s {
	case scatter:
		return scatterQueue
	case gather:
		return gatherQueue
	}
	return mainQueue
}

// step is a piece of work on one of a rank's streams. after is the step of another
// stream that must be done before; start stands for what the caller's stream held
// before the call, and inOrder for nothing beyond the own stream's order.
type step struct {
	stage   copyStage
	chunk   int
	after   int
	awaited bool // by a step of another stream
}

const (
	inOrder = -1
	start   = -2
)

// steps are the work of a rank, in the order in which it is enqueued:
//
//	scatter stream:  scatter 0, scatter 1, …, each into another slot
//	main stream:     meet 0, reduce 0, meet 1, reduce 1, …, finish
//	gather stream:   gather 0, gather 1, …
//
// What a rank's step needs of its peers it has from meet k, a barrier among ranks
// that each enters when its scatter k is done, and after its reduce k-1:
//
//   - reduce k finds the peers' parts of chunk k in scratch memory.
//   - scatter k may overwrite what scatter k-slots brought, for it comes after
//     meet k-slots+1, which every peer entered after its reduce k-slots.
//   - gather k may overwrite the peers' receive buffers, and in place their send
//     buffers: it comes after meet k, which every peer entered after it had left the
//     work before the call, and after its own scatter k, which read that place.
//   - after finish, the peers' results are here, and no peer reads its scratch memory
//     or is being read: the next call may begin.
//
// No order in which hardware works off the streams can make ranks wait for each
// other for ever, even if it puts all work of a rank into one queue, in any order
// that respects streams and events: meet and finish alone wait for peers, one
// after the other on one stream. What comes before meet k on a rank is copies and
// reductions, which end by themselves, and earlier barriers, which every rank
// enters in the same order. So the earliest barrier that not all ranks have left
// is entered by all. A barrier is a single block: it leaves room for whatever else
// the device has to do.
func (p copyPlan) steps(rank int) []step {
	var steps []step
	var last [copyStages][]int // by chunk: where its step is
	for i := range last {
		last[i] = make([]int, p.chunks)
	}
	used := [copyQueues]bool{mainQueue: true}
	add := func(s copyStage, k, after int) {
		switch {
		case after >= 0:
			steps[after].awaited = true
		case !used[s.queue()]:
			after = start
		}
		used[s.queue()] = true
		last[s][k] = len(steps)
		steps = append(steps, step{stage: s, chunk: k, after: after})
	}
	// As far ahead as slots are known to be free, so that the stream has the next
	// copy when one ends.
	next := 0
	gathered := inOrder
	for k := range p.chunks {
		for ; next < p.chunks && next <= k+p.slots-leastSlots; next++ {
			after := inOrder
			if j := next - p.slots + 1; j >= 0 {
				after = last[meet][j]
			}
			last[scatter][next] = inOrder
			if p.scatters(rank, next) {
				add(scatter, next, after)
			}
		}
		add(meet, k, last[scatter][k])
		if p.has(rank, k) {
			add(reduce, k, inOrder)
			add(gather, k, last[reduce][k])
			gathered = last[gather][k]
		}
	}
	add(finish, 0, gathered)
	return steps
}

// scatters tells whether a rank has a part of chunk k for any peer.
func (p copyPlan) scatters(rank, k int) bool {
	for peer := range p.ranks {
		if peer != rank && p.has(peer, k) {
			return true
		}
	}
	return false
}

// copyTunings are chunk sizes from the smallest that is worth a copy to the largest
// that has room, each with the numbers of slots in which it differs.
func copyTunings(bytes uint64, ranks int, scratch uint64) []collective.Tuning {
	out := []collective.Tuning{{}}
	slice := units(collective.CeilDiv(bytes, uint64(ranks)))
	for _, slots := range []uint32{3, 4, 6} {
		room := scratch / (uint64(slots) * uint64(ranks-1)) / copyUnit * copyUnit
		for chunk := uint64(512 << 10); chunk < 2*room; chunk *= 2 {
			if c := min(chunk, room); c <= slice && slice/c <= mostChunks/4 {
				out = append(out, collective.Tuning{Chunk: c, Slots: slots})
			}
		}
	}
	return out
}

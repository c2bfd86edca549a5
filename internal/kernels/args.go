package kernels

import "unsafe"

const (
	// MaxRanks is the largest group of ranks.
	MaxRanks = 8
	// MaxBlocks is the largest grid of an all-reduce kernel: each block has
	// counters of its own.
	MaxBlocks = 256
	// StagingSlots is the number of chunks that a block of a copy-in kernel
	// holds in the staging buffer at once.
	StagingSlots = 3
	// PackBytes is the widest access of one thread.
	PackBytes = 16
	// BulkSharedBytes is the shared memory of a block of a kernel with bulk copies.
	BulkSharedBytes = 128 << 10
	// BulkSlots is the least number of scratch slots of a block of the bulk push
	// kernel, which does not wait for one.
	BulkSlots = 3
	// PacketBytes is what 8 bytes of data and their flags take.
	PacketBytes = 16
)

// Args is the parameter of every all-reduce kernel: struct Args of control.cuh,
// where each field's meaning per kernel is written.
type Args struct {
	Self         uint64
	PeerIn       [MaxRanks]uint64
	PeerOut      [MaxRanks]uint64
	In, Out      uint64
	MulticastIn  uint64
	MulticastOut uint64
	Count        uint64
	Head         uint64
	Packs        uint64
	Chunk        uint64
	OutsideChunk uint64
	SlotBytes    uint64
	Scratch      uint64
	NextScratch  uint64
	Timeout      uint64 // nanoseconds
	Average      Average
	Rank, Ranks  uint32
	Slots        uint32
	_            uint32
}

// Average is how a sum becomes an average: struct Average of element.cuh. The
// zero value leaves a sum as it is.
type Average struct {
	Inverse64 float64
	Inverse   float32
	Divisor   uint32
}

// AverageOver divides a sum by n.
func AverageOver(n int) Average {
	return Average{Inverse64: 1 / float64(n), Inverse: 1 / float32(n), Divisor: uint32(n)}
}

// Bytes is the struct as the driver takes it. The slice aliases a.
func (a *Args) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// LinkArgs is the parameter of the link kernels: struct LinkArgs of link.cu.
type LinkArgs struct {
	Buffer uint64 // at the peer
	Packs  uint64
	Sink   uint64 // 16 bytes of own memory
}

// Bytes is the struct as the driver takes it. The slice aliases a.
func (a *LinkArgs) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// DataArgs is the parameter of the fill and check kernels: struct DataArgs of
// data.cuh.
type DataArgs struct {
	Buffer      uint64
	Count       uint64
	Result      uint64
	Average     Average
	Seed        uint32
	Rank, Ranks uint32
	_           uint32
}

// Bytes is the struct as the driver takes it. The slice aliases a.
func (a *DataArgs) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

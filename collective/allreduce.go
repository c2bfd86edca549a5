package collective

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Buffer is a range of symmetric memory, or plain device memory of this rank.
type Buffer struct {
	// Memory is the symmetric memory that holds the buffer; nil for device
	// memory that only this rank can reach, which the copy-in modes accept.
	Memory *Memory
	// Offset of the first byte inside Memory; the same on every rank.
	Offset uint64
	// Address is used when Memory is nil.
	Address Ptr
}

// Local is the buffer's address on this rank.
func (b Buffer) Local() Ptr {
	if b.Memory == nil {
		return b.Address
	}
	return b.Memory.Local() + device.Ptr(b.Offset)
}

// Peer is the address at which this rank reaches a rank's part of a buffer in
// symmetric memory.
func (b Buffer) Peer(rank int) Ptr { return b.Memory.Peer(rank) + device.Ptr(b.Offset) }

// Call is one all-reduce: Recv[i] = op over all ranks of Send[i].
// Send and Recv are the same buffer (in place) or do not overlap.
type Call struct {
	Send, Recv Buffer
	Count      uint64 // elements
	DType      DType
	Op         Op
}

// Bytes is the size of the message.
func (c Call) Bytes() uint64 { return c.Count * uint64(c.DType.Size()) }

// InPlace reports whether the call overwrites its own input.
func (c Call) InPlace() bool { return c.Send.Local() == c.Recv.Local() }

// AllReducer performs all-reduces in one mode. All ranks of the group make the
// same calls in the same order.
type AllReducer interface {
	// Mode is the name in configuration and results: "nvls-zero-copy".
	Mode() string
	// Supports says why this mode cannot do op on dtype; nil when it can.
	Supports(DType, Op) error
	// Prepare does all planning of a call on the host. The result may be
	// enqueued any number of times.
	Prepare(Call) (Prepared, error)
	// Close frees what the mode holds. It is collective.
	Close(context.Context) error
}

// Prepared is a planned call.
type Prepared interface {
	// Enqueue puts the all-reduce on a stream. It allocates nothing.
	Enqueue(Stream) error
	// Algorithm names what will run and its launch geometry, for the record:
	// "two-shot 16x512".
	Algorithm() string
	// Tuning is what will run, as the tuning by which the mode plans this call the
	// same; all zero where it has no kernel of ours.
	Tuning() Tuning
	// Close frees what the plan holds; work enqueued before must be done.
	Close() error
}

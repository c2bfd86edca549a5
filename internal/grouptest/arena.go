package grouptest

import (
	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Arena hands out buffers with guards around them, one after the other. Every
// rank gets the same offsets.
type Arena struct {
	memory *collective.Memory // nil: plain memory at base
	base   device.Ptr
	next   uint64
	bytes  uint64
}

// NewArena is an arena in symmetric memory.
func NewArena(m *collective.Memory) *Arena { return &Arena{memory: m, bytes: m.Bytes()} }

// PlainArena is an arena in memory that only this rank can reach, and what
// frees it.
func (r *Rank) PlainArena(bytes uint64) (a *Arena, free func()) {
	m, err := r.Device().Alloc(bytes)
	r.OK(err, "allocating plain memory")
	base, err := m.Map()
	r.OK(err, "mapping plain memory")
	return &Arena{base: base, bytes: bytes}, func() {
		r.OK(m.Unmap(), "unmapping plain memory")
		r.OK(m.Close(), "freeing plain memory")
	}
}

// Take gives a buffer whose address is skew modulo 16.
func (a *Arena) Take(bytes, skew uint64) collective.Buffer {
	at := (a.next+Guard+15)/16*16 + skew
	a.next = at + bytes + Guard
	if a.next > a.bytes {
		panic("a test asks for more than its arena has")
	}
	if a.memory == nil {
		return collective.Buffer{Address: a.base + device.Ptr(at)}
	}
	return a.memory.At(at)
}

// Reset takes all buffers back.
func (a *Arena) Reset() { a.next = 0 }

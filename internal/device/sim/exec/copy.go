package exec

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// Copy is a copy or a memset that the device does on its own, between the kernels of
// a stream or in a branch of a graph. It reads and stores as a kernel does: it
// knows what the work before it has left, and may take the old value of a word
// whose last store is not among that; its reads and stores are compared with those of
// others. Nobody knows how far it has come before it is done.
type Copy struct {
	h      *History
	agent  int
	before *Known
	rng    *rand.Rand
	stale  uint32 // how often a read gives an old value where it may, in 1/256
	from   []byte
}

// NewCopy is a copy of a process's stream or branch behind work that has left before,
// which behaves as the seed says.
func (h *History) NewCopy(process, branch int, before *Known, seed uint64) *Copy {
	c := &Copy{h: h, agent: agentOf(process, branch), before: before, rng: rand.New(rand.NewPCG(seed, uint64(process)))}
	c.stale = []uint32{0, 128, 256}[c.rng.IntN(3)]
	return c
}

// End gives what the copy leaves to the work behind it.
func (c *Copy) End() *Known { return c.h.end(c.agent, c.before, copies, copies) }

// piece is what one word of memory and some bytes have in common.
func piece(b []byte) (word unsafe.Pointer, shift uint, n int) {
	word, shift = wordOf(unsafe.Pointer(unsafe.SliceData(b)))
	return word, shift, min(8-int(shift/8), len(b))
}

// Move copies some bytes.
func (c *Copy) Move(dst, src []byte) error {
	c.from = c.from[:0]
	for len(src) > 0 {
		word, shift, n := piece(src)
		mask, cell := bytesMask(n, shift), c.h.cell(word)
		v, old, moment, _, _ := cell.read(word, mask)
		if !c.before.covers(moment) && c.rng.Uint32()&255 < c.stale {
			v = old
		}
		c.h.noteRead(cell, c.agent, copies, mask)
		for i := range n {
			c.from = append(c.from, byte(v>>(shift+8*uint(i))))
		}
		src = src[n:]
	}
	return c.Store(dst, c.from)
}

// Store stores bytes that come from nowhere.
func (c *Copy) Store(dst, bytes []byte) error {
	for len(bytes) > 0 {
		word, shift, n := piece(dst)
		var v uint64
		for i, b := range bytes[:n] {
			v |= uint64(b) << (shift + 8*uint(i))
		}
		mask, cell := bytesMask(n, shift), c.h.cell(word)
		var race error
		c.h.change(word, cell, c.agent, [2]uint64{narrow, narrow}, func(was, old, since uint64) (uint64, uint8) {
			race = c.h.unordered(cell, c.agent, mask, c.before, was, old, since)
			return v, mask
		})
		if race != nil {
			return fmt.Errorf("%s: %w", DataRace, race)
		}
		dst, bytes = dst[n:], bytes[n:]
	}
	return nil
}

package exec

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// History is what the weak memory model remembers of device memory: for each
// aligned word of 8 bytes its value before the last store, when that store took
// effect, and who has read it. It lies in memory that all processes of a session
// share, as the words do.
type History struct {
	head   *historyHead
	ranges []HistoryRange
}

// HistoryRange is some device memory and the memory for its history, which has
// HistoryBytes(len(Host)) bytes, zero at first. Both are aligned to 8 bytes.
type HistoryRange struct{ Host, Cells []byte }

// readers is the number of processes whose reads are told apart.
const readers = 8

// blocks is the number of blocks of a process that are told apart; further ones
// share their places.
const blocks = 256

// releasesKept is how many of a block's last releases have a known moment: those
// of some barriers among ranks, at each of which a block makes one for every rank.
const releasesKept = 64

// historyHead is common to all ranges. Moments are counted by clock, which every
// store and release advances.
type historyHead struct {
	clock atomic.Uint64
	// released counts the releases of each block of each process, from 1; by their
	// number, moments tells when the latest took place, and told what they tell.
	released [readers][blocks]atomic.Uint32
	moments  [readers][blocks][releasesKept]atomic.Uint64
	told     [readers][blocks][toldKept]record
	spared   atomic.Uint32
	spare    [spares]record
}

// A moment is a count of the clock in all but its lowest four bits: three are the
// process that stored or released then, the lowest is a lock.
const (
	momentStep = 16
	anybody    = momentStep - 2 // as process: no moment of that count is later
)

func writer(moment uint64) int { return int(moment >> 1 & 7) }

// HistoryHeadBytes is the size of the part that all ranges have in common.
const HistoryHeadBytes = int(unsafe.Sizeof(historyHead{}))

// cell is the history of one word.
type cell struct {
	moment atomic.Uint64 // of the last store; the lowest bit is a lock
	old    atomic.Uint64 // the value before it
	// told names, for each half of the value and of the one before, what whoever
	// acquires it learns of: the last release of the thread that stored it. Flags
	// of two ranks may lie in one word.
	told, oldTold [2]atomic.Uint64
	readers       [readers]atomic.Uint32
}

// HistoryBytes is the size of the history of some bytes of memory.
func HistoryBytes(bytes int) int { return bytes / 8 * int(unsafe.Sizeof(cell{})) }

// NewHistory is a view of a shared history. head has HistoryHeadBytes.
func NewHistory(head []byte, ranges []HistoryRange) *History {
	return &History{(*historyHead)(unsafe.Pointer(unsafe.SliceData(head[:HistoryHeadBytes]))), ranges}
}

// cell finds the history of the word at p.
func (h *History) cell(p unsafe.Pointer) *cell {
	for i := range h.ranges {
		r := &h.ranges[i]
		if off := uintptr(p) - uintptr(unsafe.Pointer(unsafe.SliceData(r.Host))); off < uintptr(len(r.Host)) {
			return (*cell)(unsafe.Pointer(&r.Cells[off/8*unsafe.Sizeof(cell{})]))
		}
	}
	panic("exec: memory without a history")
}

// now is the moment of the latest store.
func (h *History) now() uint64 { return h.head.clock.Load() | anybody }

// tick is a new moment of a process.
func (h *History) tick(process int) uint64 {
	return h.head.clock.Add(momentStep) | uint64(process%readers)<<1
}

// lockPatience bounds the wait for the lock of a cell: whoever holds it does so
// for a few instructions, unless it was killed.
const lockPatience = 1 << 20

func (c *cell) lock() uint64 {
	for i := 0; ; i++ {
		m := c.moment.Load()
		if m&1 == 0 && c.moment.CompareAndSwap(m, m|1) {
			return m
		}
		if i > lockPatience {
			return m &^ 1
		}
		runtime.Gosched()
	}
}

// read gives a word, what it was before the last store, the moment of that
// store, and of what the halves of both values tell that have bytes in mask.
func (c *cell) read(p unsafe.Pointer, mask uint8) (value, old, moment uint64, told, oldTold [2]uint64) {
	for i := 0; ; i++ {
		m := c.moment.Load()
		value, old = atomic.LoadUint64((*uint64)(p)), c.old.Load()
		for half := range told {
			if mask>>(4*half)&15 != 0 {
				told[half], oldTold[half] = c.told[half].Load(), c.oldTold[half].Load()
			}
		}
		if m&1 == 0 && c.moment.Load() == m || i > lockPatience {
			return value, old, m &^ 1, told, oldTold
		}
		runtime.Gosched()
	}
}

// change replaces bytes of the word at p by f of it, if f says so, and gives the
// moment and what was there. told is what the halves of the new value tell.
func (h *History) change(p unsafe.Pointer, c *cell, process int, told [2]uint64, f func(old uint64) (value uint64, mask uint8)) (was, moment uint64) {
	moment = c.lock()
	was = atomic.LoadUint64((*uint64)(p))
	if v, mask := f(was); mask != 0 {
		moment = h.tick(process)
		c.old.Store(was)
		for half := range told {
			c.oldTold[half].Store(c.told[half].Load())
			if mask>>(4*half)&15 != 0 {
				c.told[half].Store(told[half])
			}
		}
		storeBytes(p, v, mask)
	}
	c.moment.Store(moment)
	return was, moment
}

// Store writes src to device memory, as something that the device does on its
// own, between launches: other ranks may read it early or late. Nobody knows how
// far it has come before it is done.
func (h *History) Store(dst, src []byte, process int) error {
	for len(src) > 0 {
		p := unsafe.Pointer(unsafe.SliceData(dst))
		word, shift := wordOf(p)
		n := min(8-int(shift/8), len(src))
		var v uint64
		for i, b := range src[:n] {
			v |= uint64(b) << (shift + 8*uint(i))
		}
		mask, c := bytesMask(n, shift), h.cell(word)
		var race error
		h.change(word, c, process, [2]uint64{}, func(old uint64) (uint64, uint8) {
			if (old^v)&spread(mask) != 0 {
				if reader, block, found := h.unordered(c, process, mask, everything(h.now())); found {
					race = fmt.Errorf("%s: process %d, block %d has read and not released since", DataRace, reader, block)
				}
			}
			return v, mask
		})
		if race != nil {
			return race
		}
		dst, src = dst[n:], src[n:]
	}
	return nil
}

// storeBytes writes the bytes of a word that mask names, and touches no others:
// they may be somebody's who knows of no lock.
func storeBytes(p unsafe.Pointer, v uint64, mask uint8) {
	if mask == 0xff {
		atomic.StoreUint64((*uint64)(p), v)
		return
	}
	for i := uint(0); i < 8; {
		switch {
		case i&3 == 0 && mask>>i&15 == 15:
			atomic.StoreUint32((*uint32)(unsafe.Add(p, i)), uint32(v>>(8*i)))
			i += 4
		case i&1 == 0 && mask>>i&3 == 3:
			*(*uint16)(unsafe.Add(p, i)) = uint16(v >> (8 * i))
			i += 2
		default:
			if mask>>i&1 != 0 {
				*(*uint8)(unsafe.Add(p, i)) = uint8(v >> (8 * i))
			}
			i++
		}
	}
}

// A read of a word is kept as: the number of releases that the block had made,
// 16 bits; the block's number, 8 bits; the bytes that were read, 8 bits.

// noteRead remembers that a block of a process has read bytes of a word.
func (h *History) noteRead(c *cell, process int, block uint32, mask uint8) {
	n := h.head.released[process%readers][block%blocks].Load()
	r, at := n<<16|block%blocks<<8, &c.readers[process%readers]
	if old := at.Load(); old&^0xff == r {
		r |= old & 0xff
	}
	at.Store(r | uint32(mask))
}

// noteRelease counts a release and gives its name. k is what the thread that
// releases knows.
func (h *History) noteRelease(process int, block uint32, k *known) (name uint64) {
	p, b := process%readers, block%blocks
	n := h.head.released[p][b].Load() + 1
	moment := h.tick(process)
	h.head.moments[p][b][n%releasesKept].Store(moment)
	h.head.told[p][b][n%toldKept].put(k.with(process, moment))
	h.head.released[p][b].Store(n)
	return nameOf(process, block, n)
}

// Synchronize tells that all launches of a process have ended and that somebody
// knows: what they have read may be overwritten by whoever hears of it.
func (h *History) Synchronize(process int) {
	p := process % readers
	moment := h.tick(process)
	for b := range h.head.released[p] {
		n := h.head.released[p][b].Load() + 1
		h.head.moments[p][b][n%releasesKept].Store(moment)
		h.head.released[p][b].Store(n)
	}
}

// unordered looks for a read of bytes of the word that no synchronisation puts
// before a store to them by a thread of process own that knew of acquired: the
// reader has not released since it read, or did so later than is known.
func (h *History) unordered(c *cell, own int, mask uint8, acquired *known) (process int, block uint32, found bool) {
	for p := range readers {
		r := c.readers[p].Load()
		if uint8(r)&mask == 0 || p == own%readers {
			continue
		}
		b, read := r>>8&255, uint16(r>>16)
		behind := uint16(h.head.released[p][b].Load()) - read
		if behind == 0 || behind < releasesKept && h.head.moments[p][b][(read+1)%releasesKept].Load() > acquired.of(p) {
			return p, b, true
		}
	}
	return 0, 0, false
}

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

// processes is the number of processes that are told apart.
const processes = 8

// blocks is the number of blocks of a launch that are told apart; further ones
// share their places. The last place is that of copies, too.
const (
	blocks = 64
	copies = blocks - 1
)

// releasesKept is how many of a block's last releases have a known moment: those
// of some barriers among ranks, at each of which a block makes one for every rank.
const releasesKept = 64

// historyHead is common to all ranges. Moments are counted by clock, which every
// store and release advances.
type historyHead struct {
	clock atomic.Uint64
	// released counts the releases of each block of each agent, from 1; by their
	// number, moments tells when the latest took place.
	released [agents][blocks]atomic.Uint32
	moments  [agents][blocks][releasesKept]atomic.Uint64
	// tells counts the releases of each process; by their number, told has what the
	// latest tell.
	tells  [processes]atomic.Uint32
	told   [processes][toldKept]record
	spared atomic.Uint32
	spare  [spares]record
	hosts  record
}

// A moment is a count of the clock in all but its lowest bits: above the very lowest,
// which is a lock, is the agent that stored or released then.
const momentStep = 2 * agents

func writer(moment uint64) int { return int(moment >> 1 & (agents - 1)) }

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
	reads         [processes][readsKept]atomic.Uint64
}

// readsKept is how many reads of a word are remembered of each process: by two
// blocks or branches, or of two parts of the word.
const readsKept = 2

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

// tick is a new moment of an agent.
func (h *History) tick(agent int) uint64 { return h.head.clock.Add(momentStep) | uint64(agent)<<1 }

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
// moment and what was there. told is what the halves of the new value tell. f also
// gets what was there before that, and since when.
func (h *History) change(p unsafe.Pointer, c *cell, agent int, told [2]uint64, f func(was, old, since uint64) (value uint64, mask uint8)) (was, moment uint64) {
	moment = c.lock()
	was = atomic.LoadUint64((*uint64)(p))
	if v, mask := f(was, c.old.Load(), moment); mask != 0 {
		moment = h.tick(agent)
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
// 32 bits; the branch and the block's number, 8 bits each; the bytes that were read,
// 8 bits.

func readOf(released uint32, agent int, block uint32) uint64 {
	return uint64(released)<<32 | uint64(agent%branches)<<16 | uint64(block)<<8
}

// noteRead remembers that a block of an agent has read bytes of a word.
func (h *History) noteRead(c *cell, agent int, block uint32, mask uint8) {
	block %= blocks
	r := readOf(h.head.released[agent][block].Load(), agent, block)
	kept := &c.reads[agent/branches]
	for i := range kept {
		if old := kept[i].Load(); old&^0xff == r {
			if uint8(old)|mask != uint8(old) {
				kept[i].Store(old | uint64(mask))
			}
			return
		}
	}
	// The place of an earlier read that says no more than this one; or of that which
	// was released the longest ago.
	at, most := 0, uint32(0)
	for i := range kept {
		old := kept[i].Load()
		if uint8(old)&^mask == 0 && (old == 0 || uint32(old)>>8 == uint32(r)>>8) {
			at = i
			break
		}
		if behind := h.behind(agent/branches, old); behind > most {
			at, most = i, behind
		}
	}
	kept[at].Store(r | uint64(mask))
}

// behind is how often the block has released since a read.
func (h *History) behind(process int, read uint64) uint32 {
	a, block := agentOf(process, int(read>>16&0xff)), read>>8&0xff
	return h.head.released[a][block].Load() - uint32(read>>32)
}

// noteRelease counts a release and gives its name. k is what the thread that
// releases knows.
func (h *History) noteRelease(agent int, block uint32, k *Known) (name uint64) {
	moment := h.tick(agent)
	h.close(agent, block, moment)
	process := agent / branches
	n := h.head.tells[process].Add(1)
	h.head.told[process][n%toldKept].put(k.with(agent, moment))
	return uint64(process+1)<<32 | uint64(n)
}

// close counts a release of a block at a moment.
func (h *History) close(agent int, block uint32, moment uint64) {
	block %= blocks
	n := h.head.released[agent][block].Load() + 1
	h.head.moments[agent][block][n%releasesKept].Store(moment)
	h.head.released[agent][block].Store(n)
}

// end is the end of a launch or a copy of an agent, some of whose blocks have read:
// what comes behind it knows all that it did, and k.
func (h *History) end(agent int, k *Known, first, last uint32) *Known {
	moment := h.tick(agent)
	for b := first; b <= last; b++ {
		h.close(agent, b, moment)
	}
	return k.with(agent, moment)
}

// unread looks for a read of bytes of the word that no synchronisation puts
// before a store to them by an agent that knew of acquired: the reader has not
// released since it read, or did so later than is known.
func (h *History) unread(c *cell, own int, mask uint8, acquired *Known) error {
	for p := range c.reads {
		for i := range c.reads[p] {
			r := c.reads[p][i].Load()
			a := agentOf(p, int(r>>16&0xff))
			if uint8(r)&mask == 0 || a == own {
				continue
			}
			block, behind := r>>8&0xff, h.behind(p, r)
			if behind == 0 || behind < releasesKept && !acquired.covers(h.head.moments[a][block][(uint32(r>>32)+1)%releasesKept].Load()) {
				return fmt.Errorf("process %d, block %d has read it, and no release and acquire are in between", p, block)
			}
		}
	}
	return nil
}

// unordered looks for an access of other agents to bytes of a word that nothing puts
// before a store: a read, or the last store, of the moment since.
func (h *History) unordered(c *cell, own int, mask uint8, acquired *Known, was, old, since uint64) error {
	if a := writer(since); a/branches != own/branches && (was^old)&spread(mask) != 0 && !acquired.covers(since) {
		return fmt.Errorf("process %d has stored to it, and no release and acquire are in between", a/branches)
	}
	return h.unread(c, own, mask, acquired)
}

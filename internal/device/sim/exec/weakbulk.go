package exec

import "unsafe"

// Bulk copies in the weak memory model. They are done by another proxy than the
// accesses of threads, the async proxy:
//
//   - It may see of a word of shared memory what was there before the stores of
//     threads that no fence.proxy.async, of the thread itself or of one behind a
//     barrier, has made known to it.
//   - It reads and writes words in any order, between the instruction and the wait
//     for its group. What it wrote before is no store of the thread yet: nothing
//     that the thread releases brings it along.
//   - A store over what another rank reads is behind what the thread has acquired
//     only as far as a fence.proxy.async for global memory stands in between. The
//     start of a kernel is one.

// weakCopy is what the model knows of a copy.
type weakCopy struct {
	level           // of what is written: its moments
	first    int    // word of shared memory where the source begins
	left     []int  // words that are not written, from the source's start
	taken    []word // by their number, nil until the source was read
	acquired *Known // of the thread by which it is, at its instruction
	told     [2]uint64
}

type word struct {
	value uint64
	known bool
}

// sharedWord is 8 bytes of shared memory that threads have stored to since the
// async proxy last knew them.
type sharedWord struct {
	old   uint64
	owner uint32 // who stored: thread number plus 1, or everybody; 0 when known
}

// everybody owns a word whose thread has been at a barrier since it stored.
const everybody = 1<<32 - 1

// noteShared comes before a store to memory that may be shared.
func (b *build) noteShared(m *memOp) {
	if !b.c.weak || !b.c.bulk || m.space != shared && m.space != generic {
		return
	}
	b.emit(func(w *warp) {
		for _, l := range w.act {
			l &= 31
			addr := w.r[m.base][l] + m.off
			if m.space == generic {
				addr -= SharedWindow
			}
			if addr < uint64(len(w.cta.shared)) {
				w.cta.weak.noteShared(w.cta, addr, m.bytes, w.first+uint32(l))
			}
		}
	})
}

func (b *blockModel) noteShared(c *cta, addr uint64, bytes int, thread uint32) {
	if len(b.words) != len(c.shared)/8+1 {
		b.words = make([]sharedWord, len(c.shared)/8+1)
	}
	for i := addr / 8; i <= (addr+uint64(bytes)-1)/8 && i*8+8 <= uint64(len(c.shared)); i++ {
		s := &b.words[i]
		if s.owner == 0 {
			s.old = *(*uint64)(unsafe.Pointer(&c.shared[i*8]))
		}
		s.owner = thread + 1
		t := &b.threads[thread]
		t.words = append(t.words, int(i))
	}
}

// arriveShared is the part of a barrier: what a thread has stored, others may
// make known to the async proxy from now on.
func (b *blockModel) arriveShared(t *threadModel) {
	for _, i := range t.words {
		if b.words[i].owner != 0 {
			b.words[i].owner = everybody
			b.common = append(b.common, i)
		}
	}
	t.words = t.words[:0]
}

// fenceProxy is fence.proxy.async for the state spaces that are asked for.
func (w *warp) fenceProxy(sharedToo, globalToo bool) {
	b := w.cta.weak
	for _, l := range w.act {
		l &= 31
		t := w.thread(l)
		if globalToo {
			t.proxied = t.acquired
		}
		if !sharedToo {
			continue
		}
		for _, i := range t.words {
			if b.words[i].owner == w.first+uint32(l)+1 {
				b.words[i].owner = 0
			}
		}
		for _, i := range b.common {
			if b.words[i].owner == everybody {
				b.words[i].owner = 0
			}
		}
		t.words, b.common = t.words[:0], b.common[:0]
	}
}

// weakCopy puts a copy under way.
func (w *warp) weakCopy(c *bulkCopy, src uint64) {
	t := &w.cta.weak.threads[c.thread]
	k := &weakCopy{first: int(src / 8), acquired: t.proxied, told: [2]uint64{t.fenced, t.fenced}}
	for i := range len(c.source) / 8 {
		k.left = append(k.left, i)
	}
	c.weak = k
}

// source reads a word as the async proxy sees it.
func (m *model) source(b *blockModel, c *bulkCopy, i int) uint64 {
	k := c.weak
	if k.taken != nil && k.taken[i].known {
		return k.taken[i].value
	}
	if at := k.first + i; at < len(b.words) && b.words[at].owner != 0 && m.chance(128) {
		return b.words[at].old
	}
	return *(*uint64)(unsafe.Pointer(&c.source[8*i]))
}

// target is the store of a word of a copy.
func (m *model) target(b *blockModel, c *bulkCopy, i int) pending {
	k, off := c.weak, 8*i
	s := pending{value: m.source(b, c, i), mask: 0xff, acquired: k.acquired, told: k.told, addr: c.addr + uint64(off), in: c.in, block: b.block, thread: c.thread}
	for _, p := range c.parts {
		if off < len(p) {
			s.word = unsafe.Pointer(&p[off])
			break
		}
		off -= len(p)
	}
	return s
}

// settleCopy writes one word of a copy of the block to memory.
func (m *model) settleCopy(c *cta) {
	from := m.rng.IntN(len(c.copies))
	for n := range c.copies {
		b := c.copies[(from+n)%len(c.copies)]
		k := b.weak
		if len(k.left) == 0 {
			continue
		}
		at := m.rng.IntN(len(k.left))
		s := m.target(c.weak, b, k.left[at])
		k.left[at] = k.left[len(k.left)-1]
		k.left = k.left[:len(k.left)-1]
		m.flush(c.weak, &c.weak.threads[b.thread], s.word)
		k.put(s)
		m.commit(&k.level, 0)
		return
	}
}

// copiesLeft counts the words that copies of the block have not written.
func (c *cta) copiesLeft() (n int) {
	for _, b := range c.copies {
		n += len(b.weak.left)
	}
	return n
}

// waitCopy is the wait of a thread for one of its copies: what is written, and
// what is not yet, is from now on as if the thread had stored it.
func (m *model) waitCopy(c *cta, t *threadModel, b *bulkCopy, read bool) {
	k := b.weak
	if read {
		if k.taken == nil {
			k.taken = make([]word, len(b.source)/8)
			for _, i := range k.left {
				k.taken[i] = word{m.source(c.weak, b, i), true}
			}
		}
		return
	}
	for _, i := range k.left {
		t.put(m.target(c.weak, b, i))
	}
	k.left = nil
	k.into(&t.level)
}

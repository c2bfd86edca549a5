package exec

import (
	"slices"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// bulkAlign is what addresses and sizes of bulk copies are multiples of.
const bulkAlign = 16

// bulkCopy is a cp.async.bulk under way, from the shared memory of a block to
// global memory. It reads its source and writes its destination some time
// between its instruction and the wait for its group: as late as it can in the
// memory model of the host, word by word at any time in the weak one.
type bulkCopy struct {
	in     *ptx.Instr
	thread uint32
	addr   uint64
	group  int // the thread's, counted from 0; -1 until it is committed
	source []byte
	parts  [][]byte // the destination, cut where pages end
	taken  []byte   // what was read from the source, nil until then
	turns  int      // of the block, since the instruction
	read   bool     // the thread knows that the source was read
	done   bool     // the destination is written
	weak   *weakCopy
}

// lateness is how many turns of its block a copy that nobody waits for takes.
const lateness = 16

// compileCopy compiles cp.async.bulk with its groups. Of the copies only the one
// from shared to global memory is known.
func compileCopy(b *build) {
	if !b.take("async") || !b.take("bulk") {
		b.refuse("form other than cp.async.bulk")
	}
	b.needs(90, 80)
	switch b.oneOf("commit_group", "wait_group") {
	case "commit_group":
		b.args(0, 0)
		b.emit(func(w *warp) {
			for _, l := range w.act {
				w.cta.commitGroup(w.first + uint32(l))
			}
		})
		return
	case "wait_group":
		read := b.take("read")
		b.args(1, 1)
		n := b.arg(0)
		if n.Kind != ptx.Int || n.Bits > 1<<20 {
			b.refuse("number of groups that is no small constant")
		}
		b.emit(func(w *warp) {
			for _, l := range w.act {
				w.cta.waitGroups(w, l&31, int(n.Bits), read)
			}
		})
		return
	}
	if !slices.Equal(b.mods, []string{"global", "shared::cta", "bulk_group"}) {
		b.refuse("only .global.shared::cta.bulk_group is known")
	}
	b.args(3, 3)
	b.mods = []string{"global"}
	to := b.memory(b.arg(0), nil, weak)
	b.mods = []string{"shared::cta"}
	from := b.memory(b.arg(1), nil, weak)
	to.bytes, from.bytes = bulkAlign, bulkAlign
	size := b.src(2, 32)
	b.emit(func(w *warp) {
		for _, l := range w.act {
			l &= 31
			w.startCopy(to, from, w.r[to.base][l]+to.off, w.r[from.base][l]+from.off, w.r[size][l], l)
		}
	})
}

// startCopy checks what the PTX ISA asks of a bulk copy and puts it under way.
func (w *warp) startCopy(to, from *memOp, dst, src, bytes uint64, lane uint8) {
	if bytes%bulkAlign != 0 {
		w.fault(to.in, BulkSize, bytes, int(bytes), lane)
	}
	for _, a := range []uint64{dst, src} {
		if a%bulkAlign != 0 {
			w.fault(to.in, Misaligned, a, int(bytes), lane)
		}
	}
	shared := w.cta.shared
	if src > uint64(len(shared)) || bytes > uint64(len(shared))-src {
		w.fault(to.in, WrongSpace, src, int(bytes), lane)
	}
	c := &bulkCopy{in: to.in, thread: w.first + uint32(lane), addr: dst, group: -1, source: shared[src : src+bytes]}
	for at, left := dst, bytes; left > 0; {
		n := min(left, PageSize-at&pageMask)
		start := unsafe.Add(w.pageAt(to, at, lane), at&pageMask)
		c.parts = append(c.parts, unsafe.Slice((*byte)(start), n))
		at, left = at+n, left-n
	}
	if w.run.weak != nil {
		w.weakCopy(c, src)
	}
	w.cta.copies = append(w.cta.copies, c)
}

// commitGroup makes a group of the thread's copies that are in none.
func (c *cta) commitGroup(thread uint32) {
	for _, b := range c.copies {
		if b.thread == thread && b.group < 0 {
			b.group = c.groups[thread]
		}
	}
	if c.groups == nil {
		c.groups = map[uint32]int{}
	}
	c.groups[thread]++
}

// waitGroups returns when all but the thread's last n groups have been read from
// shared memory (read), or are done.
func (c *cta) waitGroups(w *warp, lane uint8, n int, read bool) {
	thread := w.first + uint32(lane)
	c.copies = slices.DeleteFunc(c.copies, func(b *bulkCopy) bool {
		if b.thread != thread || b.group < 0 || b.group >= c.groups[thread]-n {
			return false
		}
		b.read = true
		if b.weak != nil {
			w.run.weak.waitCopy(c, w.thread(lane), b, read)
		} else if read {
			b.take()
		} else {
			b.write()
		}
		return !read
	})
}

func (b *bulkCopy) take() {
	if b.taken == nil && !b.done {
		b.taken = slices.Clone(b.source)
	}
}

func (b *bulkCopy) write() {
	if b.done {
		return
	}
	b.take()
	from := b.taken
	for _, p := range b.parts {
		from = from[copy(p, from):]
	}
	b.done = true
}

// moveCopies is called when every warp of the block had its turn: what nobody
// waits for gets done too, the latest first.
func (c *cta) moveCopies() {
	for _, b := range slices.Backward(c.copies) {
		if b.turns++; b.turns > lateness {
			b.write()
		}
	}
}

// endCopies is called at the end of the block, with which its shared memory goes.
func (c *cta) endCopies() {
	for _, b := range c.copies {
		if !b.read {
			panic(&Fault{Kind: BulkUnread, Kernel: c.run.k.name, Addr: b.addr, Bytes: len(b.source), Block: c.index, Thread: b.thread, Line: b.in.Line, Text: b.in.Text})
		}
		if b.weak == nil {
			b.write()
		} else {
			c.run.weak.waitCopy(c, &c.weak.threads[b.thread], b, false)
		}
	}
	c.copies = c.copies[:0]
}

package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// barriers is the number of named barriers of a block.
const barriers = 16

// barrierOp is one bar or barrier instruction.
type barrierOp struct {
	id     int // slot of the barrier's number
	count  int // slot of the number of threads, -1 for all
	arrive bool
	// bar.red: op is "popc", "and" or "or"; src the predicate that it takes;
	// dst a register for popc, a predicate for the others.
	op  string
	src int
	not bool
	dst int
	in  *ptx.Instr
}

// cta is a resident block of threads (PTX: cooperative thread array). It is
// used again for one block after another, and by later launches.
type cta struct {
	index   uint32 // %ctaid.x
	sm      uint32
	run     *run
	threads uint32
	warps   []warp
	shared  []byte
	local   []byte // LocalBytes for each thread
	live    int    // threads that have not ended
	bar     [barriers]barrier
	weak    *blockModel        // nil but in the weak memory model
	copies  []*bulkCopy        // that some thread has not waited for
	groups  map[uint32]int     // of bulk copies that a thread has committed
	warpFor [][warpSize]uint32 // for whom each lane waits at a warp barrier
}

// barrier is the state of one named barrier.
type barrier struct {
	arrived  int
	expected int // 0: all threads of the block
	waiting  int
	popc     int // threads whose predicate held
}

func (c *cta) masks(w *warp) *[warpSize]uint32 { return &c.warpFor[w.first/warpSize] }

// exited counts threads that ended. They no longer count at barriers of the
// whole block.
func (c *cta) exited(n int) {
	c.live -= n
	for i := range c.bar {
		c.check(i)
	}
}

// arrive puts the active lanes of w at a barrier.
func (c *cta) arrive(w *warp, b *block) {
	op := b.bar
	lane := w.act[0]
	id := w.r[op.id][lane&31]
	if id >= barriers {
		w.fault(op.in, IllegalAddress, id, 0, lane)
	}
	expected := 0
	if op.count >= 0 {
		expected = int(w.r[op.count][lane&31])
		if expected <= 0 || expected%warpSize != 0 || expected > MaxThreadsPerBlock {
			w.fault(op.in, IllegalAddress, uint64(expected), 0, lane)
		}
	}
	bar := &c.bar[id]
	if bar.arrived > 0 && bar.expected != expected {
		// Threads that disagree on the size of a barrier never meet.
		w.fault(op.in, Deadlock, 0, 0, lane)
	}
	bar.expected = expected
	if c.weak != nil {
		c.weak.arrive(w, int(id))
	}
	bar.arrived += len(w.act)
	if op.op != "" {
		p := w.p[op.src]
		if op.not {
			p = ^p
		}
		for _, l := range w.act {
			bar.popc += int(p >> l & 1)
		}
	}
	if !op.arrive {
		bar.waiting += len(w.act)
		w.wait |= w.mask
		w.atBar[id] |= w.mask
		w.barDst[id] = op
	}
	c.check(int(id))
}

// check completes a barrier when everybody is there.
func (c *cta) check(id int) {
	bar := &c.bar[id]
	if bar.arrived == 0 {
		return
	}
	expected := bar.expected
	if expected == 0 {
		expected = c.live
	}
	if bar.arrived < expected {
		return
	}
	for i := range c.warps {
		w := &c.warps[i]
		m := w.atBar[id]
		if m == 0 {
			continue
		}
		w.wait &^= m
		w.atBar[id] = 0
		if c.weak != nil {
			c.weak.leave(w, id, m)
		}
		switch op := w.barDst[id]; op.op {
		case "popc":
			for l := range w.r[op.dst] {
				if m>>l&1 != 0 {
					w.r[op.dst][l] = uint64(bar.popc)
				}
			}
		case "and":
			w.setPred(op.dst, m, bar.popc == bar.arrived)
		case "or":
			w.setPred(op.dst, m, bar.popc > 0)
		}
	}
	*bar = barrier{}
	if c.weak != nil {
		c.weak.met[id], c.weak.metProxied[id] = nil, nil
	}
}

func (w *warp) setPred(p int, m uint32, v bool) {
	w.p[p] &^= m
	if v {
		w.p[p] |= m
	}
}

// begin prepares the block with the given index.
func (c *cta) begin(index, sm uint32) {
	c.index, c.sm = index, sm
	c.live = int(c.run.l.Block)
	c.bar = [barriers]barrier{}
	clear(c.shared)
	c.copies = c.copies[:0]
	clear(c.groups)
	for i := range c.warps {
		w := &c.warps[i]
		w.live, w.wait, w.gave, w.atWarp, w.spun, w.idle = w.full, 0, 0, 0, false, false
		w.atBar = [barriers]uint32{}
		w.pc = [warpSize]int32{}
		clear(w.spins)
		for _, s := range c.run.k.specials {
			w.fill(s)
		}
	}
}

// takeCTA gives room for a block: room that an earlier launch of the same shape
// left, or new. Registers and local memory keep what was in them, as on a GPU.
func (r *run) takeCTA() *cta {
	c, _ := r.k.spare.Get().(*cta)
	if c == nil || c.threads != r.l.Block || len(c.shared) != r.shared {
		c = r.newCTA()
	}
	c.run = r
	for i := range c.warps {
		c.warps[i].run, c.warps[i].space = r, r.space
	}
	return c
}

// giveCTA keeps the room for later launches.
func (r *run) giveCTA(c *cta) {
	c.run = nil
	for i := range c.warps {
		c.warps[i].run, c.warps[i].space = nil, nil
	}
	r.k.spare.Put(c)
}

// newCTA makes room for a block of l.
func (r *run) newCTA() *cta {
	k := r.k
	n := int(r.l.Block+warpSize-1) / warpSize
	c := &cta{threads: r.l.Block, warps: make([]warp, n), warpFor: make([][warpSize]uint32, n)}
	// Words, so that shared and local memory are aligned to 16 bytes.
	c.shared = alignedBytes(r.shared)
	c.local = alignedBytes(k.localStride() * n * warpSize)
	regs := make([]lanes, k.slots*n)
	preds := make([]uint32, k.preds*n)
	spins := make([]spin, k.spins*n)
	for i := range c.warps {
		w := &c.warps[i]
		w.r, regs = regs[:k.slots:k.slots], regs[k.slots:]
		w.p, preds = preds[:k.preds:k.preds], preds[k.preds:]
		w.spins, spins = spins[:k.spins:k.spins], spins[k.spins:]
		w.cta = c
		w.first = uint32(i * warpSize)
		w.full = uint32(maskOf(min(warpSize, int(r.l.Block)-i*warpSize)))
		for _, s := range k.constants {
			d := &w.r[s.slot]
			for l := range d {
				d[l] = s.value
			}
		}
	}
	return c
}

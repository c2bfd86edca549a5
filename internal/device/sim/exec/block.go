package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// step is one compiled instruction. It acts on the active lanes of a warp.
type step func(w *warp)

// endKind is how a basic block ends.
type endKind uint8

const (
	endFall     endKind = iota // go on with the next block
	endBranch                  // to target
	endCond                    // to target where the predicate holds
	endIndexed                 // brx.idx
	endExit                    // ret, exit
	endBarrier                 // bar.sync and its like
	endWarpSync                // wait for the lanes of a mask
	endSpin                    // behind a strong load or an atomic: give way if it spins
	endYield                   // nanosleep: give way
)

// block is a basic block.
type block struct {
	steps  []step
	count  int // PTX instructions in it, the one that ends it included
	end    endKind
	pred   int // endCond
	not    bool
	target int // endBranch, endCond
	label  *label
	index  int      // endIndexed: slot of the index
	table  []*label // endIndexed
	jumps  []int
	mask   int // endWarpSync: slot of the lane mask
	bar    *barrierOp
	in     *ptx.Instr
}

// label is a place in the program, known once its block is.
type label struct {
	name    string
	block   int
	targets *ptx.Label // set for .branchtargets
	env     *env
}

// start begins a new block.
func (c *compiler) start() {
	c.cur = &block{}
	c.k.blocks = append(c.k.blocks, c.cur)
}

// fall ends the block; the next one follows.
func (c *compiler) fall() {
	c.cur.end = endFall
	c.start()
}

// emit adds a step to the current block.
func (b *build) emit(s step) { b.c.cur.steps = append(b.c.cur.steps, s) }

// endsBlock tells whether an instruction ends or splits the block in which it
// stands.
func endsBlock(in *ptx.Instr) bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "bar", "barrier", "nanosleep", "shfl", "vote", "match", "activemask", "redux", "atom":
		return true
	case "ld", "multimem":
		for _, m := range in.Mods {
			switch m {
			case "acquire", "relaxed", "volatile", "mmio":
				return true
			}
		}
	}
	return false
}

func guarded(pred int, not bool, s step) step {
	return func(w *warp) {
		m := w.p[pred]
		if not {
			m = ^m
		}
		m &= w.mask
		if m == w.mask {
			s(w)
			return
		}
		if m == 0 {
			return
		}
		act, mask := w.act, w.mask
		w.narrow(m)
		s(w)
		w.act, w.mask = act, mask
	}
}

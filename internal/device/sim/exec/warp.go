package exec

import (
	"math/bits"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

const warpSize = 32

// lanes is one register of the 32 threads of a warp. Values narrower than 64
// bits are zero-extended.
type lanes [warpSize]uint64

// allLanes is the list of lanes of a full warp.
var allLanes = func() (a [warpSize]uint8) {
	for i := range a {
		a[i] = uint8(i)
	}
	return a
}()

// warp is 32 threads (fewer in the last warp of a block). Threads of a warp
// have their own place in the program, as on sm_70 and newer: those at the same
// place execute together, and those that lie behind go first, so that diverged
// threads meet again.
type warp struct {
	r []lanes  // registers
	p []uint32 // predicates, one bit a lane

	act  []uint8 // the lanes that execute, in order
	mask uint32  // the same as bits

	run    *run
	cta    *cta
	space  *Space
	first  uint32 // %tid.x of lane 0
	full   uint32 // lanes that exist
	live   uint32 // lanes that have not ended
	wait   uint32 // lanes at a barrier, of the block or of the warp
	gave   uint32 // lanes that gave way in this slice
	atWarp uint32 // of wait: those at a warp barrier
	pc     [warpSize]int32

	atBar   [barriers]uint32 // of wait: those at each barrier of the block
	barDst  [barriers]*barrierOp
	spins   []spin
	idle    bool // explore: its last turn was for nothing
	spun    bool // the strong load of this block of code spins
	issued  uint64
	threads uint64
	yields  uint64
	fenced  uint32
	buf     [warpSize]uint8
	sub     [warpSize]uint8
}

// spin remembers the last execution of a strong load.
type spin struct {
	addr, sum, at uint64
	mask          uint32
}

// spinWindow is how many instructions of a warp may lie between two executions
// of a load that spins; what does more in between is working.
const spinWindow = 96

// slice is how many instructions a warp executes before others get a turn.
const slice = 8192

// list writes the lanes of m into buf.
func list(m uint32, buf *[warpSize]uint8) []uint8 {
	if m&(m+1) == 0 { // lanes 0 to n-1
		return allLanes[:bits.Len32(m)]
	}
	n := 0
	for ; m != 0; m &= m - 1 {
		buf[n&31] = uint8(bits.TrailingZeros32(m))
		n++
	}
	return buf[:n]
}

// narrow makes the lanes of m the active ones, inside one instruction.
func (w *warp) narrow(m uint32) {
	w.act, w.mask = list(m, &w.sub), m
}

// setPC sets the place of the lanes of m.
func (w *warp) setPC(m uint32, pc int) {
	for ; m != 0; m &= m - 1 {
		w.pc[bits.TrailingZeros32(m)&31] = int32(pc)
	}
}

// pick chooses the lanes to run: of those that can, the ones that lie furthest
// behind. limit is the place at which others wait for them.
func (w *warp) pick() (pc, limit int, ok bool) {
	can := w.live &^ (w.wait | w.gave)
	if can == 0 {
		return 0, 0, false
	}
	const never = int32(1<<31 - 1)
	low, next, m := never, never, uint32(0)
	for c := can; c != 0; c &= c - 1 {
		l := bits.TrailingZeros32(c) & 31
		switch at := w.pc[l]; {
		case at < low:
			low, next, m = at, low, 1<<l
		case at == low:
			m |= 1 << l
		case at < next:
			next = at
		}
	}
	w.mask = m
	w.act = list(m, &w.buf)
	return int(low), int(next), true
}

// slice runs the warp until no lane can run or every lane gave way. It tells
// whether a lane did anything but spin.
func (w *warp) slice(blocks []*block) (worked bool) {
	w.gave = 0
	from := w.issued
	budget := w.run.slice
	for {
		pc, limit, ok := w.pick()
		if !ok {
			return worked || w.issued-from > 4*spinWindow
		}
		n := uint64(len(w.act))
	group:
		for {
			b := blocks[pc]
			for _, s := range b.steps {
				s(w)
			}
			w.issued += uint64(b.count)
			w.threads += uint64(b.count) * n
			budget -= int64(b.count) + 1
			switch b.end {
			case endFall:
				pc++
			case endBranch:
				pc = b.target
			case endCond:
				t := w.p[b.pred]
				if b.not {
					t = ^t
				}
				t &= w.mask
				switch t {
				case w.mask:
					pc = b.target
				case 0:
					pc++
				default:
					w.setPC(t, b.target)
					w.setPC(w.mask&^t, pc+1)
					break group
				}
			case endIndexed:
				idx := &w.r[b.index]
				for _, l := range w.act {
					i := idx[l&31]
					if i >= uint64(len(b.jumps)) {
						w.fault(b.in, IllegalAddress, i, 0, l)
					}
					w.pc[l&31] = int32(b.jumps[i])
				}
				break group
			case endExit:
				w.live &^= w.mask
				w.cta.exited(len(w.act))
				w.warpBarrier()
				worked = true
				break group
			case endBarrier:
				w.setPC(w.mask, pc+1)
				w.cta.arrive(w, b)
				worked = true
				break group
			case endWarpSync:
				w.setPC(w.mask, pc+1)
				w.wait |= w.mask
				w.atWarp |= w.mask
				w.warpMasks(b)
				w.warpBarrier()
				worked = true
				break group
			case endSpin:
				pc++
				if w.spun {
					w.spun = false
					w.setPC(w.mask, pc)
					w.gave |= w.mask
					w.yields++
					break group
				}
			case endYield:
				w.setPC(w.mask, pc+1)
				w.gave |= w.mask
				w.yields++
				break group
			}
			if pc >= limit {
				w.setPC(w.mask, pc)
				break
			}
			if budget < 0 {
				w.setPC(w.mask, pc)
				w.gave |= w.mask
				budget = w.run.slice
				worked = true
				break
			}
		}
	}
}

// warpMasks notes for which lanes each arriving lane waits.
func (w *warp) warpMasks(b *block) {
	m := &w.r[b.mask]
	for _, l := range w.act {
		w.cta.masks(w)[l&31] = uint32(m[l&31])
	}
}

// warpBarrier releases the lanes at warp barriers whose partners are all there
// or have ended.
func (w *warp) warpBarrier() {
	if w.atWarp == 0 {
		return
	}
	masks := w.cta.masks(w)
	free := uint32(0)
	for c := w.atWarp; c != 0; c &= c - 1 {
		l := bits.TrailingZeros32(c) & 31
		if masks[l]&w.live&^w.atWarp == 0 {
			free |= 1 << l
		}
	}
	w.atWarp &^= free
	w.wait &^= free
	if w.cta.weak != nil {
		w.cta.weak.meet(w, free)
	}
}

// noteSpin is called by strong loads and atomics: sum is a digest of what they
// read. The same value from the same address, again and soon, is a spin.
func (w *warp) noteSpin(slot int, addr, sum uint64) {
	s := &w.spins[slot]
	if s.addr == addr && s.sum == sum && s.mask == w.mask && w.issued-s.at < spinWindow {
		w.spun = true
	}
	*s = spin{addr: addr, sum: sum, at: w.issued, mask: w.mask}
}

// fault ends the kernel. It panics with a *Fault, which run.slice recovers.
func (w *warp) fault(in *ptx.Instr, kind Kind, addr uint64, bytes int, lane uint8) {
	panic(&Fault{
		Kind: kind, Kernel: w.run.k.name, Addr: addr, Bytes: bytes,
		Block: w.cta.index, Thread: w.first + uint32(lane), Line: in.Line, Text: in.Text,
	})
}

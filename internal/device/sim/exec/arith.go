package exec

import "slices"

// instructions maps an opcode to its compilation. What is not here is refused.
var instructions map[string]func(b *build)

func init() {
	instructions = map[string]func(b *build){
		"add": compileAddSub, "sub": compileAddSub, "mul": compileMul, "mad": compileMad, "fma": compileMad,
		"div": compileDivRem, "rem": compileDivRem, "min": compileMinMax, "max": compileMinMax,
		"abs": compileAbsNeg, "neg": compileAbsNeg, "rcp": compileRoot, "sqrt": compileRoot,
		"copysign": compileCopysign, "testp": compileTestp,
		"and": compileBits, "or": compileBits, "xor": compileBits, "not": compileNot, "cnot": compileNot, "lop3": compileLop3,
		"shl": compileShift, "shr": compileShift, "shf": compileFunnel,
		"bfe": compileBfe, "bfi": compileBfi, "prmt": compilePrmt, "sad": compileSad,
		"popc": compileCount, "clz": compileCount, "brev": compileCount, "bfind": compileBfind,
		"setp": compileSetp, "set": compileSet, "selp": compileSelp, "slct": compileSlct,
		"mov": compileMov, "cvt": compileCvt, "cvta": compileCvta, "isspacep": compileIsspacep,
		"cp": compileCopy, "ld": compileLoad, "ldu": compileLoad, "st": compileStore, "atom": compileAtom, "red": compileAtom,
		"multimem": compileMultimem, "fence": compileFence, "membar": compileFence,
		"bra": compileBra, "brx": compileBrx, "ret": compileExit, "exit": compileExit, "trap": compileTrap,
		"nanosleep": compileNanosleep, "bar": compileBarrier, "barrier": compileBarrier,
		"shfl": compileShfl, "vote": compileVote, "match": compileMatch, "activemask": compileActivemask, "redux": compileRedux,
	}
}

// op1, op2 and op3 emit an instruction from what it does in one lane.

func (b *build) op1(d, x int, f func(x uint64) uint64) {
	b.emit(func(w *warp) {
		rd, rx := &w.r[d], &w.r[x]
		for _, l := range w.act {
			l &= 31
			rd[l] = f(rx[l])
		}
	})
}

func (b *build) op2(d, x, y int, f func(x, y uint64) uint64) {
	b.emit(func(w *warp) {
		rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
		for _, l := range w.act {
			l &= 31
			rd[l] = f(rx[l], ry[l])
		}
	})
}

func (b *build) op3(d, x, y, z int, f func(x, y, z uint64) uint64) {
	b.emit(func(w *warp) {
		rd, rx, ry, rz := &w.r[d], &w.r[x], &w.r[y], &w.r[z]
		for _, l := range w.act {
			l &= 31
			rd[l] = f(rx[l], ry[l], rz[l])
		}
	})
}

// compileAddSub compiles add and sub.
func compileAddSub(b *build) {
	b.args(3, 3)
	t := b.typ()
	if t.isFloat() {
		f := floatAdd(t)
		if b.in.Op == "sub" {
			f = floatSub(t)
		}
		b.float2(t, f)
		return
	}
	if !t.integer() || t.class == classBits || t.bits < 16 {
		b.refuse("type .%s", t.name)
	}
	d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits)
	sub := b.in.Op == "sub"
	if b.take("sat") {
		if t.name != "s32" {
			b.refuse("modifier .sat on .%s", t.name)
		}
		b.op2(d, x, y, func(x, y uint64) uint64 {
			v := int64(int32(x)) + int64(int32(y))
			if sub {
				v = int64(int32(x)) - int64(int32(y))
			}
			return uint64(uint32(max(min(v, 1<<31-1), -1<<31)))
		})
		return
	}
	switch {
	case t.bits == 64 && !sub:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] + ry[l]
			}
		})
	case t.bits == 64:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] - ry[l]
			}
		})
	case t.bits == 32 && !sub:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = uint64(uint32(rx[l]) + uint32(ry[l]))
			}
		})
	case t.bits == 32:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = uint64(uint32(rx[l]) - uint32(ry[l]))
			}
		})
	case sub:
		b.op2(d, x, y, func(x, y uint64) uint64 { return uint64(uint16(x) - uint16(y)) })
	default:
		b.op2(d, x, y, func(x, y uint64) uint64 { return uint64(uint16(x) + uint16(y)) })
	}
}

// float2 emits a floating-point operation of two operands with .rn and, for
// f32 and f16, .sat.
func (b *build) float2(t typ, f func(x, y uint64) uint64) {
	if t.class == classBFloat {
		b.needs(90, 78)
	}
	b.take("rn")
	d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits)
	if t.name == "f32" && !slices.Contains(b.mods, "sat") {
		switch b.in.Op {
		case "add":
			b.emit(func(w *warp) {
				rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
				for _, l := range w.act {
					l &= 31
					rd[l] = bits32(f32(rx[l]) + f32(ry[l]))
				}
			})
			return
		case "mul":
			b.emit(func(w *warp) {
				rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
				for _, l := range w.act {
					l &= 31
					rd[l] = bits32(f32(rx[l]) * f32(ry[l]))
				}
			})
			return
		}
	}
	b.op2(d, x, y, b.saturate2(t, f))
}

package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// gather makes the lanes of a member mask meet before the instruction.
func (b *build) gather(mask *ptx.Operand) {
	b.c.cur.mask = b.value(mask, 32, false)
	b.finish(endWarpSync)
	b.c.cur.count++
}

// optionalPred gives a predicate destination, -1 for "_".
func (b *build) optionalPred(o *ptx.Operand) int {
	if o.Name == "_" {
		return -1
	}
	p, _ := b.pred(o)
	return p
}

// compileShfl compiles shfl.sync.
func compileShfl(b *build) {
	b.args(5, 5)
	if t := b.bitsType(32); t.bits != 32 {
		b.refuse("type .%s", t.name)
	}
	if !b.take("sync") {
		b.refuse("form without .sync")
	}
	mode := b.oneOf("up", "down", "bfly", "idx")
	if mode == "" {
		b.refuse("mode")
	}
	b.gather(b.arg(4))
	out, p := b.arg(0), -1
	if out.Kind == ptx.Pair {
		p = b.optionalPred(&out.List[1])
		out = &out.List[0]
	}
	d := b.dest(out, 32, false).slot
	x, lane, clamp := b.src(1, 32), b.src(2, 32), b.src(3, 32)
	b.emit(func(w *warp) {
		from := w.r[x] // a copy: the destination may be the source
		var ok uint32
		for _, l := range w.act {
			l &= 31
			me := int(l)
			n, c := int(w.r[lane][l]&31), int(w.r[clamp][l]&31)
			seg := int(w.r[clamp][l] >> 8 & 31)
			low, high := me&seg, me&seg|c&^seg
			var j int
			var in bool
			switch mode {
			case "up":
				j = me - n
				in = j >= high
			case "down":
				j = me + n
				in = j <= high
			case "bfly":
				j = me ^ n
				in = j <= high
			default:
				j = low | n&^seg
				in = j <= high
			}
			if in {
				ok |= 1 << l
			} else {
				j = me
			}
			w.r[d][l] = from[j&31]
		}
		if p >= 0 {
			w.p[p] = w.p[p]&^w.mask | ok
		}
	})
}

// members calls f once for every set of active lanes with the same member mask.
func (w *warp) members(mask int, f func(m uint32)) {
	for left := w.mask; left != 0; {
		var first = list(left, &w.sub)[0] & 31
		m := uint32(w.r[mask][first]) & w.mask
		if m>>first&1 == 0 {
			m |= 1 << first // a lane outside its own mask: undefined, stays alone
		}
		f(m)
		left &^= m
	}
}

// compileVote compiles vote.sync.
func compileVote(b *build) {
	b.args(3, 3)
	t := b.typ()
	if !b.take("sync") {
		b.refuse("form without .sync")
	}
	mode := b.oneOf("all", "any", "uni", "ballot")
	if (mode == "ballot") != (t.name == "b32") || (mode != "ballot") != (t.class == classPred) {
		b.refuse("type .%s", t.name)
	}
	b.gather(b.arg(2))
	x, not := b.pred(b.arg(1))
	mask := b.src(2, 32)
	if mode == "ballot" {
		d := b.dst(0, 32)
		b.emit(func(w *warp) {
			p := flip(w.p[x], not)
			w.members(mask, func(m uint32) {
				for l := range w.r[d] {
					if m>>l&1 != 0 {
						w.r[d][l] = uint64(p & m)
					}
				}
			})
		})
		return
	}
	d, _ := b.pred(b.arg(0))
	b.emit(func(w *warp) {
		p := flip(w.p[x], not)
		w.members(mask, func(m uint32) {
			all, any := p&m == m, p&m != 0
			v := all
			switch mode {
			case "any":
				v = any
			case "uni":
				v = all || !any
			}
			w.setPred(d, m, v)
		})
	})
}

// compileMatch compiles match.sync.
func compileMatch(b *build) {
	b.args(3, 3)
	t := b.bitsType(32)
	if !b.take("sync") {
		b.refuse("form without .sync")
	}
	mode := b.oneOf("any", "all")
	if mode == "" {
		b.refuse("mode")
	}
	b.gather(b.arg(2))
	out, p := b.arg(0), -1
	if out.Kind == ptx.Pair {
		if mode != "all" {
			b.refuse("predicate of match.any")
		}
		p = b.optionalPred(&out.List[1])
		out = &out.List[0]
	}
	d, x, mask := b.dest(out, 32, false).slot, b.src(1, t.bits), b.src(2, 32)
	b.emit(func(w *warp) {
		w.members(mask, func(m uint32) {
			var res lanes
			same := true
			for l := range res {
				if m>>l&1 == 0 {
					continue
				}
				for k := range res {
					if m>>k&1 != 0 && w.r[x][k] == w.r[x][l] {
						res[l] |= 1 << k
					}
				}
				same = same && uint32(res[l]) == m
			}
			for l := range res {
				if m>>l&1 == 0 {
					continue
				}
				if mode == "all" && !same {
					res[l] = 0
				}
				w.r[d][l] = res[l]
			}
			if p >= 0 {
				w.setPred(p, m, same)
			}
		})
	})
}

// compileActivemask compiles activemask.b32.
func compileActivemask(b *build) {
	b.args(1, 1)
	if t := b.bitsType(32); t.bits != 32 {
		b.refuse("type .%s", t.name)
	}
	d := b.dst(0, 32)
	b.emit(func(w *warp) {
		for _, l := range w.act {
			w.r[d][l&31] = uint64(w.mask)
		}
	})
}

// compileRedux compiles redux.sync.
func compileRedux(b *build) {
	b.needs(80, 70)
	b.args(3, 3)
	t := b.typ()
	if !b.take("sync") || t.bits != 32 || t.isFloat() {
		b.refuse("type .%s", t.name)
	}
	var f func(x, y uint64) uint64
	switch op := b.oneOf("add", "min", "max", "and", "or", "xor"); {
	case op == "add" && t.class != classBits:
		f = func(x, y uint64) uint64 { return (x + y) & maskOf(32) }
	case (op == "min" || op == "max") && t.class != classBits:
		f = integerMinMax(op, t)
	case bitOps[op] != nil && t.class == classBits:
		f = bitOps[op]
	default:
		b.refuse("operation on type .%s", t.name)
	}
	b.gather(b.arg(2))
	d, x, mask := b.dst(0, 32), b.src(1, 32), b.src(2, 32)
	b.emit(func(w *warp) {
		w.members(mask, func(m uint32) {
			var v uint64
			first := true
			for l := range w.r[x] {
				switch {
				case m>>l&1 == 0:
				case first:
					v, first = w.r[x][l], false
				default:
					v = f(v, w.r[x][l])
				}
			}
			for l := range w.r[d] {
				if m>>l&1 != 0 {
					w.r[d][l] = v
				}
			}
		})
	})
}

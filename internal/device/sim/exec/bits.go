package exec

import "math/bits"

// bitsType reads a .b16, .b32 or .b64 type.
func (b *build) bitsType(low int) typ {
	t := b.typ()
	if t.class != classBits || t.bits < low {
		b.refuse("type .%s", t.name)
	}
	return t
}

// compileBits compiles and, or, xor.
func compileBits(b *build) {
	b.args(3, 3)
	t := b.typ()
	if t.class == classPred {
		d, _ := b.pred(b.arg(0))
		x, nx := b.pred(b.arg(1))
		y, ny := b.pred(b.arg(2))
		op := b.in.Op
		b.emit(func(w *warp) {
			p, q := flip(w.p[x], nx), flip(w.p[y], ny)
			switch op {
			case "and":
				p &= q
			case "or":
				p |= q
			default:
				p ^= q
			}
			w.p[d] = w.p[d]&^w.mask | p&w.mask
		})
		return
	}
	if t.class != classBits || t.bits < 16 {
		b.refuse("type .%s", t.name)
	}
	d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits)
	switch b.in.Op {
	case "and":
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] & ry[l]
			}
		})
	case "or":
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] | ry[l]
			}
		})
	default:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] ^ ry[l]
			}
		})
	}
}

func flip(p uint32, not bool) uint32 {
	if not {
		return ^p
	}
	return p
}

// compileNot compiles not and cnot.
func compileNot(b *build) {
	b.args(2, 2)
	t := b.typ()
	if t.class == classPred && b.in.Op == "not" {
		d, _ := b.pred(b.arg(0))
		x, nx := b.pred(b.arg(1))
		b.emit(func(w *warp) { w.p[d] = w.p[d]&^w.mask | ^flip(w.p[x], nx)&w.mask })
		return
	}
	if t.class != classBits || t.bits < 16 {
		b.refuse("type .%s", t.name)
	}
	m := maskOf(t.bits)
	d, x := b.dst(0, t.bits), b.src(1, t.bits)
	if b.in.Op == "cnot" {
		b.op1(d, x, func(x uint64) uint64 {
			if x == 0 {
				return 1
			}
			return 0
		})
		return
	}
	b.op1(d, x, func(x uint64) uint64 { return ^x & m })
}

// compileLop3 compiles lop3.b32: any function of three bits, given as its truth
// table.
func compileLop3(b *build) {
	b.args(5, 5)
	if t := b.bitsType(32); t.bits != 32 {
		b.refuse("type .%s", t.name)
	}
	table := b.arg(4).Bits
	if table > 255 {
		b.refuse("truth table")
	}
	b.op3(b.dst(0, 32), b.src(1, 32), b.src(2, 32), b.src(3, 32), func(x, y, z uint64) uint64 {
		var r uint64
		for i := range uint64(8) {
			if table>>i&1 == 0 {
				continue
			}
			t := uint64(1<<32 - 1)
			for j, v := range [3]uint64{z, y, x} {
				if i>>j&1 == 0 {
					v = ^v
				}
				t &= v
			}
			r |= t
		}
		return r
	})
}

// compileShift compiles shl and shr: amounts beyond the width shift everything
// out.
func compileShift(b *build) {
	b.args(3, 3)
	t := b.typ()
	if !t.integer() || t.bits < 16 || b.in.Op == "shl" && t.class != classBits {
		b.refuse("type .%s", t.name)
	}
	d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, 32)
	m := maskOf(t.bits)
	switch {
	case b.in.Op == "shl":
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] << ry[l] & m
			}
		})
	case t.class == classSigned:
		b.op2(d, x, y, func(x, y uint64) uint64 { return uint64(int64(sext(x, t.bits))>>y) & m })
	default:
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] >> ry[l]
			}
		})
	}
}

// compileFunnel compiles shf.
func compileFunnel(b *build) {
	b.args(4, 4)
	if t := b.bitsType(32); t.bits != 32 {
		b.refuse("type .%s", t.name)
	}
	left := b.take("l")
	if !left && !b.take("r") {
		b.refuse("one of .l, .r is missing")
	}
	wrap := b.take("wrap")
	if !wrap && !b.take("clamp") {
		b.refuse("one of .clamp, .wrap is missing")
	}
	b.op3(b.dst(0, 32), b.src(1, 32), b.src(2, 32), b.src(3, 32), func(x, y, z uint64) uint64 {
		n := min(z, 32)
		if wrap {
			n = z & 31
		}
		v := y<<32 | x
		if left {
			return v << n >> 32
		}
		return v >> n & maskOf(32)
	})
}

// compileBfe compiles bfe, the extraction of a bit field.
func compileBfe(b *build) {
	b.args(4, 4)
	t := b.typ()
	b.integerOnly(t, 32)
	signed := t.class == classSigned
	b.op3(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, 32), b.src(3, 32), func(x, y, z uint64) uint64 {
		pos, n := y&255, z&255
		if n == 0 {
			return 0
		}
		v := x
		if signed {
			v = sext(x, t.bits)
			if n < uint64(t.bits) && pos+n < uint64(t.bits) {
				return sext(v>>pos, int(n)) & maskOf(t.bits)
			}
			return uint64(int64(v)>>pos) & maskOf(t.bits)
		}
		return v >> pos & maskOf(int(n))
	})
}

// compileBfi compiles bfi, the insertion of a bit field.
func compileBfi(b *build) {
	b.args(5, 5)
	t := b.bitsType(32)
	d, x, y, pos, n := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, 32), b.src(4, 32)
	b.emit(func(w *warp) {
		for _, l := range w.act {
			l &= 31
			at, count := w.r[pos][l]&255, w.r[n][l]&255
			field := maskOf(int(count)) << at & maskOf(t.bits)
			w.r[d][l] = w.r[y][l]&^field | w.r[x][l]<<at&field
		}
	})
}

// compilePrmt compiles prmt: pick four bytes of eight.
func compilePrmt(b *build) {
	b.args(4, 4)
	if t := b.bitsType(32); t.bits != 32 {
		b.refuse("type .%s", t.name)
	}
	b.op3(b.dst(0, 32), b.src(1, 32), b.src(2, 32), b.src(3, 32), func(x, y, z uint64) uint64 {
		v := y<<32 | x
		var r uint64
		for i := range 4 {
			sel := z >> (4 * i)
			c := v >> (8 * (sel & 7)) & 255
			if sel&8 != 0 { // the sign of the byte, eight times
				c = uint64(int8(c)>>7) & 255
			}
			r |= c << (8 * i)
		}
		return r
	})
}

// compileSad compiles sad: |x-y| + z.
func compileSad(b *build) {
	b.args(4, 4)
	t := b.typ()
	b.integerOnly(t, 16)
	high := integerMinMax("max", t)
	low := integerMinMax("min", t)
	b.op3(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, t.bits), func(x, y, z uint64) uint64 {
		return (high(x, y) - low(x, y) + z) & maskOf(t.bits)
	})
}

// compileCount compiles popc, clz and brev.
func compileCount(b *build) {
	b.args(2, 2)
	t := b.bitsType(32)
	switch b.in.Op {
	case "popc":
		b.op1(b.dst(0, 32), b.src(1, t.bits), func(x uint64) uint64 { return uint64(bits.OnesCount64(x)) })
	case "clz":
		b.op1(b.dst(0, 32), b.src(1, t.bits), func(x uint64) uint64 { return uint64(bits.LeadingZeros64(x) - (64 - t.bits)) })
	default:
		b.op1(b.dst(0, t.bits), b.src(1, t.bits), func(x uint64) uint64 { return bits.Reverse64(x) >> (64 - t.bits) })
	}
}

// compileBfind compiles bfind: the place of the highest bit that differs from
// the sign.
func compileBfind(b *build) {
	b.args(2, 2)
	t := b.typ()
	b.integerOnly(t, 32)
	amount := b.take("shiftamt")
	b.op1(b.dst(0, 32), b.src(1, t.bits), func(x uint64) uint64 {
		if t.class == classSigned && int64(sext(x, t.bits)) < 0 {
			x = ^x & maskOf(t.bits)
		}
		if x == 0 {
			return maskOf(32)
		}
		n := uint64(bits.Len64(x) - 1)
		if amount {
			n = uint64(t.bits) - 1 - n
		}
		return n
	})
}

package exec

import "math/bits"

// widen reads the low bits of v as a number of type t in 64 bits.
func widen(v uint64, t typ) uint64 {
	if t.class == classSigned {
		return sext(v, t.bits)
	}
	return v & maskOf(t.bits)
}

// mulHigh is the upper half of the product.
func mulHigh(t typ) func(x, y uint64) uint64 {
	if t.bits < 64 {
		return func(x, y uint64) uint64 {
			return widen(x, t) * widen(y, t) >> t.bits & maskOf(t.bits)
		}
	}
	if t.class == classUnsigned {
		return func(x, y uint64) uint64 {
			hi, _ := bits.Mul64(x, y)
			return hi
		}
	}
	return func(x, y uint64) uint64 {
		hi, _ := bits.Mul64(x, y)
		// The signed product differs by what the signs weigh.
		if int64(x) < 0 {
			hi -= y
		}
		if int64(y) < 0 {
			hi -= x
		}
		return hi
	}
}

func (b *build) integerOnly(t typ, low int) {
	if t.class != classUnsigned && t.class != classSigned || t.bits < low {
		b.refuse("type .%s", t.name)
	}
}

// compileMul compiles mul.
func compileMul(b *build) {
	b.args(3, 3)
	t := b.typ()
	if t.isFloat() {
		b.float2(t, floatMul(t))
		return
	}
	b.integerOnly(t, 16)
	switch b.oneOf("lo", "hi", "wide") {
	case "lo":
		d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits)
		if t.bits == 64 {
			b.emit(func(w *warp) {
				rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
				for _, l := range w.act {
					l &= 31
					rd[l] = rx[l] * ry[l]
				}
			})
			return
		}
		m := maskOf(t.bits)
		b.emit(func(w *warp) {
			rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] * ry[l] & m
			}
		})
	case "hi":
		b.op2(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), mulHigh(t))
	case "wide":
		if t.bits == 64 {
			b.refuse("type .%s", t.name)
		}
		d, x, y := b.dst(0, 2*t.bits), b.src(1, t.bits), b.src(2, t.bits)
		if t.name == "u32" {
			b.emit(func(w *warp) {
				rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
				for _, l := range w.act {
					l &= 31
					rd[l] = rx[l] * ry[l]
				}
			})
			return
		}
		b.op2(d, x, y, func(x, y uint64) uint64 { return widen(x, t) * widen(y, t) & maskOf(2*t.bits) })
	default:
		b.refuse("one of .lo, .hi, .wide is missing")
	}
}

// compileMad compiles mad and fma.
func compileMad(b *build) {
	b.args(4, 4)
	t := b.typ()
	if t.isFloat() {
		// mad.f32 and mad.f64 are fused on every target since sm_20.
		if !b.take("rn") && b.in.Op == "fma" {
			b.refuse("rounding other than .rn")
		}
		d, x, y, z := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, t.bits)
		if t.class == classBFloat {
			b.needs(80, 70)
		}
		f := floatFma(t)
		if b.take("sat") {
			s, g := b.saturation(t), f
			f = func(x, y, z uint64) uint64 { return s(g(x, y, z)) }
		}
		b.op3(d, x, y, z, f)
		return
	}
	b.integerOnly(t, 16)
	if b.in.Op == "fma" {
		b.refuse("type .%s", t.name)
	}
	switch b.oneOf("lo", "hi", "wide") {
	case "lo":
		d, x, y, z := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, t.bits)
		m := maskOf(t.bits)
		b.emit(func(w *warp) {
			rd, rx, ry, rz := &w.r[d], &w.r[x], &w.r[y], &w.r[z]
			for _, l := range w.act {
				l &= 31
				rd[l] = (rx[l]*ry[l] + rz[l]) & m
			}
		})
	case "hi":
		f := mulHigh(t)
		b.op3(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, t.bits), func(x, y, z uint64) uint64 {
			return (f(x, y) + z) & maskOf(t.bits)
		})
	case "wide":
		if t.bits == 64 {
			b.refuse("type .%s", t.name)
		}
		b.op3(b.dst(0, 2*t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, 2*t.bits), func(x, y, z uint64) uint64 {
			return (widen(x, t)*widen(y, t) + z) & maskOf(2*t.bits)
		})
	default:
		b.refuse("one of .lo, .hi, .wide is missing")
	}
}

// compileDivRem compiles div and rem. PTX leaves division by zero open; as GPUs
// do, the quotient has all bits set and the remainder is the dividend.
func compileDivRem(b *build) {
	b.args(3, 3)
	t := b.typ()
	if t.isFloat() {
		if b.in.Op == "rem" || t.half() {
			b.refuse("type .%s", t.name)
		}
		// The approximate forms give the correctly rounded quotient, which is
		// within their error bounds.
		if b.oneOf("rn", "full", "approx") == "" {
			b.refuse("rounding other than .rn")
		}
		b.op2(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.saturate2(t, floatDiv(t)))
		return
	}
	b.integerOnly(t, 16)
	m := maskOf(t.bits)
	var f func(x, y uint64) uint64
	switch {
	case b.in.Op == "div" && t.class == classUnsigned:
		f = func(x, y uint64) uint64 {
			if y == 0 {
				return m
			}
			return x / y
		}
	case b.in.Op == "div":
		f = func(x, y uint64) uint64 {
			if y == 0 {
				return m
			}
			return uint64(int64(sext(x, t.bits))/int64(sext(y, t.bits))) & m
		}
	case t.class == classUnsigned:
		f = func(x, y uint64) uint64 {
			if y == 0 {
				return x
			}
			return x % y
		}
	default:
		f = func(x, y uint64) uint64 {
			if y == 0 {
				return x
			}
			return uint64(int64(sext(x, t.bits))%int64(sext(y, t.bits))) & m
		}
	}
	b.op2(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), f)
}

// integerMinMax gives min or max of an integer type.
func integerMinMax(op string, t typ) func(x, y uint64) uint64 {
	switch {
	case op == "min" && t.class == classSigned:
		return func(x, y uint64) uint64 {
			if int64(sext(x, t.bits)) < int64(sext(y, t.bits)) {
				return x
			}
			return y
		}
	case op == "min":
		return func(x, y uint64) uint64 { return min(x, y) }
	case t.class == classSigned:
		return func(x, y uint64) uint64 {
			if int64(sext(x, t.bits)) > int64(sext(y, t.bits)) {
				return x
			}
			return y
		}
	}
	return func(x, y uint64) uint64 { return max(x, y) }
}

// compileMinMax compiles min and max.
func compileMinMax(b *build) {
	b.args(3, 3)
	t := b.typ()
	var f func(x, y uint64) uint64
	if t.isFloat() {
		nan := b.take("NaN")
		if t.half() || nan {
			b.needs(80, 70)
		}
		f = floatMinMax(b.in.Op, t, nan)
	} else {
		b.integerOnly(t, 16)
		f = integerMinMax(b.in.Op, t)
	}
	b.op2(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), f)
}

// compileAbsNeg compiles abs and neg.
func compileAbsNeg(b *build) {
	b.args(2, 2)
	t := b.typ()
	d, x := b.dst(0, t.bits), b.src(1, t.bits)
	if t.isFloat() {
		sign := uint64(1) << (t.bits - 1)
		if t.lanes == 2 {
			sign |= 1 << 15
		}
		if b.in.Op == "abs" {
			b.op1(d, x, func(x uint64) uint64 { return x &^ sign })
		} else {
			b.op1(d, x, func(x uint64) uint64 { return x ^ sign })
		}
		return
	}
	if t.class != classSigned || t.bits < 16 {
		b.refuse("type .%s", t.name)
	}
	m := maskOf(t.bits)
	if b.in.Op == "neg" {
		b.op1(d, x, func(x uint64) uint64 { return -x & m })
		return
	}
	b.op1(d, x, func(x uint64) uint64 {
		if int64(sext(x, t.bits)) < 0 {
			return -x & m
		}
		return x
	})
}

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

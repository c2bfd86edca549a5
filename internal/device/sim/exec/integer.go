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

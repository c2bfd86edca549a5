package exec

import "math"

// Results that are NaN have the canonical NaN of PTX for f32, f16 and bf16.
const (
	nan32 = 0x7fffffff
	nan16 = 0x7fff
)

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

func bits32(f float32) uint64 {
	if f != f {
		return nan32
	}
	return uint64(math.Float32bits(f))
}

func bits64(f float64) uint64 { return math.Float64bits(f) }

func floatAdd(t typ) func(x, y uint64) uint64 {
	switch {
	case t.half():
		return halfOp2(t, func(x, y float64) float64 { return x + y })
	case t.bits == 32:
		return func(x, y uint64) uint64 { return bits32(f32(x) + f32(y)) }
	}
	return func(x, y uint64) uint64 { return bits64(f64(x) + f64(y)) }
}

func floatSub(t typ) func(x, y uint64) uint64 {
	switch {
	case t.half():
		return halfOp2(t, func(x, y float64) float64 { return x - y })
	case t.bits == 32:
		return func(x, y uint64) uint64 { return bits32(f32(x) - f32(y)) }
	}
	return func(x, y uint64) uint64 { return bits64(f64(x) - f64(y)) }
}

func floatMul(t typ) func(x, y uint64) uint64 {
	switch {
	case t.half():
		return halfOp2(t, func(x, y float64) float64 { return x * y })
	case t.bits == 32:
		return func(x, y uint64) uint64 { return bits32(f32(x) * f32(y)) }
	}
	return func(x, y uint64) uint64 { return bits64(f64(x) * f64(y)) }
}

func floatDiv(t typ) func(x, y uint64) uint64 {
	if t.bits == 32 {
		return func(x, y uint64) uint64 { return bits32(f32(x) / f32(y)) }
	}
	return func(x, y uint64) uint64 { return bits64(f64(x) / f64(y)) }
}

func floatFma(t typ) func(x, y, z uint64) uint64 {
	switch {
	case t.half():
		return halfOp3(t, oddFma)
	case t.bits == 32:
		return func(x, y, z uint64) uint64 {
			return bits32(float32(oddFma(float64(f32(x)), float64(f32(y)), float64(f32(z)))))
		}
	}
	return func(x, y, z uint64) uint64 { return bits64(math.FMA(f64(x), f64(y), f64(z))) }
}

// oddFma is x*y+z for factors of at most 24 bits, rounded to odd: an inexact
// result has its last bit set. Rounding that to a format of at most 51 bits
// gives what a single rounding would (Boldo and Melquiond, "When double
// rounding is odd").
func oddFma(x, y, z float64) float64 {
	p := x * y // exact: 48 bits
	s := p + z
	// The error of the sum (Knuth's TwoSum).
	b := s - p
	e := (p - (s - b)) + (z - b)
	if e == 0 || e != e || math.IsInf(s, 0) {
		return s
	}
	u := math.Float64bits(s)
	if u&1 == 1 {
		return s
	}
	// s is even and rounded: step to the neighbour on the side of the error.
	if (e > 0) == (s > 0) {
		u++
	} else {
		u--
	}
	return math.Float64frombits(u)
}

// floatMinMax gives min or max: a NaN yields to a number, unless nan says that
// it wins; -0 is less than +0.
func floatMinMax(op string, t typ, nan bool) func(x, y uint64) uint64 {
	less := op == "min"
	pick := func(x, y float64) float64 {
		switch {
		case x != x || y != y:
			if nan || x != x && y != y {
				return math.NaN()
			}
			if x != x {
				return y
			}
			return x
		case less:
			return math.Min(x, y)
		}
		return math.Max(x, y)
	}
	switch {
	case t.half():
		return halfOp2(t, pick)
	case t.bits == 32:
		return func(x, y uint64) uint64 { return bits32(float32(pick(float64(f32(x)), float64(f32(y))))) }
	}
	return func(x, y uint64) uint64 { return bits64(pick(f64(x), f64(y))) }
}

// saturation clamps to [0, 1]; NaN becomes 0.
func (b *build) saturation(t typ) func(x uint64) uint64 {
	clamp := func(x float64) float64 {
		if !(x > 0) {
			return 0
		}
		return min(x, 1)
	}
	switch {
	case t.half() && t.class == classFloat:
		return halfOp1(t, clamp)
	case t.name == "f32":
		return func(x uint64) uint64 { return bits32(float32(clamp(float64(f32(x))))) }
	}
	b.refuse("modifier .sat on .%s", t.name)
	return nil
}

func (b *build) saturate2(t typ, f func(x, y uint64) uint64) func(x, y uint64) uint64 {
	if !b.take("sat") {
		return f
	}
	s := b.saturation(t)
	return func(x, y uint64) uint64 { return s(f(x, y)) }
}

// compileRoot compiles rcp and sqrt. The approximate forms give the correctly
// rounded result, which is within their error bounds.
func compileRoot(b *build) {
	b.args(2, 2)
	t := b.typ()
	if t.half() || !t.isFloat() {
		b.refuse("type .%s", t.name)
	}
	if b.oneOf("rn", "approx") == "" {
		b.refuse("rounding other than .rn")
	}
	d, x := b.dst(0, t.bits), b.src(1, t.bits)
	switch {
	case b.in.Op == "rcp" && t.bits == 32:
		b.op1(d, x, func(x uint64) uint64 { return bits32(1 / f32(x)) })
	case b.in.Op == "rcp":
		b.op1(d, x, func(x uint64) uint64 { return bits64(1 / f64(x)) })
	case t.bits == 32:
		// The root in f64 rounds to f32 as the exact one does: 53 >= 2*24+2.
		b.op1(d, x, func(x uint64) uint64 { return bits32(float32(math.Sqrt(float64(f32(x))))) })
	default:
		b.op1(d, x, func(x uint64) uint64 { return bits64(math.Sqrt(f64(x))) })
	}
}

// compileCopysign compiles copysign: the sign of the first operand, the
// magnitude of the second.
func compileCopysign(b *build) {
	b.args(3, 3)
	t := b.typ()
	if t.half() || !t.isFloat() {
		b.refuse("type .%s", t.name)
	}
	sign := uint64(1) << (t.bits - 1)
	b.op2(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), func(x, y uint64) uint64 { return x&sign | y&^sign })
}

// compileTestp compiles testp.
func compileTestp(b *build) {
	b.args(2, 2)
	t := b.typ()
	if t.half() || !t.isFloat() {
		b.refuse("type .%s", t.name)
	}
	exp, frac := uint64(0x7f800000), uint64(0x007fffff)
	if t.bits == 64 {
		exp, frac = 0x7ff0000000000000, 0x000fffffffffffff
	}
	var f func(x uint64) bool
	switch b.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal") {
	case "finite":
		f = func(x uint64) bool { return x&exp != exp }
	case "infinite":
		f = func(x uint64) bool { return x&exp == exp && x&frac == 0 }
	case "number":
		f = func(x uint64) bool { return x&exp != exp || x&frac == 0 }
	case "notanumber":
		f = func(x uint64) bool { return x&exp == exp && x&frac != 0 }
	case "normal":
		f = func(x uint64) bool { return x&exp != exp && x&exp != 0 }
	case "subnormal":
		f = func(x uint64) bool { return x&exp == 0 && x&frac != 0 }
	default:
		b.refuse("test")
	}
	d, _ := b.pred(b.arg(0))
	x := b.src(1, t.bits)
	b.emit(func(w *warp) {
		var p uint32
		for _, l := range w.act {
			if f(w.r[x][l&31]) {
				p |= 1 << (l & 31)
			}
		}
		w.p[d] = w.p[d]&^w.mask | p
	})
}

package exec

import "math"

// compileCvt compiles cvt between any two scalar types, and from two f32 to a
// packed half.
func compileCvt(b *build) {
	from := b.typ()
	to := b.typ()
	var mode rounding
	var given, whole bool // a rounding is given; it rounds to an integer
	switch b.oneOf("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi") {
	case "rn":
		given, mode = true, nearestEven
	case "rz":
		given, mode = true, towardZero
	case "rm":
		given, mode = true, down
	case "rp":
		given, mode = true, upward
	case "rni":
		given, whole, mode = true, true, nearestEven
	case "rzi":
		given, whole, mode = true, true, towardZero
	case "rmi":
		given, whole, mode = true, true, down
	case "rpi":
		given, whole, mode = true, true, upward
	}
	sat := b.take("sat")
	switch bf := to.class == classBFloat || from.class == classBFloat; {
	case bf && from.name == "f32":
		b.needs(80, 70)
	case bf && to.name == "f32":
		b.needs(80, 71)
	case bf:
		b.needs(90, 78)
	}
	if to.class == classPred || from.class == classPred || to.class == classBits || from.class == classBits || from.lanes > 1 {
		b.refuse("conversion from .%s to .%s", from.name, to.name)
	}
	if to.lanes > 1 {
		b.packedCvt(from, to, mode, given && !whole, sat)
		return
	}
	b.args(2, 2)
	dst := b.dest(b.arg(0), to.bits, true)
	src := b.value(b.arg(1), from.bits, true)
	clip := maskOf(dst.bits)
	var f func(x uint64) uint64
	switch {
	case from.integer() && to.integer():
		if given {
			b.refuse("rounding between integers")
		}
		if !sat {
			b.cvtIntegers(dst, src, from, to)
			return
		}
		f = func(x uint64) uint64 { return saturate(widen(x, from), from.class == classSigned, to) & clip }
	case from.integer():
		if !given || whole {
			b.refuse("rounding is missing")
		}
		form := formatOf(to)
		signed := from.class == classSigned
		switch {
		case to.name == "f32" && mode == nearestEven && signed:
			f = func(x uint64) uint64 { return uint64(math.Float32bits(float32(int64(widen(x, from))))) }
		case to.name == "f32" && mode == nearestEven:
			f = func(x uint64) uint64 { return uint64(math.Float32bits(float32(widen(x, from)))) }
		default:
			f = func(x uint64) uint64 { return integerTo(widen(x, from), signed, form, mode) }
		}
	case to.integer():
		if !whole {
			b.refuse("rounding to an integer is missing")
		}
		f = func(x uint64) uint64 { return toInteger(integral(toFloat64(from, x), mode), to) & clip }
		sat = false // these conversions always saturate
	default:
		f = b.cvtFloats(from, to, mode, given, whole)
	}
	if !sat && from.name == "f16" && to.name == "f32" {
		b.emit(func(w *warp) {
			rd, rx := &w.r[dst.slot], &w.r[src]
			for _, l := range w.act {
				l &= 31
				rd[l] = bits32(f16to32(uint16(rx[l])))
			}
		})
		return
	}
	if sat && to.isFloat() {
		s, g := b.saturation(to), f
		f = func(x uint64) uint64 { return s(g(x)) }
	}
	b.op1(dst.slot, src, f)
}

// cvtIntegers extends or truncates.
func (b *build) cvtIntegers(dst *reg, src int, from, to typ) {
	d := dst.slot
	// What the narrower of the two types does to the bits decides: truncate to
	// it, then extend by its own sign.
	by := from
	if to.bits < from.bits {
		by = to
	}
	clip := maskOf(dst.bits)
	if to.bits > from.bits && to.class == classUnsigned {
		clip = maskOf(to.bits)
	}
	if by.class == classUnsigned {
		m := maskOf(by.bits) & clip
		b.emit(func(w *warp) {
			rd, rx := &w.r[d], &w.r[src]
			for _, l := range w.act {
				l &= 31
				rd[l] = rx[l] & m
			}
		})
		return
	}
	sh := 64 - by.bits
	b.emit(func(w *warp) {
		rd, rx := &w.r[d], &w.r[src]
		for _, l := range w.act {
			l &= 31
			rd[l] = uint64(int64(rx[l]<<sh)>>sh) & clip
		}
	})
}

// saturate clamps a 64-bit number to the range of t.
func saturate(v uint64, signed bool, t typ) uint64 {
	if t.class == classUnsigned {
		if signed && int64(v) < 0 {
			return 0
		}
		return min(v, maskOf(t.bits))
	}
	high := maskOf(t.bits - 1)
	if !signed {
		return min(v, high)
	}
	return uint64(max(min(int64(v), int64(high)), -int64(high)-1))
}

// toInteger converts an integral number, clamped to the range of t; NaN gives 0.
func toInteger(x float64, t typ) uint64 {
	if x != x {
		return 0
	}
	if t.class == classUnsigned {
		switch {
		case x <= 0:
			return 0
		case x >= math.Ldexp(1, t.bits):
			return maskOf(t.bits)
		}
		return uint64(x)
	}
	limit := math.Ldexp(1, t.bits-1)
	switch {
	case x >= limit:
		return maskOf(t.bits - 1)
	case x <= -limit:
		return math.MaxUint64 << (t.bits - 1)
	}
	return uint64(int64(x))
}

// cvtFloats converts between floating-point types.
func (b *build) cvtFloats(from, to typ, mode rounding, given, whole bool) func(x uint64) uint64 {
	form := formatOf(to)
	narrower := to.bits < from.bits || to.bits == from.bits && to.class != from.class
	switch {
	case whole:
		if from.bits != to.bits || narrower {
			b.refuse("rounding to an integer between sizes")
		}
		return func(x uint64) uint64 { return floatTo(integral(toFloat64(from, x), mode), form, nearestEven) }
	case narrower && !given:
		b.refuse("rounding is missing")
	case !narrower && given:
		b.refuse("rounding where nothing is rounded")
	case from.name == "f16" && to.name == "f32":
		return func(x uint64) uint64 { return bits32(f16to32(uint16(x))) }
	case from.name == "bf16" && to.name == "f32":
		return func(x uint64) uint64 { return bits32(bf16to32(uint16(x))) }
	case from.name == "f32" && mode == nearestEven && to.name == "f16":
		return func(x uint64) uint64 { return uint64(f32to16(f32(x))) }
	case from.name == "f32" && mode == nearestEven && to.name == "bf16":
		return func(x uint64) uint64 { return uint64(f32toBF16(f32(x))) }
	case to == from:
		return func(x uint64) uint64 { return x }
	}
	return func(x uint64) uint64 { return floatTo(toFloat64(from, x), form, mode) }
}

// packedCvt compiles cvt.rn.f16x2.f32 and its like: the first source goes to
// the upper half.
func (b *build) packedCvt(from, to typ, mode rounding, given, sat bool) {
	b.args(3, 3)
	if from.name != "f32" || !given || sat || mode != nearestEven && mode != towardZero {
		b.refuse("conversion from .%s to .%s", from.name, to.name)
	}
	form := formatOf(to)
	one := func(x uint64) uint64 { return floatTo(float64(f32(x)), form, mode) }
	if mode == nearestEven {
		one = func(x uint64) uint64 { return uint64(f32to16(f32(x))) }
		if form == formatBF16 {
			one = func(x uint64) uint64 { return uint64(f32toBF16(f32(x))) }
		}
	}
	b.op2(b.dst(0, 32), b.src(1, 32), b.src(2, 32), func(x, y uint64) uint64 { return one(x)<<16 | one(y) })
}

// window gives what a generic address has over one of the state space named by
// a modifier.
func (b *build) window() uint64 {
	switch b.oneOf("global", "shared", "shared::cta", "local", "param", "param::entry") {
	case "global":
		return 0
	case "shared", "shared::cta":
		return SharedWindow
	case "local":
		return LocalWindow
	case "param", "param::entry":
		return ParamWindow
	}
	b.refuse("state space")
	return 0
}

// compileCvta compiles cvta and cvta.to.
func compileCvta(b *build) {
	b.args(2, 2)
	t := b.typ()
	if t.name != "u64" {
		b.refuse("type .%s", t.name)
	}
	to := b.take("to")
	win := b.window()
	if to {
		win = -win
	}
	b.op1(b.dst(0, 64), b.src(1, 64), func(x uint64) uint64 { return x + win })
}

// compileIsspacep compiles isspacep.
func compileIsspacep(b *build) {
	b.args(2, 2)
	low := b.window()
	high := low + SharedWindow
	if low == 0 {
		low, high = WindowEnd, math.MaxUint64
	}
	d, _ := b.pred(b.arg(0))
	x := b.src(1, 64)
	b.emit(func(w *warp) {
		var p uint32
		for _, l := range w.act {
			if v := w.r[x][l&31]; v >= low && v < high {
				p |= 1 << (l & 31)
			}
		}
		w.p[d] = w.p[d]&^w.mask | p
	})
}

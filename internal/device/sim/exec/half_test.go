package exec

import (
	"math"
	"math/big"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"
)

// exact rounds an exact number to a format by the definition: the candidates
// are the format's neighbours, the nearer one wins, ties go to the even one.
func exact(x *big.Float, f format) uint64 {
	if x.Sign() == 0 {
		return 0
	}
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = 1 << (f.frac + f.exp)
		x = new(big.Float).Neg(x)
	}
	value := func(bits uint64) *big.Float { // of a positive number; infinity counts as the next power of two
		bias := 1<<(f.exp-1) - 1
		e, m := int(bits>>f.frac), bits&(1<<f.frac-1)
		if e == 0 {
			e = 1
		} else {
			m |= 1 << f.frac
		}
		return new(big.Float).SetPrec(400).SetMantExp(new(big.Float).SetUint64(m), e-bias-f.frac)
	}
	lo, hi := uint64(0), f.infinity()
	if x.Cmp(value(hi)) >= 0 {
		return sign | hi
	}
	for hi-lo > 1 { // value(lo) <= x < value(hi)
		mid := lo + (hi-lo)/2
		if value(mid).Cmp(x) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	down := new(big.Float).SetPrec(800).Sub(x, value(lo))
	up := new(big.Float).SetPrec(800).Sub(value(hi), x)
	switch c := down.Cmp(up); {
	case c > 0, c == 0 && lo&1 == 1:
		return sign | hi
	}
	return sign | lo
}

func bigOf(t typ, v uint64) *big.Float {
	return new(big.Float).SetPrec(800).SetFloat64(toFloat64(t, v))
}

// finite draws the bits of a finite number, near the edges more often.
func finite(f format) *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		e := rapid.Uint64Range(0, 1<<f.exp-2).Draw(t, "exponent")
		m := rapid.OneOf(rapid.Uint64Range(0, 1<<f.frac-1), rapid.SampledFrom([]uint64{0, 1, 1<<f.frac - 1, 1 << (f.frac - 1)})).Draw(t, "fraction")
		s := rapid.Uint64Range(0, 1).Draw(t, "sign")
		return s<<(f.exp+f.frac) | e<<f.frac | m
	})
}

// TestHalfArithmetic compares with exact arithmetic.
func TestHalfArithmetic(t *testing.T) {
	for _, name := range []string{"f16", "bf16", "f32"} {
		ty := typeOf(name)
		f := formatOf(ty)
		add, sub, mul, fma := floatAdd(ty), floatSub(ty), floatMul(ty), floatFma(ty)
		rapid.Check(t, func(t *rapid.T) {
			x, y, z := finite(f).Draw(t, "x"), finite(f).Draw(t, "y"), finite(f).Draw(t, "z")
			if rapid.Bool().Draw(t, "cancel") { // z close to -x*y
				z = exact(new(big.Float).SetPrec(800).Mul(bigOf(ty, x), bigOf(ty, y)), f) ^ 1<<(f.exp+f.frac)
				if z&f.infinity() == f.infinity() {
					z = 1
				}
			}
			check := func(op string, got uint64, want *big.Float) {
				w := exact(want, f)
				if w == 0 { // the sign of zero is tested elsewhere
					got &^= 1 << (f.exp + f.frac)
				}
				if w<<1 == 0 || got<<1 == 0 {
					got &^= 1 << (f.exp + f.frac)
					w &^= 1 << (f.exp + f.frac)
				}
				if got != w {
					t.Fatalf("%s.%s of %#x, %#x, %#x is %#x, want %#x", op, name, x, y, z, got, w)
				}
			}
			n := func() *big.Float { return new(big.Float).SetPrec(800) }
			check("add", add(x, y), n().Add(bigOf(ty, x), bigOf(ty, y)))
			check("sub", sub(x, y), n().Sub(bigOf(ty, x), bigOf(ty, y)))
			check("mul", mul(x, y), n().Mul(bigOf(ty, x), bigOf(ty, y)))
			p := n().Mul(bigOf(ty, x), bigOf(ty, y))
			check("fma", fma(x, y, z), n().Add(p, bigOf(ty, z)))
		})
	}
}

// TestHalfConversions compares every half with package float16 and random
// float32 with the definition of rounding.
func TestHalfConversions(t *testing.T) {
	for h := range 1 << 16 {
		got, want := f16to32(uint16(h)), float16.Frombits(uint16(h)).Float32()
		if got != want && (got == got || want == want) {
			t.Fatalf("half %#x is %v, want %v", h, got, want)
		}
		if got == got && f32to16(got) != uint16(h) {
			t.Fatalf("half %#x comes back as %#x", h, f32to16(got))
		}
		b := bf16to32(uint16(h))
		if b == b && f32toBF16(b) != uint16(h) {
			t.Fatalf("bfloat16 %#x comes back as %#x", h, f32toBF16(b))
		}
	}
	f32t := typeOf("f32")
	rapid.Check(t, func(t *rapid.T) {
		bits := finite(formatF32).Draw(t, "x")
		if rapid.Bool().Draw(t, "in range of f16") {
			bits = bits&0x87ffffff | 0x38000000&^(rapid.Uint64Range(0, 31).Draw(t, "low")<<23)
		}
		x := f32(bits)
		if got, want := f32to16(x), float16.Fromfloat32(x).Bits(); got != want {
			t.Fatalf("%v (%#x) to half is %#x, package float16 has %#x", x, bits, got, want)
		}
		want := exact(bigOf(f32t, bits), formatBF16)
		if got := uint64(f32toBF16(x)); got != want && got<<1&0xffff != 0 {
			t.Fatalf("%v (%#x) to bfloat16 is %#x, want %#x", x, bits, got, want)
		}
	})
}

// TestDirectedRounding checks floatTo in all directions: the result is the
// neighbour on the asked side.
func TestDirectedRounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]format{formatF16, formatBF16, formatF32}).Draw(t, "format")
		ty := map[format]typ{formatF16: typeOf("f16"), formatBF16: typeOf("bf16"), formatF32: typeOf("f32")}[f]
		x := rapid.OneOf(
			rapid.Float64Range(-1e5, 1e5), rapid.Float64Range(-1e-6, 1e-6), rapid.Float64Range(-1e-40, 1e-40), rapid.Float64(),
		).Draw(t, "x")
		v := func(mode rounding) float64 { return toFloat64(ty, floatTo(x, f, mode)) }
		lo, hi, zero, near := v(down), v(upward), v(towardZero), v(nearestEven)
		if !(lo <= x && x <= hi) {
			t.Fatalf("%v is not between %v and %v", x, lo, hi)
		}
		if x > 0 && zero != lo || x < 0 && zero != hi {
			t.Fatalf("%v toward zero is %v; neighbours %v, %v", x, zero, lo, hi)
		}
		if near != lo && near != hi {
			t.Fatalf("%v to nearest is %v; neighbours %v, %v", x, near, lo, hi)
		}
		if lo != hi && !math.IsInf(lo, 0) && !math.IsInf(hi, 0) {
			if d, u := x-lo, hi-x; d < u && near != lo || d > u && near != hi {
				t.Fatalf("%v to nearest is %v; neighbours %v, %v", x, near, lo, hi)
			}
		}
	})
}

// TestSpecialFloats checks f32 against the host for all kinds of numbers,
// NaN and infinities included.
func TestSpecialFloats(t *testing.T) {
	vals := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, math.SmallestNonzeroFloat32}
	ops := map[string]struct {
		f    func(x, y uint64) uint64
		host func(x, y float32) float32
	}{
		"add": {floatAdd(typeOf("f32")), func(x, y float32) float32 { return x + y }},
		"sub": {floatSub(typeOf("f32")), func(x, y float32) float32 { return x - y }},
		"mul": {floatMul(typeOf("f32")), func(x, y float32) float32 { return x * y }},
		"div": {floatDiv(typeOf("f32")), func(x, y float32) float32 { return x / y }},
	}
	for name, op := range ops {
		for _, x := range vals {
			for _, y := range vals {
				want := fbits(op.host(x, y))
				if r := op.host(x, y); r != r {
					want = nan32
				}
				if got := op.f(fbits(x), fbits(y)); got != want {
					t.Errorf("%s of %v and %v is %#x, want %#x", name, x, y, got, want)
				}
			}
		}
	}
	// Halves: infinities and the sign of zero.
	add, mul := floatAdd(typeOf("f16")), floatMul(typeOf("f16"))
	for _, c := range [][3]uint64{
		{add(0x7c00, 0xfc00), nan16}, {add(0x8000, 0x8000), 0x8000}, {add(0x3c00, 0xbc00), 0},
		{mul(0x8000, 0x3c00), 0x8000}, {mul(0x7c00, 0), nan16}, {mul(0xfc00, 0x3c00), 0xfc00},
	} {
		if c[0] != c[1] {
			t.Errorf("half result %#x, want %#x", c[0], c[1])
		}
	}
}

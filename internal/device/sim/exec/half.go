package exec

import "math"

// f16 and bf16 are computed in float64 and rounded once. Sums and products of
// two halves lose nothing there that a second rounding could make visible
// (53 >= 2p+2), and oddFma takes care of the fused form.

// f16to32 widens a half: always exact.
func f16to32(h uint16) float32 {
	// The half's bits, moved to their places in a float32, are the number times
	// 2^-112, subnormal ones included.
	u := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
	if h&0x7c00 == 0x7c00 { // infinity and NaN
		u |= 0x7f800000
	}
	return math.Float32frombits(u | uint32(h&0x8000)<<16)
}

// bf16to32 widens a bfloat16: always exact.
func bf16to32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// f32to16 rounds to a half, to nearest even.
func f32to16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u>>16) & 0x8000
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return nan16
	case u >= 0x477ff000: // 65520 and more round to infinity
		return sign | 0x7c00
	case u >= 0x38800000: // normal
		u += 0xfff + u>>13&1
		return sign | uint16((u-0x38000000)>>13)
	}
	// Adding 0.5 puts the last bit of a subnormal half where the last bit of a
	// float32 is: the addition rounds.
	g := math.Float32frombits(u) + 0.5
	return sign | uint16(math.Float32bits(g)-0x3f000000)
}

// f32toBF16 rounds to a bfloat16, to nearest even.
func f32toBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return nan16
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// halfCodec gives the widening and the rounding of a 16-bit type.
func halfCodec(t typ) (widen func(uint16) float32, round func(float64) uint16) {
	if t.class == classBFloat {
		return bf16to32, func(f float64) uint16 { return uint16(floatTo(f, formatBF16, nearestEven)) }
	}
	return f16to32, func(f float64) uint16 { return uint16(floatTo(f, formatF16, nearestEven)) }
}

func halfOp1(t typ, f func(x float64) float64) func(x uint64) uint64 {
	widen, round := halfCodec(t)
	one := func(x uint64) uint64 { return uint64(round(f(float64(widen(uint16(x)))))) }
	if t.lanes == 1 {
		return one
	}
	return func(x uint64) uint64 { return one(x) | one(x>>16)<<16 }
}

func halfOp2(t typ, f func(x, y float64) float64) func(x, y uint64) uint64 {
	widen, round := halfCodec(t)
	one := func(x, y uint64) uint64 {
		return uint64(round(f(float64(widen(uint16(x))), float64(widen(uint16(y))))))
	}
	if t.lanes == 1 {
		return one
	}
	return func(x, y uint64) uint64 { return one(x, y) | one(x>>16, y>>16)<<16 }
}

func halfOp3(t typ, f func(x, y, z float64) float64) func(x, y, z uint64) uint64 {
	widen, round := halfCodec(t)
	one := func(x, y, z uint64) uint64 {
		return uint64(round(f(float64(widen(uint16(x))), float64(widen(uint16(y))), float64(widen(uint16(z))))))
	}
	if t.lanes == 1 {
		return one
	}
	return func(x, y, z uint64) uint64 { return one(x, y, z) | one(x>>16, y>>16, z>>16)<<16 }
}

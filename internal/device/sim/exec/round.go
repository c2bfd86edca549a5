package exec

import (
	"math"
	"math/bits"
)

// rounding is an IEEE 754 rounding direction.
type rounding uint8

const (
	nearestEven rounding = iota
	towardZero
	down
	upward
)

// format is a binary floating-point format.
type format struct {
	frac int // fraction bits
	exp  int // exponent bits
}

var (
	formatF16  = format{10, 5}
	formatBF16 = format{7, 8}
	formatF32  = format{23, 8}
	formatF64  = format{52, 11}
)

func formatOf(t typ) format {
	switch {
	case t.class == classBFloat:
		return formatBF16
	case t.half():
		return formatF16
	case t.bits == 32:
		return formatF32
	}
	return formatF64
}

func (f format) nan() uint64 {
	if f == formatF64 {
		return 0x7fffffffffffffff
	}
	return 1<<(f.frac+f.exp) - 1
}

func (f format) infinity() uint64 { return (1<<f.exp - 1) << f.frac }

// pack rounds mant·2^exp, mant not zero, to a format and gives its bits.
func (f format) pack(neg bool, mant uint64, exp int, mode rounding) uint64 {
	bias := 1<<(f.exp-1) - 1
	z := bits.LeadingZeros64(mant)
	mant <<= z
	e := exp - z + 63 // the value is 1.xxx · 2^e
	drop := 63 - f.frac
	biased := e + bias
	if biased < 1 { // subnormal: fewer bits stay
		drop += 1 - biased
		biased = 1
	}
	var keep, rest, half uint64
	switch {
	case drop < 64:
		keep, rest, half = mant>>drop, mant&(1<<drop-1), 1<<(drop-1)
	case drop == 64:
		keep, rest, half = 0, mant, 1<<63
	default:
		keep, rest, half = 0, 1, 2
	}
	up := false
	switch mode {
	case nearestEven:
		up = rest > half || rest == half && keep&1 == 1
	case down:
		up = neg && rest != 0
	case upward:
		up = !neg && rest != 0
	}
	if up {
		keep++
	}
	// keep has the implicit bit; a carry out of the fraction, or from
	// subnormal to normal, goes into the exponent by itself.
	v := uint64(biased-1)<<f.frac + keep
	if v >= f.infinity() {
		v = f.infinity()
		if mode == towardZero || mode == down && !neg || mode == upward && neg {
			v-- // the largest finite number
		}
	}
	if neg {
		v |= 1 << (f.frac + f.exp)
	}
	return v
}

// floatTo rounds a float64 to a format.
func floatTo(x float64, f format, mode rounding) uint64 {
	u := math.Float64bits(x)
	neg := u>>63 != 0
	sign := u >> 63 << (f.frac + f.exp)
	exp := int(u >> 52 & 0x7ff)
	frac := u & (1<<52 - 1)
	switch {
	case exp == 0x7ff && frac != 0:
		return f.nan()
	case exp == 0x7ff:
		return sign | f.infinity()
	case exp == 0 && frac == 0:
		return sign
	case exp == 0:
		return f.pack(neg, frac, -1074, mode)
	}
	return f.pack(neg, frac|1<<52, exp-1075, mode)
}

// integerTo rounds an integer to a format.
func integerTo(v uint64, signed bool, f format, mode rounding) uint64 {
	if v == 0 {
		return 0
	}
	if signed && int64(v) < 0 {
		return f.pack(true, -v, 0, mode)
	}
	return f.pack(false, v, 0, mode)
}

// toFloat64 reads the bits of any floating-point type: always exact.
func toFloat64(t typ, v uint64) float64 {
	switch {
	case t.class == classBFloat:
		return float64(bf16to32(uint16(v)))
	case t.half():
		return float64(f16to32(uint16(v)))
	case t.bits == 32:
		return float64(f32(v))
	}
	return f64(v)
}

// integral rounds to an integer.
func integral(x float64, mode rounding) float64 {
	switch mode {
	case nearestEven:
		return math.RoundToEven(x)
	case towardZero:
		return math.Trunc(x)
	case down:
		return math.Floor(x)
	}
	return math.Ceil(x)
}

package bench

import (
	"fmt"
	"math"
	"strconv"

	"github.com/x448/float16"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// This file computes on the host what data.cuh computes on the device: the
// inputs of every rank and the expected result. The device's own are used for
// verification; these name the expected value of a wrong element, and tests
// compare the two.

func mix(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

func elementHash(seed uint32, index uint64) uint32 {
	return mix(uint32(index) ^ mix(uint32(index>>32)+seed*0x9e3779b9))
}

func rankHash(h uint32, rank int) uint32 { return mix(h + uint32(rank+1)*0x9e3779b9) }

func below(h, limit uint32) uint32 { return uint32(uint64(h) * uint64(limit) >> 32) }

// precision is the significand of a floating-point type, the implicit bit
// included, and the range of exponents of its inputs.
type precision struct{ bits, low, span int }

var precisions = map[collective.DType]precision{
	collective.Float: {24, -20, 41}, collective.Double: {53, -20, 41}, collective.Half: {11, -8, 13}, collective.BFloat16: {8, -20, 41},
}

// floatInput is a rank's input of a floating-point type. Every value is exact in
// the type, so float64 holds it.
func floatInput(d collective.DType, op collective.Op, ranks, rank int, h uint32) float64 {
	p := precisions[d]
	r := rankHash(h, rank)
	sign := 1.0
	if r&1 != 0 {
		sign = -1
	}
	if op == collective.Prod {
		if uint32(rank) != below(h, uint32(ranks)) {
			if r&2 != 0 {
				return sign * 2
			}
			return sign * 0.5
		}
		fraction := (uint64(mix(r^h))<<32 | uint64(r)) >> (65 - p.bits)
		return sign * (1 + math.Ldexp(float64(fraction), 1-p.bits))
	}
	limit := uint64(1)<<p.bits - 1
	exponent := mix(r)
	if op == collective.Sum || op == collective.Avg {
		limit /= uint64(ranks)
		exponent = h
	}
	m := 1 + uint64(below(r, uint32(limit)))
	if p.bits > 32 {
		m = 1 + uint64(below(r, uint32(limit>>32)))<<32 + uint64(mix(r^h))
	}
	return sign * math.Ldexp(float64(m), p.low+int(below(exponent, uint32(p.span))))
}

// integerInput is a rank's input of an integer type, in the type's low bits.
func integerInput(d collective.DType, op collective.Op, rank int, h uint32) uint64 {
	r := rankHash(h, rank)
	bits := uint64(r)
	if d.Size() == 8 {
		bits |= uint64(mix(r^h)) << 32
	}
	if op == collective.Prod {
		bits |= 1
	}
	return bits
}

// expected is the bit pattern of element index of the result.
func expected(d collective.DType, op collective.Op, ranks int, seed uint32, index uint64) uint64 {
	h := elementHash(seed, index)
	if d.IsFloat() {
		acc := floatInput(d, op, ranks, 0, h)
		for r := 1; r < ranks; r++ {
			acc = reduceFloat(op, acc, floatInput(d, op, ranks, r, h))
		}
		if op == collective.Avg {
			if d == collective.Double {
				acc /= float64(ranks)
			} else {
				acc = float64(float32(acc) / float32(ranks))
			}
		}
		return floatBits(d, acc)
	}
	acc := extend(d, integerInput(d, op, 0, h))
	for r := 1; r < ranks; r++ {
		acc = extend(d, reduceInteger(d, op, acc, extend(d, integerInput(d, op, r, h))))
	}
	if op == collective.Avg {
		acc = divideInteger(d, acc, int64(ranks))
	}
	return acc & (math.MaxUint64 >> (64 - 8*d.Size()))
}

func reduceFloat(op collective.Op, a, b float64) float64 {
	switch op {
	case collective.Prod:
		return a * b
	case collective.Min:
		return min(a, b)
	case collective.Max:
		return max(a, b)
	}
	return a + b
}

func signed(d collective.DType) bool {
	return d == collective.Int8 || d == collective.Int32 || d == collective.Int64
}

// extend brings the low bits of a type to 64 bits, by its sign or by zeros.
func extend(d collective.DType, v uint64) uint64 {
	shift := 64 - 8*d.Size()
	if signed(d) {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

func reduceInteger(d collective.DType, op collective.Op, a, b uint64) uint64 {
	less := a < b
	if signed(d) {
		less = int64(a) < int64(b)
	}
	switch op {
	case collective.Prod:
		return a * b
	case collective.Min:
		if less {
			return a
		}
		return b
	case collective.Max:
		if less {
			return b
		}
		return a
	}
	return a + b
}

func divideInteger(d collective.DType, a uint64, n int64) uint64 {
	if signed(d) {
		return uint64(int64(a) / n)
	}
	return a / uint64(n)
}

// floatBits rounds a value to a type, to nearest even.
func floatBits(d collective.DType, v float64) uint64 {
	switch d {
	case collective.Double:
		return math.Float64bits(v)
	case collective.Half:
		return uint64(float16.Fromfloat32(float32(v)).Bits())
	case collective.BFloat16:
		b := math.Float32bits(float32(v))
		return uint64((b + 0x7fff + b>>16&1) >> 16)
	}
	return uint64(math.Float32bits(float32(v)))
}

// element writes a bit pattern as bits and as a number.
func element(d collective.DType, bits uint64) result.Element {
	e := result.Element{Bits: fmt.Sprintf("0x%0*x", 2*d.Size(), bits)}
	switch d {
	case collective.Double:
		e.Value = strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
	case collective.Float:
		e.Value = strconv.FormatFloat(float64(math.Float32frombits(uint32(bits))), 'g', -1, 32)
	case collective.Half:
		e.Value = strconv.FormatFloat(float64(float16.Frombits(uint16(bits)).Float32()), 'g', -1, 32)
	case collective.BFloat16:
		e.Value = strconv.FormatFloat(float64(math.Float32frombits(uint32(bits)<<16)), 'g', -1, 32)
	default:
		if signed(d) {
			e.Value = strconv.FormatInt(int64(extend(d, bits)), 10)
		} else {
			e.Value = strconv.FormatUint(bits, 10)
		}
	}
	return e
}

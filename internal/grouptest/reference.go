package grouptest

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// value is a rank's input: a small integer, so that every sum and product of
// eight is exact in every type, or wraps alike, whatever the order. It shares
// nothing with the data of package bench.
func value(c Case, rank int, i uint64) int64 {
	h := (i+1)*0x9e3779b97f4a7c15 + (uint64(rank)+1)*0xbf58476d1ce4e5b9 + c.Seed*0x94d049bb133111eb
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	v := int64(h%8) + 1
	if c.Op == collective.Prod {
		v = v%2 + 1
	}
	if h>>8&1 != 0 && signed(c.DType) {
		v = -v
	}
	return v
}

func signed(d collective.DType) bool {
	return d != collective.Uint8 && d != collective.Uint32 && d != collective.Uint64
}

// input is the send buffer of a rank.
func input(c Case, rank int) []byte {
	var b []byte
	for i := range c.Count {
		b = Encode(b, c.DType, value(c, rank, i), 1)
	}
	return b
}

// expected is every rank's receive buffer.
func expected(c Case, ranks int) []byte {
	var b []byte
	for i := range c.Count {
		acc := value(c, 0, i)
		for r := 1; r < ranks; r++ {
			switch v := value(c, r, i); c.Op {
			case collective.Prod:
				acc *= v
			case collective.Min:
				acc = min(acc, v)
			case collective.Max:
				acc = max(acc, v)
			default:
				acc += v
			}
		}
		divisor := 1
		if c.Op == collective.Avg {
			divisor = ranks
		}
		b = Encode(b, c.DType, acc, divisor)
	}
	return b
}

// Encode appends v / divisor as an element. Floats up to 32 bits are divided in
// float32 and then rounded to their type; integers are cut towards zero.
func Encode(b []byte, d collective.DType, v int64, divisor int) []byte {
	le := binary.LittleEndian
	f := float32(v) / float32(divisor)
	switch d {
	case collective.Double:
		return le.AppendUint64(b, math.Float64bits(float64(v)/float64(divisor)))
	case collective.Float:
		return le.AppendUint32(b, math.Float32bits(f))
	case collective.Half:
		return le.AppendUint16(b, float16.Fromfloat32(f).Bits())
	case collective.BFloat16:
		u := math.Float32bits(f)
		return le.AppendUint16(b, uint16((u+0x7fff+u>>16&1)>>16))
	}
	v /= int64(divisor)
	switch d.Size() {
	case 1:
		return append(b, byte(v))
	case 4:
		return le.AppendUint32(b, uint32(v))
	}
	return le.AppendUint64(b, uint64(v))
}

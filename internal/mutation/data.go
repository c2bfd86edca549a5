package mutation

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// value is a rank's input, chosen so that sums are exact in any order in the
// accumulator of the kernels, but not in that of the element: some elements have
// one large value, whose sum with a small one needs a bit more than a half or
// bfloat16 has. Not so for a ring, which rounds at every rank, and for averages,
// where the switch rounds before the division.
func (c *call) value(rank int, i uint64) int64 {
	d, h := c.dtype, mix(i+c.seed<<20)
	if large := map[collective.DType]int64{collective.Half: 2048, collective.BFloat16: 256}[d]; large != 0 && h&1 != 0 && c.family != kernels.Ring && c.op != collective.Avg {
		if int(h>>8)%c.ranks == rank {
			return large
		}
		return 1
	}
	h = mix(h + uint64(rank+1)*0x9e3779b97f4a7c15)
	v := int64(h%7) + 1
	if h>>8&1 != 0 && d != collective.Uint8 && d != collective.Uint32 && d != collective.Uint64 {
		v = -v
	}
	return v
}

func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// data is what a rank sends.
func (c *call) data(rank int) []byte {
	var b []byte
	for i := range c.count {
		b = encode(b, c.dtype, c.value(rank, i), 1)
	}
	return b
}

// expected is what every rank receives.
func (c *call) expected() []byte {
	var b []byte
	for i := range c.count {
		var sum int64
		for r := range c.ranks {
			sum += c.value(r, i)
		}
		if c.op == collective.Avg {
			b = encode(b, c.dtype, sum, c.ranks)
		} else {
			b = encode(b, c.dtype, sum, 1)
		}
	}
	return b
}

// encode appends v / divisor as an element, rounded once in a float.
func encode(b []byte, d collective.DType, v int64, divisor int) []byte {
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

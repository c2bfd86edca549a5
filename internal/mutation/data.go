package mutation

import (
	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
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
		b = grouptest.Encode(b, c.dtype, c.value(rank, i), 1)
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
			b = grouptest.Encode(b, c.dtype, sum, c.ranks)
		} else {
			b = grouptest.Encode(b, c.dtype, sum, 1)
		}
	}
	return b
}

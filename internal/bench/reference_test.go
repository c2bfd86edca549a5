package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// inputBits is a rank's input as it stands in memory.
func inputBits(d collective.DType, op collective.Op, ranks, rank int, seed uint32, index uint64) uint64 {
	h := elementHash(seed, index)
	if d.IsFloat() {
		return floatBits(d, floatInput(d, op, ranks, rank, h))
	}
	return integerInput(d, op, rank, h) & (math.MaxUint64 >> (64 - 8*d.Size()))
}

func appendBits(b []byte, d collective.DType, bits uint64) []byte {
	return append(b, binary.LittleEndian.AppendUint64(nil, bits)[:d.Size()]...)
}

// The fill kernels write what the host computes, and the check kernels find equal
// what the host expects, bit for bit: every type and operation, 1 to 8 ranks.
func TestHostAndDeviceAgree(t *testing.T) {
	const count, seed, broken = 301, 77, 123
	grouptest.Run(t, 1, nil, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		b := &bench{group: r.Group}
		for _, d := range collective.DTypes() {
			for _, op := range collective.Ops() {
				c := collective.Call{Send: m.At(0), Recv: m.At(0), Count: count, DType: d, Op: op}
				k, err := b.dataKernels(c)
				r.OK(err, "dataKernels of %s %s", op, d)
				for ranks := 1; ranks <= collective.MaxRanks; ranks++ {
					what := fmt.Sprintf("%s of %s, %d ranks", op, d, ranks)
					k.args.Ranks = uint32(ranks)
					if op == collective.Avg {
						k.args.Average = kernels.AverageOver(ranks)
					}
					for rank := range ranks {
						k.args.Rank = uint32(rank)
						r.OK(k.launch(r.Stream(), k.fill, m.Local(), 0, seed), "fill")
						r.Wait()
						got := r.Read(m.Local(), count*uint64(d.Size()))
						for i := range count {
							g := got[i*d.Size() : (i+1)*d.Size()]
							if w := appendBits(nil, d, inputBits(d, op, ranks, rank, seed, uint64(i))); string(g) != string(w) {
								r.Fatalf("%s: input %d of rank %d is %x, the host has %x", what, i, rank, g, w)
							}
						}
					}
					var want []byte
					for i := range count {
						want = appendBits(want, d, expected(d, op, ranks, seed, uint64(i)))
					}
					r.Write(m.Local(), want)
					if wrong, first, right := check(r, k, m.Local(), seed); wrong != 0 || right != count {
						r.Fatalf("%s: %d of the host's results are not the device's, the first is %d; %d are", what, wrong, first, right)
					}
					// One bit, and one element at the end: the check can fail.
					r.Write(m.Local()+device.Ptr(broken*d.Size()), []byte{want[broken*d.Size()] ^ 1})
					r.Write(m.Local()+device.Ptr((count-1)*d.Size()), []byte{want[(count-1)*d.Size()] ^ 0x80})
					if wrong, first, right := check(r, k, m.Local(), seed); wrong != 2 || first != broken || right != count-2 {
						r.Fatalf("%s: the check finds %d wrong elements, the first %d, and %d right ones", what, wrong, first, right)
					}
				}
			}
		}
		r.Close(m)
	})
}

// check runs the check kernel on a buffer.
func check(r *grouptest.Rank, k *dataKernels, at device.Ptr, seed uint32) (wrong, first, right uint64) {
	report := r.Workspace().Report()
	r.Write(report, append(binary.LittleEndian.AppendUint64(make([]byte, 8), math.MaxUint64), make([]byte, 8)...))
	r.OK(k.launch(r.Stream(), k.check, at, report, seed), "check")
	r.Wait()
	raw := r.Read(report, reportEntry)
	return binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
}

// rounded is v in the precision of a type.
func rounded(d collective.DType, v float64) float64 {
	switch bits := floatBits(d, v); d {
	case collective.Half:
		return float64(float16.Frombits(uint16(bits)).Float32())
	case collective.BFloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case collective.Float:
		return float64(math.Float32frombits(uint32(bits)))
	}
	return v
}

// Inputs are made so that the result does not depend on the order of reduction,
// nor on how wide the accumulator is: rounding each partial result to the element's
// own type changes nothing, and the result is the true one.
func TestInputsAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, d := range []collective.DType{collective.Half, collective.BFloat16, collective.Float, collective.Double} {
		for _, op := range []collective.Op{collective.Sum, collective.Prod, collective.Min, collective.Max} {
			for ranks := 1; ranks <= collective.MaxRanks; ranks++ {
				for range 200 {
					if err := exact(d, op, ranks, rng.Uint32(), rng.Uint64(), rng); err != nil {
						t.Fatalf("%s of %s, %d ranks: %v", op, d, ranks, err)
					}
				}
			}
		}
	}
}

// exact says what is not exact about one element.
func exact(d collective.DType, op collective.Op, ranks int, seed uint32, index uint64, rng *rand.Rand) error {
	h := elementHash(seed, index)
	var in []float64
	truth := new(big.Float).SetPrec(2000)
	for r := range ranks {
		v := floatInput(d, op, ranks, r, h)
		if rounded(d, v) != v || v == 0 || math.IsInf(v, 0) || v != v {
			return fmt.Errorf("input %v of rank %d is no finite value other than 0", v, r)
		}
		in = append(in, v)
		x := new(big.Float).SetPrec(2000).SetFloat64(v)
		switch {
		case r == 0:
			truth.Set(x)
		case op == collective.Sum:
			truth.Add(truth, x)
		case op == collective.Prod:
			truth.Mul(truth, x)
		case (op == collective.Max) == (x.Cmp(truth) > 0):
			truth.Set(x)
		}
	}
	want, _ := truth.Float64()
	reduce := func(v []float64) float64 {
		acc := v[0]
		for _, x := range v[1:] {
			acc = rounded(d, reduceFloat(op, acc, x))
		}
		return acc
	}
	for range 3 {
		rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		if got := reduce(in); got != want {
			return fmt.Errorf("%v is %v in this order, truly %v", in, got, want)
		}
		// In two parts, as a tree or a switch may do it.
		if cut := 1 + rng.IntN(len(in)); cut < len(in) {
			if got := rounded(d, reduceFloat(op, reduce(in[:cut]), reduce(in[cut:]))); got != want {
				return fmt.Errorf("%v is %v in parts of %d and %d, truly %v", in, got, cut, len(in)-cut, want)
			}
		}
	}
	if got := expected(d, op, ranks, seed, index); got != floatBits(d, want) {
		return fmt.Errorf("expected is %#x, truly %#x", got, floatBits(d, want))
	}
	return nil
}

// Inputs differ among ranks, elements, seeds, and 2^32 elements further on.
func TestInputsDiffer(t *testing.T) {
	const d, op, ranks = collective.Uint64, collective.Sum, 8
	seen := map[uint64]string{}
	for _, seed := range []uint32{0, 1, 2} {
		for _, index := range []uint64{0, 1, 2, 1 << 32, 1<<32 + 1, 1<<33 + 2, 1 << 40} {
			for rank := range ranks {
				name := fmt.Sprintf("seed %d, rank %d, element %d", seed, rank, index)
				bits := inputBits(d, op, ranks, rank, seed, index)
				if other, twice := seen[bits]; twice {
					t.Errorf("%s and %s have the same input %#x", name, other, bits)
				}
				seen[bits] = name
			}
		}
	}
}

// A rank's contribution is never the identity: leaving one out is seen.
func TestEveryRankCounts(t *testing.T) {
	for _, d := range collective.DTypes() {
		for _, op := range []collective.Op{collective.Sum, collective.Prod} {
			unseen := 0
			for index := range uint64(1000) {
				h := elementHash(5, index)
				if d.IsFloat() {
					if v := floatInput(d, op, 4, 2, h); op == collective.Sum && v == 0 || op == collective.Prod && v == 1 {
						unseen++
					}
				} else if v := inputBits(d, op, 4, 2, 5, index); op == collective.Sum && v == 0 || op == collective.Prod && v == 1 {
					unseen++
				}
			}
			if unseen > 20 { // 1 of 256 for bytes, 1 of 128 for odd ones
				t.Errorf("%s of %s: a rank's absence would not be seen in %d of 1000 elements", op, d, unseen)
			}
		}
	}
}

func TestElementText(t *testing.T) {
	for _, c := range []struct {
		d           collective.DType
		bits        uint64
		text, value string
	}{
		{collective.Float, 0x3f800000, "0x3f800000", "1"}, {collective.Half, 0xbc00, "0xbc00", "-1"}, {collective.BFloat16, 0x3fc0, "0x3fc0", "1.5"},
		{collective.Double, 0x7ff8000000000001, "0x7ff8000000000001", "NaN"}, {collective.Int8, 0xff, "0xff", "-1"}, {collective.Uint8, 0xff, "0xff", "255"},
		{collective.Int32, 0x80000000, "0x80000000", "-2147483648"}, {collective.Uint64, math.MaxUint64, "0xffffffffffffffff", "18446744073709551615"},
	} {
		if e := element(c.d, c.bits); e.Bits != c.text || e.Value != c.value {
			t.Errorf("%s %#x: %+v", c.d, c.bits, e)
		}
	}
}

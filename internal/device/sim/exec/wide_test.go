package exec

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"
)

type integer interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64
}

// view reads memory as elements of T.
func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), uintptr(len(b))/unsafe.Sizeof(*new(T)))
}

// bothTargets runs a test on the PTX for sm_80 and for sm_90.
func bothTargets(t *testing.T, name string, f func(t *testing.T, k *Kernel, m *machine)) {
	for _, target := range []string{"sm80", "sm90"} {
		t.Run(name+"/"+target, func(t *testing.T) {
			f(t, fromFile(t, "testdata/wide_"+target+".ptx", name), newMachine(t))
		})
	}
}

const (
	wideThreads = 256
	wideInput   = PageSize / 2 // offset of the inputs
)

func testIntegers[T integer](t *testing.T, name string) {
	bothTargets(t, name, func(t *testing.T, k *Kernel, m *machine) {
		in := view[T](m.mem[wideInput:])[:2*wideThreads]
		rng := rand.New(rand.NewPCG(1, 2))
		special := []uint64{0, 1, 2, 1<<64 - 1, 1 << 63, 1 << 31, 1 << 15, 1 << 7, 7, 100}
		for i := range in {
			in[i] = T(rng.Uint64() >> rng.IntN(64))
			if rng.IntN(3) == 0 {
				in[i] = T(special[rng.IntN(len(special))])
			}
		}
		if err := m.launch(k, 2, wideThreads/2, base, base+wideInput); err != nil {
			t.Fatal(err)
		}
		out := view[T](m.mem)
		for i := range wideThreads {
			a, b := in[2*i], in[2*i+1]
			var quo, rem, same T
			if b != 0 {
				quo, rem = a/b, a%b
			}
			if a == b {
				same = 1
			}
			sh := uint(b & 7)
			want := [16]T{a + b, a - b, a * b, quo, rem, min(a, b), max(a, b), a & b, a | b, a ^ b, ^a,
				a << sh, a >> sh, -a, same, a*3 + b*5 + 7}
			if got := [16]T(out[16*i:]); got != want {
				t.Fatalf("%s of %v, %v:\n got %v\nwant %v", name, a, b, got, want)
			}
		}
	})
}

// TestClangIntegers runs what clang makes of integer C++ of every width.
func TestClangIntegers(t *testing.T) {
	testIntegers[int8](t, "int_i8")
	testIntegers[uint8](t, "int_u8")
	testIntegers[int16](t, "int_i16")
	testIntegers[uint16](t, "int_u16")
	testIntegers[int32](t, "int_i32")
	testIntegers[uint32](t, "int_u32")
	testIntegers[int64](t, "int_i64")
	testIntegers[uint64](t, "int_u64")
}

// testFloats takes the conversions of the element type; compute is the wider
// type in which Go does the arithmetic before rounding to T.
func testFloats[T comparable](t *testing.T, name string, get func(T) float64, round func(float64) T, op func(x, y float64, op byte) float64) {
	bothTargets(t, name, func(t *testing.T, k *Kernel, m *machine) {
		in := view[T](m.mem[wideInput:])[:2*wideThreads]
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range in {
			in[i] = round((rng.Float64() - 0.5) * 400)
			if i&1 == 1 && get(in[i]) == 0 {
				in[i] = round(3)
			}
		}
		if err := m.launch(k, 2, wideThreads/2, base, base+wideInput); err != nil {
			t.Fatal(err)
		}
		out := view[T](m.mem)
		for i := range wideThreads {
			a, b := get(in[2*i]), get(in[2*i+1])
			abs := a
			if a < 0 {
				abs = -a
			}
			want := [12]T{round(op(a, b, '+')), round(op(a, b, '-')), round(op(a, b, '*')), round(op(a, b, '/')),
				round(min(a, b)), round(max(a, b)), round(-a), round(float64(int(a))), round(float64(uint64(abs))), round(float64(i)),
				round(float64(float32(a))), round(b)}
			// min and max of C++ choose an operand: zeros do not occur.
			if got := [12]T(out[12*i:]); got != want {
				t.Fatalf("%s of %v, %v:\n got %v\nwant %v", name, a, b, got, want)
			}
		}
	})
}

func arithmetic64(x, y float64, op byte) float64 {
	switch op {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	}
	return x / y
}

func arithmetic32(x, y float64, op byte) float64 {
	a, b := float32(x), float32(y)
	switch op {
	case '+':
		return float64(a + b)
	case '-':
		return float64(a - b)
	case '*':
		return float64(a * b)
	}
	return float64(a / b)
}

// TestClangFloats runs what clang makes of floating-point C++.
func TestClangFloats(t *testing.T) {
	testFloats(t, "float_f64", func(x float64) float64 { return x }, func(x float64) float64 { return x }, arithmetic64)
	testFloats(t, "float_f32", func(x float32) float64 { return float64(x) }, func(x float64) float32 { return float32(x) }, arithmetic32)
	testFloats(t, "float_f16", func(x uint16) float64 { return float64(f16to32(x)) },
		func(x float64) uint16 { return f32to16(float32(x)) }, arithmetic32)
	testFloats(t, "float_bf16", func(x uint16) float64 { return float64(bf16to32(x)) },
		func(x float64) uint16 { return f32toBF16(float32(x)) }, arithmetic32)
}

// TestClangControl runs loops, a switch, shared and local arrays.
func TestClangControl(t *testing.T) {
	bothTargets(t, "control", func(t *testing.T, k *Kernel, m *machine) {
		const n = 256
		in := view[uint32](m.mem[wideInput:])[:n]
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range in {
			in[i] = rng.Uint32()
		}
		if err := m.launch(k, 1, n, base, base+wideInput, n); err != nil {
			t.Fatal(err)
		}
		acc, box := make([]uint64, n), make([]uint32, n)
		for i, v := range in {
			a := uint64(v)
			for j := range v & 31 {
				switch v >> j & 7 {
				case 0:
					a++
				case 1:
					a ^= a << 7
				case 2:
					a = a*6364136223846793005 + 1442695040888963407
				case 3:
					a, _ = bits.Mul64(a, 0x9e3779b97f4a7c15)
				case 4:
					a = a>>3 | a<<61
				case 5:
					a = uint64(bits.OnesCount64(a))
				case 6:
					a = uint64(bits.LeadingZeros64(a))
				default:
					a %= 1000003
				}
			}
			var local [8]uint32
			for j := range uint32(8) {
				local[(j+v)&7] = uint32(a >> (4 * j))
			}
			a += uint64(local[v&7] + local[v>>3&7])
			acc[i], box[i] = a, uint32(a)
		}
		for i := range in {
			want := acc[i] ^ uint64(box[(i*7+3)%n])<<32
			if want&1 == 1 && i > 100 {
				want = 0
			}
			if got := m.u64(i); got != want {
				t.Fatalf("thread %d of input %#x: %#x instead of %#x", i, in[i], got, want)
			}
		}
	})
}

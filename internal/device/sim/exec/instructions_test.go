package exec

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

var registerName = regexp.MustCompile(`%(rs|rd|r|fd|f|p)[0-9]+`)

// suffix is the type by which a class of registers is loaded and stored.
var suffix = map[string]string{"rs": "b16", "r": "b32", "rd": "b64", "f": "b32", "fd": "b64"}

// evaluate runs one instruction (or several, with semicolons) in one thread. The
// first register named is the result; the others get the inputs in the order
// in which they are named.
func evaluate(m *machine, text string, in ...uint64) uint64 {
	m.t.Helper()
	names := registerName.FindAllString(text, -1)
	classOf := func(n string) string { return strings.TrimRight(n[1:], "0123456789") }
	var b strings.Builder
	seen := map[string]bool{names[0]: true}
	for _, n := range names[1:] {
		if seen[n] || len(in) == 0 {
			continue
		}
		seen[n] = true
		at := 8 * len(seen)
		if c := classOf(n); c == "p" {
			fmt.Fprintf(&b, "ld.param.u64 %%rd31, [p+%d]; setp.ne.s64 %s, %%rd31, 0;\n", at-8, n)
		} else {
			fmt.Fprintf(&b, "ld.param.%s %s, [p+%d];\n", suffix[c], n, at-8)
		}
	}
	if want := len(seen) - 1; want != len(in) {
		m.t.Fatalf("%s: %d inputs instead of %d", text, len(in), want)
	}
	b.WriteString(text + ";\n")
	if c := classOf(names[0]); c == "p" {
		fmt.Fprintf(&b, "selp.b32 %%r31, 1, 0, %s; st.global.b32 [%%rd0], %%r31;", names[0])
	} else {
		fmt.Fprintf(&b, "st.global.%s [%%rd0], %s;", suffix[c], names[0])
	}
	clear(m.mem[:16])
	m.body(b.String(), 1, 1, in...)
	return m.u64(0)
}

func fbits(f float32) uint64 { return uint64(math.Float32bits(f)) }
func dbits(f float64) uint64 { return math.Float64bits(f) }
func neg32(v int32) uint64   { return uint64(uint32(v)) }
func neg64(v int64) uint64   { return uint64(v) }
func neg16(v int16) uint64   { return uint64(uint16(v)) }

const (
	inf32 = 0x7f800000
	qnan  = 0x7fc00001
)

func TestInstructions(t *testing.T) {
	type row struct {
		text string
		in   []uint64
		want uint64
	}
	in := func(v ...uint64) []uint64 { return v }
	rows := []row{
		// integer addition and subtraction
		{"add.s32 %r0, %r1, %r2", in(0xffffffff, 2), 1},
		{"add.u16 %rs0, %rs1, %rs2", in(0xffff, 2), 1},
		{"add.s64 %rd1, %rd2, %rd3", in(math.MaxUint64, 2), 1},
		{"add.s32 %r0, %r1, -3", in(1), neg32(-2)},
		{"add.sat.s32 %r0, %r1, %r2", in(0x7fffffff, 1), 0x7fffffff},
		{"sub.sat.s32 %r0, %r1, %r2", in(0x80000000, 1), 0x80000000},
		{"sub.s32 %r0, %r1, %r2", in(1, 2), 0xffffffff},
		{"sub.s64 %rd1, %rd2, 5", in(3), neg64(-2)},
		{"sub.s16 %rs0, %rs1, %rs2", in(1, 2), 0xffff},
		// products
		{"mul.lo.s32 %r0, %r1, %r2", in(0x10001, 0x10001), 0x20001},
		{"mul.hi.u32 %r0, %r1, %r2", in(0xffffffff, 0xffffffff), 0xfffffffe},
		{"mul.hi.s32 %r0, %r1, %r2", in(0xffffffff, 0xffffffff), 0},
		{"mul.hi.s32 %r0, %r1, %r2", in(0x80000000, 2), 0xffffffff},
		{"mul.hi.u64 %rd1, %rd2, %rd3", in(math.MaxUint64, math.MaxUint64), math.MaxUint64 - 1},
		{"mul.hi.s64 %rd1, %rd2, %rd3", in(math.MaxUint64, 5), math.MaxUint64},
		{"mul.hi.u16 %rs0, %rs1, 9363", in(700), 700 * 9363 >> 16},
		{"mul.wide.u32 %rd1, %r1, %r2", in(0xffffffff, 0xffffffff), 0xfffffffe00000001},
		{"mul.wide.s32 %rd1, %r1, -2", in(3), neg64(-6)},
		{"mul.wide.s16 %r0, %rs1, %rs2", in(0xffff, 3), neg32(-3)},
		{"mul.wide.u16 %r0, %rs1, %rs2", in(0xffff, 0xffff), 0xfffe0001},
		{"mul.lo.s64 %rd1, %rd2, -49064778989728563", in(1), 0xff51afd7ed558ccd},
		{"mad.lo.s32 %r0, %r1, %r2, %r3", in(3, 5, 0xffffffff), 14},
		{"mad.hi.u32 %r0, %r1, %r2, %r3", in(0x80000000, 4, 1), 3},
		{"mad.wide.s32 %rd1, %r1, %r2, %rd2", in(neg32(-3), 5, 20), 5},
		{"mad.wide.u32 %rd1, %r1, 8, %rd2", in(3, 100), 124},
		{"sad.s32 %r0, %r1, %r2, %r3", in(neg32(-3), 4, 1), 8},
		// division
		{"div.u32 %r0, %r1, %r2", in(7, 2), 3},
		{"div.s32 %r0, %r1, %r2", in(neg32(-7), 2), neg32(-3)},
		{"div.s32 %r0, %r1, %r2", in(0x80000000, 0xffffffff), 0x80000000},
		{"div.u32 %r0, %r1, %r2", in(7, 0), 0xffffffff},
		{"div.s64 %rd1, %rd2, %rd3", in(1<<63, math.MaxUint64), 1 << 63},
		{"div.s16 %rs0, %rs1, %rs2", in(neg16(-9), 2), neg16(-4)},
		{"rem.s32 %r0, %r1, %r2", in(neg32(-7), 3), neg32(-1)},
		{"rem.u32 %r0, %r1, %r2", in(7, 0), 7},
		{"rem.u64 %rd1, %rd2, 10", in(12345), 5},
		// min, max, abs, neg
		{"min.s32 %r0, %r1, %r2", in(neg32(-1), 1), neg32(-1)},
		{"min.u32 %r0, %r1, %r2", in(neg32(-1), 1), 1},
		{"max.s64 %rd1, %rd2, %rd3", in(neg64(-1), 1), 1},
		{"max.u64 %rd1, %rd2, %rd3", in(neg64(-1), 1), math.MaxUint64},
		{"min.s16 %rs0, %rs1, %rs2", in(neg16(-1), 1), neg16(-1)},
		{"max.u16 %rs0, %rs1, %rs2", in(neg16(-1), 1), 0xffff},
		{"abs.s32 %r0, %r1", in(neg32(-5)), 5},
		{"abs.s32 %r0, %r1", in(0x80000000), 0x80000000},
		{"neg.s64 %rd1, %rd2", in(1), math.MaxUint64},
		{"neg.s16 %rs0, %rs1", in(1), 0xffff},
		// bits
		{"and.b32 %r0, %r1, 255", in(0x1234), 0x34},
		{"or.b64 %rd1, %rd2, %rd3", in(1<<63, 1), 1<<63 | 1},
		{"xor.b16 %rs0, %rs1, -1", in(0x00ff), 0xff00},
		{"not.b32 %r0, %r1", in(0), 0xffffffff},
		{"cnot.b32 %r0, %r1", in(0), 1},
		{"lop3.b32 %r0, %r1, %r2, %r3, 0x96", in(0xf0, 0xcc, 0xaa), 0xf0 ^ 0xcc ^ 0xaa},
		{"lop3.b32 %r0, %r1, %r2, %r3, 0xca", in(0xf0, 0xcc, 0xaa), 0xf0&0xcc | 0x0f&0xaa},
		{"shl.b32 %r0, %r1, %r2", in(1, 31), 1 << 31},
		{"shl.b32 %r0, %r1, %r2", in(1, 32), 0},
		{"shl.b32 %r0, %r1, %r2", in(1, 0xffffffff), 0},
		{"shl.b64 %rd1, %rd2, %r1", in(1, 63), 1 << 63},
		{"shl.b64 %rd1, %rd2, %r1", in(1, 64), 0},
		{"shl.b16 %rs0, %rs1, 15", in(3), 0x8000},
		{"shr.u32 %r0, %r1, %r2", in(0x80000000, 40), 0},
		{"shr.s32 %r0, %r1, %r2", in(0x80000000, 40), 0xffffffff},
		{"shr.s32 %r0, %r1, 4", in(0x80000000), 0xf8000000},
		{"shr.s64 %rd1, %rd2, %r1", in(1<<63, 100), math.MaxUint64},
		{"shr.s16 %rs0, %rs1, 3", in(0x8000), 0xf000},
		{"shf.l.wrap.b32 %r0, %r1, %r2, %r3", in(0x80000001, 2, 33), 5},
		{"shf.l.clamp.b32 %r0, %r1, %r2, %r3", in(0x80000001, 2, 33), 0x80000001},
		{"shf.r.wrap.b32 %r0, %r1, %r2, %r3", in(0x80000000, 1, 4), 0x18000000},
		{"shf.r.clamp.b32 %r0, %r1, %r2, %r3", in(7, 9, 50), 9},
		{"bfe.u32 %r0, %r1, 4, 8", in(0xabcd), 0xbc},
		{"bfe.s32 %r0, %r1, 4, 8", in(0xabcd), neg32(-0x44)},
		{"bfe.s32 %r0, %r1, 28, 8", in(0x80000000), neg32(-8)},
		{"bfe.u32 %r0, %r1, 28, 0", in(0x80000000), 0},
		{"bfe.s32 %r0, %r1, 40, 4", in(0x80000000), 0xffffffff},
		{"bfe.u64 %rd1, %rd2, 32, 64", in(0xabcd << 32), 0xabcd},
		{"bfi.b32 %r0, %r1, %r2, 8, 4", in(0x15, 0xffffffff), 0xfffff5ff},
		{"bfi.b32 %r0, %r1, %r2, 28, 8", in(0xff, 0), 0xf0000000},
		{"bfi.b64 %rd1, %rd2, %rd3, 32, 32", in(1, 2), 1<<32 | 2},
		{"prmt.b32 %r0, %r1, %r2, 0x5410", in(0x33221100, 0x77665544), 0x55441100},
		{"prmt.b32 %r0, %r1, %r2, 0xb7e0", in(0x80221100, 0x77f65544), 0xff77ff00},
		{"popc.b32 %r0, %r1", in(0xf0f0), 8},
		{"popc.b64 %r0, %rd1", in(math.MaxUint64), 64},
		{"clz.b32 %r0, %r1", in(1), 31},
		{"clz.b32 %r0, %r1", in(0), 32},
		{"clz.b64 %r0, %rd1", in(0), 64},
		{"brev.b32 %r0, %r1", in(1), 0x80000000},
		{"brev.b64 %rd1, %rd2", in(2), 1 << 62},
		{"bfind.u32 %r0, %r1", in(0x100), 8},
		{"bfind.s32 %r0, %r1", in(0xffffffff), 0xffffffff},
		{"bfind.shiftamt.u32 %r0, %r1", in(0x100), 23},
		// float
		{"add.f32 %f0, %f1, %f2", in(fbits(1.5), fbits(2)), fbits(3.5)},
		{"add.rn.f32 %f0, %f1, %f2", in(fbits(16777216), fbits(1)), fbits(16777216)},
		{"add.f32 %f0, %f1, %f2", in(inf32, inf32|1<<31), nan32},
		{"add.sat.f32 %f0, %f1, %f2", in(fbits(1), fbits(2)), fbits(1)},
		{"sub.f32 %f0, %f1, 0f3F800000", in(fbits(1)), 0},
		{"mul.f32 %f0, %f1, %f2", in(1<<31, fbits(3)), 1 << 31},
		{"mul.f32 %f0, %f1, %f2", in(1, fbits(0.5)), 0}, // smallest subnormal, tie to even
		{"mul.f32 %f0, %f1, %f2", in(3, fbits(0.5)), 2},
		{"fma.rn.f32 %f0, %f1, %f2, %f3", in(fbits(1+0x1p-12), fbits(1+0x1p-12), fbits(-1)), fbits(0x1p-11 + 0x1p-24)},
		{"fma.rn.f64 %fd0, %fd1, %fd2, %fd3", in(dbits(1+0x1p-30), dbits(1+0x1p-30), dbits(-1)), dbits(0x1p-29 + 0x1p-60)},
		{"div.rn.f32 %f0, %f1, %f2", in(fbits(1), fbits(3)), fbits(1.0 / 3)},
		{"div.rn.f64 %fd0, %fd1, %fd2", in(dbits(1), dbits(0)), dbits(math.Inf(1))},
		{"rcp.rn.f32 %f0, %f1", in(fbits(4)), fbits(0.25)},
		{"sqrt.rn.f32 %f0, %f1", in(fbits(2)), fbits(float32(math.Sqrt2))},
		{"sqrt.rn.f32 %f0, %f1", in(fbits(-2)), nan32},
		{"neg.f32 %f0, %f1", in(0), 0x80000000},
		{"abs.f64 %fd0, %fd1", in(dbits(-2)), dbits(2)},
		{"min.f32 %f0, %f1, %f2", in(qnan, fbits(3)), fbits(3)},
		{"max.f32 %f0, %f1, %f2", in(fbits(3), qnan), fbits(3)},
		{"min.f32 %f0, %f1, %f2", in(qnan, qnan), nan32},
		{"min.NaN.f32 %f0, %f1, %f2", in(qnan, fbits(3)), nan32},
		{"min.f32 %f0, %f1, %f2", in(0, 0x80000000), 0x80000000},
		{"max.f32 %f0, %f1, %f2", in(0x80000000, 0), 0},
		{"max.f64 %fd0, %fd1, %fd2", in(dbits(-1), dbits(2)), dbits(2)},
		{"copysign.f32 %f0, %f1, %f2", in(fbits(-1), fbits(2)), fbits(-2)},
		{"testp.infinite.f32 %p0, %f1", in(inf32), 1},
		{"testp.subnormal.f32 %p0, %f1", in(1), 1},
		{"testp.number.f32 %p0, %f1", in(qnan), 0},
		// halves
		{"add.f16 %rs0, %rs1, %rs2", in(0x3c00, 0x4000), 0x4200},
		{"add.f16 %rs0, %rs1, %rs2", in(0x6800, 0x3c00), 0x6800}, // 2048 + 1: tie to even
		{"add.f16 %rs0, %rs1, %rs2", in(0x6801, 0x3c00), 0x6802}, // 2050 + 1
		{"add.f16 %rs0, %rs1, %rs2", in(0x7bff, 0x7bff), 0x7c00},
		{"mul.f16 %rs0, %rs1, %rs2", in(0x0001, 0x3800), 0},                       // 2^-24 / 2
		{"fma.rn.f16 %rs0, %rs1, %rs2, %rs3", in(0x3c03, 0x3c03, 0xbc00), 0x1e02}, // 6*2^-10 + 9*2^-20: unfused gives 0x1e00
		{"sub.f16x2 %r0, %r1, %r2", in(0x3c004000, 0x3c003c00), 0x00003c00},
		{"max.f16x2 %r0, %r1, %r2", in(0x3c00fc00, 0x7e003c00), 0x3c003c00},
		{"min.NaN.f16 %rs0, %rs1, %rs2", in(0x7e00, 0x3c00), 0x7fff},
		{"neg.f16x2 %r0, %r1", in(0x3c00bc00), 0xbc003c00},
		{"add.rn.bf16 %rs0, %rs1, %rs2", in(0x3f80, 0x3f80), 0x4000},
		{"fma.rn.bf16x2 %r0, %r1, %r2, %r3", in(0x3f803f80, 0x40004000, 0x3f80bf80), 0x40403f80},
		{"mul.bf16 %rs0, %rs1, %rs2", in(0x0001, 0x3f00), 0},
		// comparison
		{"setp.lt.s32 %p0, %r1, %r2", in(neg32(-1), 0), 1},
		{"setp.lt.u32 %p0, %r1, %r2", in(neg32(-1), 0), 0},
		{"setp.hi.u32 %p0, %r1, %r2", in(neg32(-1), 0), 1},
		{"setp.ge.s64 %p0, %rd2, %rd3", in(neg64(-1), 0), 0},
		{"setp.gt.s16 %p0, %rs1, -2", in(neg16(-1)), 1},
		{"setp.le.u16 %p0, %rs1, %rs2", in(5, 5), 1},
		{"setp.eq.b64 %p0, %rd2, 7", in(7), 1},
		{"setp.ne.f32 %p0, %f1, %f2", in(qnan, qnan), 0},
		{"setp.neu.f32 %p0, %f1, %f2", in(qnan, qnan), 1},
		{"setp.ltu.f32 %p0, %f1, %f2", in(qnan, fbits(1)), 1},
		{"setp.lt.f32 %p0, %f1, %f2", in(qnan, fbits(1)), 0},
		{"setp.nan.f32 %p0, %f1, %f2", in(qnan, fbits(1)), 1},
		{"setp.num.f64 %p0, %fd1, %fd2", in(dbits(1), dbits(1)), 1},
		{"setp.eq.f32 %p0, %f1, %f2", in(0x80000000, 0), 1},
		{"setp.gt.f16 %p0, %rs1, %rs2", in(0x3c00, 0xbc00), 1},
		{"setp.eq.and.s32 %p0, %r1, %r2, %p1", in(1, 1, 0), 0},
		{"setp.eq.and.s32 %p0, %r1, %r2, !%p1", in(1, 1, 0), 1},
		{"setp.eq.or.u32 %p0, %r1, %r2, %p1", in(1, 2, 1), 1},
		{"setp.lt.xor.s32 %p0, %r1, %r2, %p1", in(1, 2, 1), 0},
		{"set.lt.u32.s32 %r0, %r1, %r2", in(neg32(-1), 0), 0xffffffff},
		{"set.eq.f32.u32 %r0, %r1, %r2", in(1, 1), fbits(1)},
		{"selp.b64 %rd1, %rd2, %rd3, %p1", in(5, 6, 0), 6},
		{"selp.u32 %r0, 1, 0, %p1", in(1), 1},
		{"slct.b32.s32 %r0, %r1, %r2, %r3", in(5, 6, neg32(-1)), 6},
		{"slct.b32.f32 %r0, %r1, %r2, %f3", in(5, 6, 0x80000000), 5},
		{"and.pred %p0, %p1, %p2", in(1, 1), 1},
		{"or.pred %p0, %p1, %p2", in(0, 0), 0},
		{"xor.pred %p0, %p1, %p2", in(1, 1), 0},
		{"not.pred %p0, %p1", in(0), 1},
		{"mov.pred %p0, -1", nil, 1},
		{"mov.pred %p0, %p1", in(1), 1},
		// mov
		{"mov.b32 %r0, 0f3F800000", nil, fbits(1)},
		{"mov.f64 %fd0, 0d3FF0000000000000", nil, dbits(1)},
		{"mov.b64 %rd1, {%r1, %r2}", in(1, 2), 2<<32 | 1},
		{"mov.b32 %r0, {%rs1, %rs2}", in(1, 2), 2<<16 | 1},
		{"mov.u32 %r0, %ntid.x", nil, 1},
		{"mov.u32 %r0, %laneid", nil, 0},
		{"mov.u32 %r0, WARP_SZ", nil, 32},
		// conversions between integers
		{"cvt.u64.u32 %rd1, %r1", in(0xffffffff), 0xffffffff},
		{"cvt.s64.s32 %rd1, %r1", in(0xffffffff), math.MaxUint64},
		{"cvt.u64.s32 %rd1, %r1", in(0xffffffff), math.MaxUint64},
		{"cvt.u32.u64 %r0, %rd2", in(0x1234567890), 0x34567890},
		{"cvt.u16.u32 %rs0, %r1", in(0x12345), 0x2345},
		{"cvt.s8.s32 %r0, %r1", in(0x1ff), 0xffffffff},
		{"cvt.u8.u32 %r0, %r1", in(0x1ff), 0xff},
		{"cvt.s16.s8 %rs0, %rs1", in(0x80), 0xff80},
		{"cvt.s32.s8 %r0, %r1", in(0xff80), 0xffffff80},
		{"cvt.u32.u8 %r0, %r1", in(0xff80), 0x80},
		{"cvt.s8.s64 %rs0, %rd2", in(0xff), 0xffff},
		{"cvt.s64.s16 %rd1, %rs1", in(0x8000), 0xffffffffffff8000},
		{"cvt.sat.u8.s32 %r0, %r1", in(neg32(-5)), 0},
		{"cvt.sat.s8.s32 %r0, %r1", in(1000), 127},
		{"cvt.sat.s8.s32 %r0, %r1", in(neg32(-1000)), 0xffffff80},
		{"cvt.sat.u32.s64 %r0, %rd2", in(1 << 40), 0xffffffff},
		{"cvt.sat.s32.u32 %r0, %r1", in(0xffffffff), 0x7fffffff},
		// integer to float
		{"cvt.rn.f32.s32 %f0, %r1", in(neg32(-16777217)), fbits(-16777216)},
		{"cvt.rz.f32.u32 %f0, %r1", in(0xffffffff), fbits(4294967040)},
		{"cvt.rp.f32.u32 %f0, %r1", in(16777217), fbits(16777218)},
		{"cvt.rm.f32.s32 %f0, %r1", in(neg32(-16777217)), fbits(-16777218)},
		{"cvt.rn.f32.u64 %f0, %rd2", in(math.MaxUint64), fbits(0x1p64)},
		{"cvt.rn.f32.s64 %f0, %rd2", in(0x8000008000000001), fbits(float32(-0x7fffff7fffffffff))},
		{"cvt.rn.f64.u64 %fd0, %rd2", in(math.MaxUint64), dbits(0x1p64)},
		{"cvt.rn.f64.s32 %fd0, %r1", in(neg32(-7)), dbits(-7)},
		{"cvt.rn.f16.s32 %rs0, %r1", in(2049), 0x6800},
		{"cvt.rn.f16.u32 %rs0, %r1", in(70000), 0x7c00},
		{"cvt.rz.f16.u32 %rs0, %r1", in(70000), 0x7bff},
		{"cvt.rn.f16.u16 %rs0, %rs1", in(1), 0x3c00},
		{"cvt.rn.bf16.s32 %rs0, %r1", in(257), 0x4380},
		{"cvt.rn.f32.s8 %f0, %r1", in(0xff), fbits(-1)},
		// float to integer
		{"cvt.rzi.s32.f32 %r0, %f1", in(fbits(-1.9)), neg32(-1)},
		{"cvt.rni.s32.f32 %r0, %f1", in(fbits(2.5)), 2},
		{"cvt.rmi.s32.f32 %r0, %f1", in(fbits(-1.1)), neg32(-2)},
		{"cvt.rpi.s32.f32 %r0, %f1", in(fbits(1.1)), 2},
		{"cvt.rzi.s32.f32 %r0, %f1", in(fbits(1e20)), 0x7fffffff},
		{"cvt.rzi.s32.f32 %r0, %f1", in(fbits(-1e20)), 0x80000000},
		{"cvt.rzi.u32.f32 %r0, %f1", in(fbits(-1)), 0},
		{"cvt.rzi.u64.f32 %rd1, %f1", in(fbits(0x1p64)), math.MaxUint64},
		{"cvt.rzi.u64.f64 %rd1, %fd1", in(dbits(0x1p63)), 1 << 63},
		{"cvt.rzi.s64.f64 %rd1, %fd1", in(dbits(-0x1p63)), 1 << 63},
		{"cvt.rzi.u32.f32 %r0, %f1", in(qnan), 0},
		{"cvt.rzi.u16.f32 %rs0, %f1", in(fbits(70000)), 0xffff},
		{"cvt.rzi.s8.f32 %r0, %f1", in(fbits(-300)), 0xffffff80},
		{"cvt.rzi.s32.f16 %r0, %rs1", in(0xc500), neg32(-5)},
		// float to float
		{"cvt.f32.f16 %f0, %rs1", in(0x0001), fbits(0x1p-24)},
		{"cvt.f32.f16 %f0, %rs1", in(0xfc00), inf32 | 1<<31},
		{"cvt.f32.bf16 %f0, %rs1", in(0x3f81), 0x3f810000},
		{"cvt.f64.f32 %fd0, %f1", in(fbits(1.5)), dbits(1.5)},
		{"cvt.rn.f32.f64 %f0, %fd1", in(dbits(1 + 0x1p-24)), fbits(1)},
		{"cvt.rp.f32.f64 %f0, %fd1", in(dbits(1 + 0x1p-24)), fbits(1 + 0x1p-23)},
		{"cvt.rz.f32.f64 %f0, %fd1", in(dbits(1e300)), 0x7f7fffff},
		{"cvt.rn.f16.f32 %rs0, %f1", in(fbits(65519)), 0x7bff},
		{"cvt.rn.f16.f32 %rs0, %f1", in(fbits(65520)), 0x7c00},
		{"cvt.rn.f16.f32 %rs0, %f1", in(fbits(0x1p-25)), 0},
		{"cvt.rn.f16.f32 %rs0, %f1", in(fbits(0x1.8p-25)), 1},
		{"cvt.rn.f16.f32 %rs0, %f1", in(qnan), 0x7fff},
		{"cvt.rz.f16.f32 %rs0, %f1", in(fbits(-70000)), 0xfbff},
		{"cvt.rn.f16.f64 %rs0, %fd1", in(dbits(1 + 0x1p-11 + 0x1p-40)), 0x3c01},
		{"cvt.rn.bf16.f32 %rs0, %f1", in(0x3f808000), 0x3f80},
		{"cvt.rn.bf16.f32 %rs0, %f1", in(0x3f818000), 0x3f82},
		{"cvt.rn.bf16.f32 %rs0, %f1", in(0x7f7fffff), 0x7f80},
		{"cvt.rz.bf16.f32 %rs0, %f1", in(0x7f7fffff), 0x7f7f},
		{"cvt.rn.f16x2.f32 %r0, %f1, %f2", in(fbits(1), fbits(2)), 0x3c004000},
		{"cvt.rn.bf16x2.f32 %r0, %f1, %f2", in(fbits(1), fbits(2)), 0x3f804000},
		{"cvt.rz.bf16x2.f32 %r0, %f1, %f2", in(0x3f80ffff, 0x4000ffff), 0x3f804000},
		{"cvt.rni.f32.f32 %f0, %f1", in(fbits(-2.5)), fbits(-2)},
		{"cvt.rzi.f64.f64 %fd0, %fd1", in(dbits(-2.5)), dbits(-2)},
		{"cvt.sat.f32.f32 %f0, %f1", in(fbits(-1)), 0},
		{"cvt.rn.sat.f16.f32 %rs0, %f1", in(fbits(2)), 0x3c00},
	}
	m := newMachine(t)
	for _, r := range rows {
		if got := evaluate(m, r.text, r.in...); got != r.want {
			t.Errorf("%s (%#x) = %#x, want %#x", r.text, r.in, got, r.want)
		}
	}
}

// TestTwoResults tests the instructions with more than one destination.
func TestTwoResults(t *testing.T) {
	m := newMachine(t)
	m.body(lines(
		"ld.param.u64 %rd1, [p+8];",
		"mov.b64 {%r1, %r2}, %rd1;",
		"st.global.v2.u32 [%rd0], {%r1, %r2};",
		"mov.b32 {%rs1, %rs2}, %r1;",
		"st.global.v2.u16 [%rd0+8], {%rs2, %rs1};",
		"mov.b32 {_, %rs3}, %r2;",
		"st.global.u16 [%rd0+12], %rs3;",
		"setp.lt.s32 %p1|%p2, %r1, 0;",
		"selp.u32 %r3, 1, 0, %p1;",
		"selp.u32 %r4, 1, 0, %p2;",
		"st.global.v2.u32 [%rd0+16], {%r3, %r4};",
		"setp.lt.and.s32 %p1|%p2, %r1, 0, !%p2;",
		"selp.u32 %r3, 1, 0, %p1;",
		"selp.u32 %r4, 1, 0, %p2;",
		"st.global.v2.u32 [%rd0+24], {%r3, %r4};",
		"mov.b64 {%rs4, %rs5, %rs6, %rs7}, %rd1;",
		"mov.b64 %rd2, {%rs7, %rs6, %rs5, %rs4};",
		"st.global.u64 [%rd0+32], %rd2;",
	), 1, 1, 0x1122334485667788)
	want := []uint32{0x85667788, 0x11223344, 0x77888566, 0x1122, 1, 0, 1, 0, 0x33441122, 0x77888566}
	for i, w := range want {
		if g := m.u32(i); g != w {
			t.Errorf("word %d is %#x, want %#x", i, g, w)
		}
	}
}

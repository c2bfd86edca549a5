package exec

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// reduceCase is one form of multimem.ld_reduce with what three devices hold in
// each element and what must come out.
type reduceCase struct {
	form  string // op, accumulator, vector and type
	class string // registers: rs, r, rd, f, fd
	n     int    // registers
	bits  int    // of one register
	in    [3]uint64
	want  uint64
}

func reduceCases() []reduceCase {
	u := func(a, b, c uint64) [3]uint64 { return [3]uint64{a, b, c} }
	both := func(h uint64) uint64 { return h<<16 | h }
	one, big := uint64(0x3c00), uint64(0x6800)   // 1 and 2048 in f16
	bone, bbig := uint64(0x3f80), uint64(0x4380) // 1 and 256 in bf16
	return []reduceCase{
		{"add.u32", "r", 1, 32, u(1, 2, 0xffffffff), 2},
		{"add.s32", "r", 1, 32, u(1, 2, 0xfffffff0), 0xfffffff3},
		{"add.u64", "rd", 1, 64, u(1, 2, math.MaxUint64), 2},
		{"min.u32", "r", 1, 32, u(5, 0xffffffff, 7), 5},
		{"min.s32", "r", 1, 32, u(5, 0xffffffff, 7), 0xffffffff},
		{"max.u64", "rd", 1, 64, u(5, math.MaxUint64, 7), math.MaxUint64},
		{"max.s64", "rd", 1, 64, u(5, math.MaxUint64, 7), 7},
		{"and.b32", "r", 1, 32, u(0xf0, 0xff, 0x3c), 0x30},
		{"or.b64", "rd", 1, 64, u(1, 1<<40, 1<<63), 1<<63 | 1<<40 | 1},
		{"xor.b32", "r", 1, 32, u(1, 3, 7), 5},
		{"add.f32", "f", 1, 32, u(fbits(1), fbits(2), fbits(4)), fbits(7)},
		{"add.v2.f32", "f", 2, 32, u(fbits(1), fbits(2), fbits(4)), fbits(7)},
		{"add.v4.f32", "f", 4, 32, u(fbits(1), fbits(2), fbits(4)), fbits(7)},
		{"add.v4.f32", "f", 4, 32, u(0, 1<<31, 1<<31), 0},
		{"add.v4.f32", "f", 4, 32, u(inf32, inf32|1<<31, 0), nan32},
		{"add.f64", "fd", 1, 64, u(dbits(1), dbits(2), dbits(4)), dbits(7)},
		// 2048+1+1 is 2050 when added in f32; in f16 each 1 is lost, but not the
		// two together, so all orders give one of two answers: only inputs
		// with one answer stand here.
		{"add.acc::f32.f16x2", "r", 1, 32, u(both(big), both(one), both(one)), both(0x6801)},
		{"add.acc::f32.v2.f16x2", "r", 2, 32, u(both(big), both(one), both(one)), both(0x6801)},
		{"add.acc::f32.v4.f16x2", "r", 4, 32, u(both(big), both(one), both(one)), both(0x6801)},
		{"add.acc::f32.v4.f16", "rs", 4, 16, u(big, one, one), 0x6801},
		{"add.acc::f32.v8.f16", "rs", 8, 16, u(big, one, one), 0x6801},
		{"add.acc::f32.v2.f16", "rs", 2, 16, u(big, one, one), 0x6801},
		{"add.acc::f32.v4.bf16x2", "r", 4, 32, u(both(bbig), both(bone), both(bone)), both(0x4381)},
		{"add.acc::f32.bf16x2", "r", 1, 32, u(both(bbig), both(bone), both(bone)), both(0x4381)},
		{"add.acc::f32.v8.bf16", "rs", 8, 16, u(bbig, bone, bone), 0x4381},
		{"add.f16x2", "r", 1, 32, u(both(one), both(one), both(0x4000)), both(0x4400)},
		{"add.v4.bf16x2", "r", 4, 32, u(both(bone), both(bone), both(0x4000)), both(0x4080)},
		{"min.v4.f16x2", "r", 4, 32, u(both(one), both(0xbc00), both(0x7e00)), both(0xbc00)},
		{"max.v4.bf16x2", "r", 4, 32, u(both(bone), both(0xbf80), both(0x4000)), both(0x4000)},
		{"max.v2.f16", "rs", 2, 16, u(one, 0xbc00, 0x4000), 0x4000},
	}
}

func TestLoadReduce(t *testing.T) {
	for _, order := range []string{"relaxed.sys.global", "global", "weak.global", "acquire.gpu.global", "relaxed.sys"} {
		for _, c := range reduceCases() {
			m := newMachine(t)
			mc, dev := m.multicast(3)
			bytes := c.n * c.bits / 8
			for d := range dev {
				for i := range c.n * 32 {
					var b [8]byte
					binary.LittleEndian.PutUint64(b[:], c.in[d])
					copy(dev[d][i*c.bits/8:], b[:c.bits/8])
				}
			}
			regs := ""
			for i := range c.n {
				if i > 0 {
					regs += ", "
				}
				regs += fmt.Sprintf("%%%s%d", c.class, i+2)
			}
			typ := suffix[c.class]
			store := ""
			for i := range c.n {
				store += fmt.Sprintf("st.global.%s [%%rd1+%d], %%%s%d;\n", typ, i*c.bits/8, c.class, i+2)
			}
			if c.n > 1 {
				regs = "{" + regs + "}"
			}
			m.cfg.Seed = uint64(len(order)) * 12345
			m.body(fmt.Sprintf(`
	ld.param.u64 %%rd20, [p+8];
	mov.u32 %%r1, %%tid.x;
	mul.wide.u32 %%rd21, %%r1, %d;
	add.s64 %%rd20, %%rd20, %%rd21;
	add.s64 %%rd1, %%rd0, %%rd21;
	multimem.ld_reduce.%s.%s %s, [%%rd20];
	%s`, bytes, order, c.form, regs, store), 1, 32, mc)
			for i := range c.n * 32 {
				var b [8]byte
				copy(b[:], m.mem[i*c.bits/8:][:c.bits/8])
				if got := binary.LittleEndian.Uint64(b[:]); got != c.want {
					t.Errorf("%s.%s: element %d is %#x, want %#x", order, c.form, i, got, c.want)
					break
				}
			}
		}
	}
}

// TestReductionOrder: the order of summation depends on the address and on the
// seed, and an f16 sum in f16 shows it.
func TestReductionOrder(t *testing.T) {
	k := mustCompile(t, kernelText(`
	ld.param.u64 %rd20, [p+8];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd21, %r1, 16;
	add.s64 %rd20, %rd20, %rd21;
	add.s64 %rd1, %rd0, %rd21;
	multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%rd20];
	st.global.f32 [%rd1], %f0;`))
	sums := map[uint32]int{}
	for seed := range uint64(4) {
		m := newMachine(t)
		m.cfg.Seed = seed
		mc, dev := m.multicast(3)
		for i := range 1024 {
			floats(dev[0])[4*i], floats(dev[1])[4*i], floats(dev[2])[4*i] = 1e8, -1e8, 3
		}
		if err := m.launch(k, 1, 1024, base, mc); err != nil {
			t.Fatal(err)
		}
		for i := range 1024 {
			sums[m.u32(4*i)]++
		}
	}
	if len(sums) < 2 || sums[uint32(fbits(3))] == 0 || sums[0] == 0 {
		t.Errorf("sums that came out: %v", sums)
	}
}

func TestMultimemStore(t *testing.T) {
	for _, c := range []struct {
		form, regs string
		want       []uint32
	}{
		{"relaxed.sys.global.v4.f32", "{%f1, %f2, %f3, %f4}", []uint32{0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0}},
		{"global.v2.f32", "{%f1, %f2}", []uint32{0x3f800000, 0x40000000, 0}},
		{"release.sys.global.f32", "%f3", []uint32{0x40400000, 0}},
		{"relaxed.gpu.global.v4.bf16x2", "{%r1, %r2, %r3, %r4}", []uint32{1, 2, 3, 4, 0}},
		{"global.v8.f16", "{%rs1, %rs2, %rs3, %rs4, %rs4, %rs3, %rs2, %rs1}", []uint32{0x20001, 0x40003, 0x30004, 0x10002, 0}},
		{"global.v2.f16", "{%rs1, %rs2}", []uint32{0x20001, 0}},
		{"weak.global.b64", "%rd2", []uint32{0x55667788, 0x11223344, 0}},
		{"global.u32", "%r4", []uint32{4, 0}},
		{"global.f64", "%rd2", []uint32{0x55667788, 0x11223344, 0}},
	} {
		m := newMachine(t)
		mc, dev := m.multicast(5)
		m.body(`
	ld.param.u64 %rd1, [p+8];
	ld.param.u64 %rd2, [p+16];
	mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0f40400000; mov.f32 %f4, 0f40800000;
	mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; mov.u32 %r4, 4;
	mov.u16 %rs1, 1; mov.u16 %rs2, 2; mov.u16 %rs3, 3; mov.u16 %rs4, 4;
	multimem.st.`+c.form+` [%rd1+16], `+c.regs+`;`, 1, 1, mc, 0x1122334455667788)
		for d := range dev {
			for i, w := range c.want {
				if g := words(dev[d])[4+i]; g != w {
					t.Errorf("%s: device %d word %d is %#x, want %#x", c.form, d, i, g, w)
				}
			}
		}
	}
}

func TestMultimemRed(t *testing.T) {
	for _, c := range []struct {
		form, regs string
		before     []uint32
		want       []uint32 // after 64 threads
	}{
		{"relaxed.sys.global.add.u32", "%r1", []uint32{5}, []uint32{69, 0}},
		{"release.sys.global.add.u64", "%rd2", []uint32{0xffffffff}, []uint32{63, 1}},
		{"global.add.f32", "%f1", []uint32{0}, []uint32{0x42800000, 0}},
		{"global.add.v4.f32", "{%f1, %f1, %f1, %f1}", []uint32{0, 0, 0x3f800000, 0}, []uint32{0x42800000, 0x42800000, 0x42820000, 0x42800000}},
		{"add.f16x2", "%r3", []uint32{0}, []uint32{0x54005400}},
		{"global.add.v2.bf16x2", "{%r4, %r4}", []uint32{0}, []uint32{0x42804280, 0x42804280}},
		{"global.add.v4.f16", "{%rs1, %rs1, %rs1, %rs1}", []uint32{0}, []uint32{0x54005400, 0x54005400, 0}},
		{"global.min.s32", "%r2", []uint32{0}, []uint32{0xffffffff}},
		{"global.max.u64", "%rd2", []uint32{0}, []uint32{1, 0}},
		{"global.or.b32", "%r1", []uint32{0x80}, []uint32{0x81}},
		{"global.xor.b64", "%rd2", []uint32{0x80}, []uint32{0x80}},
		{"global.add.f64", "%fd1", []uint32{0}, []uint32{0, 0x40500000}},
	} {
		m := newMachine(t)
		mc, dev := m.multicast(3)
		for d := range dev {
			copy(words(dev[d]), c.before)
		}
		m.body(`
	ld.param.u64 %rd1, [p+8];
	mov.u64 %rd2, 1;
	mov.f32 %f1, 0f3F800000;
	mov.f64 %fd1, 0d3FF0000000000000;
	mov.u32 %r1, 1; mov.u32 %r2, -1; mov.u32 %r3, 0x3c003c00; mov.u32 %r4, 0x3f803f80;
	mov.u16 %rs1, 0x3c00;
	multimem.red.`+c.form+` [%rd1], `+c.regs+`;`, 2, 32, mc)
		for d := range dev {
			for i, w := range c.want {
				if g := words(dev[d])[i]; g != w {
					t.Errorf("%s: device %d word %d is %#x, want %#x", c.form, d, i, g, w)
				}
			}
		}
	}
}

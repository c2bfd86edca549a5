package exec

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// TestAccessForms runs loads and stores of every width and semantics through
// memory and back.
func TestAccessForms(t *testing.T) {
	m := newMachine(t)
	loads := []string{"global", "weak.global", "global.nc", "volatile.global", "relaxed.sys.global", "acquire.gpu.global", "mmio.relaxed.sys.global",
		"global.L1::no_allocate", "global.ca", "", "relaxed.cta"}
	stores := []string{"global", "weak.global", "volatile.global", "relaxed.sys.global", "release.gpu.global", "mmio.relaxed.sys.global", "global.cs", ""}
	dot := func(s string) string {
		if s == "" {
			return ""
		}
		return "." + s
	}
	forms := []struct {
		typ, vec, regs string
		bytes          int
	}{
		{"u8", "", "%rs1", 1}, {"b8", "", "%r1", 1}, {"u16", "", "%rs1", 2}, {"b32", "", "%r1", 4}, {"f32", "", "%f1", 4}, {"u64", "", "%rd1", 8}, {"f64", "", "%fd1", 8},
		{"u8", ".v4", "{%rs1, %rs2, %rs3, %rs4}", 4}, {"b16", ".v2", "{%rs1, %rs2}", 4}, {"b16", ".v4", "{%rs1, %rs2, %rs3, %rs4}", 8},
		{"u32", ".v2", "{%r1, %r2}", 8}, {"f32", ".v4", "{%f1, %f2, %f3, %f4}", 16}, {"b32", ".v4", "{%r1, %r2, %r3, %r4}", 16}, {"b64", ".v2", "{%rd1, %rd2}", 16},
		{"f64", ".v2", "{%fd1, %fd2}", 16},
	}
	for i := range 64 {
		m.mem[i] = byte(3*i + 129)
	}
	for _, f := range forms {
		for i := range max(len(loads), len(stores)) {
			ld, st := loads[i%len(loads)], stores[i%len(stores)]
			clear(m.mem[64:128])
			text := fmt.Sprintf("ld%s%s.%s %s, [%%rd0+16];\nst%s%s.%s [%%rd0+80], %s;", dot(ld), f.vec, f.typ, f.regs, dot(st), f.vec, f.typ, f.regs)
			m.body(text, 1, 1)
			for j := range 48 {
				want := byte(0)
				if j >= 16 && j < 16+f.bytes {
					want = m.mem[j]
				}
				if m.mem[64+j] != want {
					t.Fatalf("%s: byte %d is %#x instead of %#x", text, j, m.mem[64+j], want)
				}
			}
		}
	}
}

// TestSignedLoads: narrow loads extend into wider registers.
func TestSignedLoads(t *testing.T) {
	m := newMachine(t)
	m.mem[9] = 0x80
	m.body("ld.global.s8 %rs1, [%rd0+9]; ld.global.s8 %r1, [%rd0+9]; ld.global.u8 %r2, [%rd0+9]; ld.volatile.global.s16 %rd1, [%rd0+8];"+
		"st.global.u16 [%rd0+16], %rs1; st.global.u32 [%rd0+20], %r1; st.global.u32 [%rd0+24], %r2; st.global.u64 [%rd0+32], %rd1;", 1, 1)
	if m.u32(4) != 0xff80 || m.u32(5) != 0xffffff80 || m.u32(6) != 0x80 || m.u64(4) != 0xffffffffffff8000 {
		t.Errorf("got %#x, %#x, %#x, %#x", m.u32(4), m.u32(5), m.u32(6), m.u64(4))
	}
}

// TestAtomics runs every operation in 256 threads on one place.
func TestAtomics(t *testing.T) {
	m := newMachine(t)
	for _, c := range []struct {
		text         string
		before, want uint64
	}{
		{"atom.global.add.u32 %r2, [%rd0], %r1;", 5, 5 + 255*128},
		{"atom.relaxed.sys.global.add.u64 %rd2, [%rd0], %rd1;", 1 << 40, 1<<40 + 255*128},
		{"atom.add.s32 %r2, [%rd0], -1;", 5, 0xffffff05},
		{"red.global.add.u32 [%rd0], %r1;", 0, 255 * 128},
		{"atom.global.min.s32 %r2, [%rd0], %r3;", 100, neg32(-128)},
		{"atom.global.min.u32 %r2, [%rd0], %r3;", 100, 0},
		{"atom.global.max.u32 %r2, [%rd0], %r1;", 100, 255},
		{"atom.global.max.s64 %rd2, [%rd0], %rd1;", math.MaxUint64, 255},
		{"atom.global.and.b32 %r2, [%rd0], %r1;", 0xff, 0},
		{"atom.global.or.b32 %r2, [%rd0], %r1;", 0xf00, 0xfff},
		{"red.release.gpu.global.xor.b64 [%rd0], %rd1;", 7, 7},
		{"atom.global.inc.u32 %r2, [%rd0], 9;", 0, 6},
		{"atom.global.dec.u32 %r2, [%rd0], 9;", 0, 4},
		{"atom.global.add.f32 %f2, [%rd0], 0f3F800000;", fbits(1), fbits(257)},
		{"red.global.add.f64 [%rd0], 0d3FF0000000000000;", dbits(1), dbits(257)},
		{"red.global.add.noftz.f16x2 [%rd0], %r4;", 0, 0x5c005c00},
		{"atom.acq_rel.gpu.global.cas.b32 %r2, [%rd0], %r1, 1000;", 77, 1000},
		{"atom.global.cas.b64 %rd2, [%rd0], 3, 1000;", 4, 4},
	} {
		clear(m.mem[:16])
		binary.LittleEndian.PutUint64(m.mem, c.before)
		m.body("mov.u32 %r1, %tid.x; cvt.u64.u32 %rd1, %r1; sub.s32 %r3, %r1, 128; mov.u32 %r4, 0x3c003c00;\n"+c.text, 1, 256)
		if got := m.u64(0); got != c.want {
			t.Errorf("%s: %#x instead of %#x", c.text, got, c.want)
		}
	}
	// Each thread gets another number.
	clear(m.mem[:PageSize/2])
	m.body("atom.global.add.u32 %r2, [%rd0], 1; mul.wide.u32 %rd1, %r2, 4; add.s64 %rd1, %rd0, %rd1; st.global.u32 [%rd1+64], %r2;"+
		"mov.u32 %r3, 5; atom.global.exch.b32 %r4, [%rd0+8], %r3; setp.eq.u32 %p1, %r4, 0; @%p1 atom.global.add.u32 %r4, [%rd0+16], 1;", 4, 100)
	for i := range 400 {
		if m.u32(16+i) != uint32(i) {
			t.Fatalf("ticket %d is missing", i)
		}
	}
	if m.u32(2) != 5 || m.u32(4) != 1 {
		t.Errorf("exchange left %d, %d winners", m.u32(2), m.u32(4))
	}
}

package exec

import (
	"errors"
	"strings"
	"testing"
)

func TestFaults(t *testing.T) {
	const mcAt = base + 8*PageSize
	unbound := errors.New("device 1 has bound no memory here")
	for _, c := range []struct {
		name string
		body string
		kind Kind
		addr uint64
	}{
		{"null", "mov.u64 %rd1, 0; ld.u32 %r1, [%rd1];", IllegalAddress, 0},
		{"unmapped", "ld.global.u32 %r1, [%rd0+2097152];", IllegalAddress, base + PageSize},
		{"unmapped store", "st.global.v4.u32 [%rd0+-16], {%r1,%r1,%r1,%r1};", IllegalAddress, base - 16},
		{"far away", "mov.u64 %rd1, -8; st.u64 [%rd1], %rd1;", IllegalAddress, 1<<64 - 8},
		{"misaligned load", "ld.global.u32 %r1, [%rd0+2];", Misaligned, base + 2},
		{"misaligned 8", "ld.global.u64 %rd1, [%rd0+4];", Misaligned, base + 4},
		{"misaligned vector", "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+8];", Misaligned, base + 8},
		{"misaligned vector store", "st.global.v4.u32 [%rd0+8], {%r1,%r2,%r3,%r4};", Misaligned, base + 8},
		{"misaligned atomic", "atom.global.add.u64 %rd1, [%rd0+4], 1;", Misaligned, base + 4},
		{"misaligned byte vector", "ld.global.v2.u16 {%rs1,%rs2}, [%rd0+2];", Misaligned, base + 2},
		{"plain load", "ld.global.u32 %r1, [%rd1];", PlainOnMulticast, mcAt},
		{"plain vector load", "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd1];", PlainOnMulticast, mcAt},
		{"plain acquire", "ld.acquire.sys.global.u32 %r1, [%rd1];", PlainOnMulticast, mcAt},
		{"plain store", "st.relaxed.sys.global.v4.u32 [%rd1+16], {%r1,%r2,%r3,%r4};", PlainOnMulticast, mcAt + 16},
		{"plain atomic", "red.relaxed.sys.global.add.u32 [%rd1], 1;", PlainOnMulticast, mcAt},
		{"multimem load", "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd0];", MultimemOnUnicast, base},
		{"multimem store", "multimem.st.relaxed.sys.global.v4.f32 [%rd0], {%f1,%f1,%f1,%f1};", MultimemOnUnicast, base},
		{"multimem red", "multimem.red.relaxed.sys.global.add.u32 [%rd0], 1;", MultimemOnUnicast, base},
		{"multimem unmapped", "multimem.red.relaxed.sys.global.add.u32 [%rd0+2097152], 1;", IllegalAddress, base + PageSize},
		{"multimem misaligned", "multimem.ld_reduce.global.add.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1+8];", Misaligned, mcAt + 8},
		{"multimem unbound", "multimem.st.global.f32 [%rd1+2097152], %f1;", MulticastUnbound, mcAt + PageSize},
		{"shared", "mov.u32 %r1, 4096; ld.shared.u32 %r2, [%r1];", WrongSpace, 4096},
		{"generic shared", "mov.u64 %rd1, 0; cvta.shared.u64 %rd1, %rd1; st.u32 [%rd1], %r1;", WrongSpace, SharedWindow},
		{"local", "mov.u64 %rd1, 0; st.local.u32 [%rd1], %r1;", WrongSpace, 0},
		{"param", "ld.param.u32 %r1, [p+64];", WrongSpace, 64},
		{"trap", "trap;", Trap, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.multicast(2)
			if err := m.space.MapMulticast(mcAt+PageSize, PageSize, func(uint64) ([][]byte, error) { return nil, unbound }); err != nil {
				t.Fatal(err)
			}
			// Only the last thread of the last block gets there.
			k := mustCompile(t, kernelText("ld.param.u64 %rd1, [p+8];\nmov.u32 %r30, %tid.x; mov.u32 %r29, %ctaid.x;\n"+
				"setp.ne.u32 %p15, %r30, 40; @%p15 bra OUT; setp.ne.u32 %p15, %r29, 2; @%p15 bra OUT;\n"+c.body+"\nOUT:"))
			err := m.launch(k, 3, 41, base, mcAt)
			var f *Fault
			if !errors.As(err, &f) {
				t.Fatalf("no fault: %v", err)
			}
			if f.Kind != c.kind || f.Addr != c.addr || f.Block != 2 || f.Thread != 40 || f.Line != 16 || f.Kernel != "k" {
				t.Errorf("got %v at %#x, block %d, thread %d, line %d: %v", f.Kind, f.Addr, f.Block, f.Thread, f.Line, err)
			}
			if last := strings.TrimSpace(c.body[strings.LastIndex(strings.TrimSuffix(c.body, ";"), ";")+1:]); f.Text+";" != last {
				t.Errorf("instruction %q instead of %q", f.Text, last)
			}
			if c.kind == MulticastUnbound && !errors.Is(err, unbound) {
				t.Errorf("the cause is lost: %v", err)
			}
		})
	}
}

// TestInvalidate checks that a page is resolved once, and again after
// Invalidate.
func TestInvalidate(t *testing.T) {
	m := newMachine(t)
	const at = base + 4*PageSize
	calls := 0
	var fail error
	dev := [][]byte{pageBytes(1), pageBytes(1)}
	err := m.space.MapMulticast(at, PageSize, func(off uint64) ([][]byte, error) { calls++; return dev, fail })
	if err != nil {
		t.Fatal(err)
	}
	k := mustCompile(t, kernelText("mov.u32 %r1, 5; multimem.st.global.u32 [%rd0+64], %r1;"))
	run := func() error { return m.launch(k, 1, 32, at) }
	fail = errors.New("not bound")
	for range 2 { // errors are not kept
		if err := run(); !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	fail = nil
	for range 3 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls instead of 3", calls)
	}
	m.space.Invalidate(at, PageSize)
	dev = [][]byte{pageBytes(1)}
	if err := run(); err != nil || calls != 4 || words(dev[0])[16] != 5 {
		t.Errorf("after Invalidate: %v, %d calls", err, calls)
	}
	if err := m.space.Unmap(at, PageSize); err != nil {
		t.Fatal(err)
	}
	var f *Fault
	if err := run(); !errors.As(err, &f) || f.Kind != IllegalAddress {
		t.Errorf("after Unmap: %v", err)
	}
}

func TestSpace(t *testing.T) {
	s := NewSpace(base, 16*PageSize)
	two, three := pageBytes(2), pageBytes(3)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bad := func(err error, word string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not say %q", err, word)
		}
	}
	ok(s.Map(base+PageSize, two))
	ok(s.Map(base+3*PageSize, three))
	bad(s.Map(base+2*PageSize, two), "mapped already")
	bad(s.Map(base+1, two), "page size")
	bad(s.Map(base+8*PageSize, two[:100]), "page size")
	bad(s.Map(base+15*PageSize, two), "outside")
	bad(s.Map(0, two), "outside")
	bad(s.Unmap(base, 2*PageSize), "not mapped")

	got, err := s.Host(base+PageSize+100, 3*PageSize)
	ok(err)
	if len(got) != 2 || len(got[0]) != 2*PageSize-100 || &got[0][0] != &two[100] || len(got[1]) != PageSize+100 || &got[1][0] != &three[0] {
		t.Errorf("host slices of %d and %d bytes", len(got[0]), len(got[1]))
	}
	var f *Fault
	if _, err := s.Host(base+5*PageSize, 2*PageSize); !errors.As(err, &f) || f.Kind != IllegalAddress || f.Addr != base+6*PageSize {
		t.Errorf("past the end: %v", err)
	}
	ok(s.MapMulticast(base+6*PageSize, PageSize, nil2))
	if _, err := s.Host(base+6*PageSize, 4); !errors.As(err, &f) || f.Kind != PlainOnMulticast {
		t.Errorf("multicast: %v", err)
	}
	ok(s.Unmap(base+PageSize, 6*PageSize))
	ok(s.Map(base+2*PageSize, two))
}

func nil2(uint64) ([][]byte, error) { return nil, nil }

// TestLaunchErrors lists launches that cannot be.
func TestLaunchErrors(t *testing.T) {
	m := newMachine(t)
	k := mustCompile(t, kernelText(""))
	k.MaxThreads = 64
	for _, l := range []Launch{
		{Grid: 0, Block: 1, Args: args(64)},
		{Grid: 1, Block: 0, Args: args(64)},
		{Grid: 1, Block: 1025, Args: args(64)},
		{Grid: 1, Block: 65, Args: args(64)},
		{Grid: 1, Block: 1, Args: args(56)},
		{Grid: 1, Block: 1, Args: args(64), SharedBytes: MaxSharedBytes + 1},
	} {
		if err := k.Run(t.Context(), m.space, &m.cfg, l); err == nil {
			t.Errorf("launch %+v went through", l)
		}
	}
}

package exec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// TestBlockBarrier rotates values through shared memory: every round reads what
// another warp wrote in the round before.
func TestBlockBarrier(t *testing.T) {
	m := newMachine(t)
	k := mustCompile(t, kernelText(`
	.shared .align 4 .b8 buf[1024];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, buf;
	shl.b32 %r2, %r0, 2;
	add.s32 %r3, %r1, %r2;
	st.shared.u32 [%r3], %r0;
	add.s32 %r4, %r0, 37;
	and.b32 %r4, %r4, 255;
	shl.b32 %r4, %r4, 2;
	add.s32 %r4, %r1, %r4;
	mov.u32 %r6, 0;
LOOP:
	bar.sync 0;
	ld.shared.u32 %r5, [%r4];
	bar.sync 0;
	st.shared.u32 [%r3], %r5;
	add.s32 %r6, %r6, 1;
	setp.lt.u32 %p1, %r6, 100;
	@%p1 bra LOOP;
	mov.u32 %r7, %ctaid.x;
	shl.b32 %r7, %r7, 8;
	add.s32 %r7, %r7, %r0;
	mul.wide.u32 %rd1, %r7, 4;
	add.s64 %rd1, %rd0, %rd1;
	st.global.u32 [%rd1], %r5;`))
	if err := m.launch(k, 9, 256, base); err != nil {
		t.Fatal(err)
	}
	for i := range 9 * 256 {
		if want := uint32(i+3700) & 255; m.u32(i) != want {
			t.Fatalf("thread %d got %d, want %d", i, m.u32(i), want)
		}
	}
	if k.SharedBytes != 1024 || m.stats.Blocks.Load() != 9 {
		t.Errorf("%d bytes of shared memory, %d blocks", k.SharedBytes, m.stats.Blocks.Load())
	}
}

// TestNamedBarriers lets one warp hand over to another with bar.arrive, while
// the other warps stay away.
func TestNamedBarriers(t *testing.T) {
	m := newMachine(t)
	m.body(`
	.shared .u32 box;
	mov.u32 %r0, %tid.x;
	shr.u32 %r1, %r0, 5;
	setp.eq.u32 %p1, %r1, 2;
	@%p1 bra WRITER;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra OUT;
	barrier.sync 3, 64;
	ld.shared.u32 %r2, [box];
	mul.wide.u32 %rd1, %r0, 4;
	add.s64 %rd1, %rd0, %rd1;
	st.global.u32 [%rd1], %r2;
	bra OUT;
WRITER:
	mov.u32 %r2, 77;
	st.shared.u32 [box], %r2;
	bar.arrive 3, 64;
OUT:`, 1, 128)
	for i := range 32 {
		if m.u32(i) != 77 {
			t.Fatalf("thread %d got %d", i, m.u32(i))
		}
	}
}

func TestBarrierReduction(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %tid.x;
	setp.lt.u32 %p1, %r0, 50;
	bar.red.popc.u32 %r1, 0, %p1;
	bar.red.or.pred %p2, 0, %p1;
	bar.red.and.pred %p3, 0, %p1;
	bar.red.and.pred %p4, 1, 96, !%p5;
	selp.u32 %r2, 1, 0, %p2;
	selp.u32 %r3, 1, 0, %p3;
	selp.u32 %r4, 1, 0, %p4;
	mul.wide.u32 %rd1, %r0, 16;
	add.s64 %rd1, %rd0, %rd1;
	st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};`, 1, 96)
	for i := range 96 {
		if g := [4]uint32(words(m.mem)[4*i:]); g != [4]uint32{50, 1, 0, 1} {
			t.Fatalf("thread %d got %v", i, g)
		}
	}
}

// TestDivergentBarrier: threads of one warp come to the block's barrier from
// different places, some have ended.
func TestDivergentBarrier(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %rd1, %r0, 4;
	add.s64 %rd1, %rd0, %rd1;
	and.b32 %r1, %r0, 3;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 ret;
	setp.eq.u32 %p1, %r1, 1;
	@%p1 bra ODD;
	atom.global.add.u32 %r3, [%rd0+4096], 1;
	barrier.sync 0;
	ld.global.u32 %r4, [%rd0+4096];
	bra DONE;
ODD:
	atom.global.add.u32 %r3, [%rd0+4096], 1;
	barrier.sync 0;
	ld.global.u32 %r4, [%rd0+4096];
	add.s32 %r4, %r4, 1000;
DONE:
	st.global.u32 [%rd1], %r4;`, 1, 128)
	for i := range 128 {
		want := [4]uint32{0, 1096, 96, 96}[i&3]
		if m.u32(i) != want {
			t.Fatalf("thread %d got %d, want %d", i, m.u32(i), want)
		}
	}
}

func TestDeadlock(t *testing.T) {
	for name, body := range map[string]string{
		"count never reached": "bar.sync 1, 64;",
		"warp barrier":        "mov.u32 %r0, %laneid; setp.eq.u32 %p1, %r0, 0; @%p1 bra A; bar.sync 2, 64; A: bar.warp.sync -1;",
		"sizes differ": "mov.u32 %r0, %laneid; setp.eq.u32 %p1, %r0, 0; @%p1 bra A;" +
			"bar.sync 1, 64; bra B; A: bar.sync 1, 96; B:",
	} {
		m := newMachine(t)
		err := m.launch(mustCompile(t, kernelText(body)), 1, 32, base)
		var f *Fault
		if !errors.As(err, &f) || f.Kind != Deadlock {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpinInsideWarp: lane 0 releases lanes that spin, though they lie before
// it in the program.
func TestSpinInsideWarp(t *testing.T) {
	for _, poll := range []string{
		"ld.volatile.shared.u32 %r1, [flag];",
		"atom.shared.cas.b32 %r1, [flag], 1, 1;",
		"ld.shared.u32 %r1, [flag];", // found by the slice's end only
		"nanosleep.u32 100; ld.shared.u32 %r1, [flag];",
	} {
		m := newMachine(t)
		m.body(`
	.shared .u32 flag;
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p1, %r0, 0;
	@%p1 bra SETTER;
WAIT:
	`+poll+`
	setp.eq.u32 %p2, %r1, 0;
	@%p2 bra WAIT;
	bra OUT;
SETTER:
	mov.u32 %r2, 1;
	st.volatile.shared.u32 [flag], %r2;
OUT:
	mul.wide.u32 %rd1, %r0, 4;
	add.s64 %rd1, %rd0, %rd1;
	st.global.u32 [%rd1], %r0;`, 1, 64)
		for i := range 64 {
			if m.u32(i) != uint32(i) {
				t.Fatalf("%s: thread %d did not come through", poll, i)
			}
		}
	}
}

// TestSpinLock: every thread takes a lock in turn.
func TestSpinLock(t *testing.T) {
	m := newMachine(t)
	m.body(`
LOCK:
	atom.acquire.gpu.global.cas.b32 %r1, [%rd0], 0, 1;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra LOCK;
	ld.global.u32 %r2, [%rd0+64];
	add.s32 %r2, %r2, 1;
	st.global.u32 [%rd0+64], %r2;
	fence.acq_rel.gpu;
	atom.release.gpu.global.exch.b32 %r1, [%rd0], 0;`, 4, 96)
	if m.u32(16) != 4*96 {
		t.Errorf("counted %d instead of %d", m.u32(16), 4*96)
	}
}

// TestSpinBetweenBlocks: a chain, each block waits for the one before. Only
// four are resident.
func TestSpinBetweenBlocks(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %ctaid.x;
WAIT:
	ld.acquire.gpu.global.u32 %r1, [%rd0];
	setp.ne.s32 %p1, %r1, %r0;
	@%p1 bra WAIT;
	bar.sync 0;
	mov.u32 %r3, %tid.x;
	setp.ne.s32 %p1, %r3, 0;
	@%p1 bra OUT;
	add.s32 %r2, %r0, 1;
	st.release.gpu.global.u32 [%rd0], %r2;
OUT:`, 50, 64)
	if m.u32(0) != 50 {
		t.Errorf("chain ended at %d", m.u32(0))
	}
	if m.stats.Yields.Load() == 0 {
		t.Error("nothing gave way")
	}
}

// TestCancel: a kernel that spins for ever ends when its context does.
func TestCancel(t *testing.T) {
	for _, body := range []string{
		"W: ld.acquire.sys.global.u32 %r1, [%rd0]; setp.eq.s32 %p1, %r1, 0; @%p1 bra W;",
		"W: bra W;",
		"W: nanosleep.u32 10; bra W;",
	} {
		m := newMachine(t)
		k := mustCompile(t, kernelText(body))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(20 * time.Millisecond)
			cancel(why)
		}()
		begin := time.Now()
		if err := k.Run(ctx, m.space, &m.cfg, Launch{Grid: 8, Block: 128, Args: args(64, base)}); !errors.Is(err, why) {
			t.Errorf("%s: %v", body, err)
		}
		if d := time.Since(begin); d > programtest.Within(2*time.Second) {
			t.Errorf("%s: took %v to end", body, d)
		}
	}
}

// TestSleeps: a launch that only waits leaves the CPU to others.
func TestSleeps(t *testing.T) {
	m := newMachine(t)
	k := mustCompile(t, kernelText("W: ld.acquire.sys.global.u32 %r1, [%rd0]; setp.eq.s32 %p1, %r1, 0; @%p1 bra W;"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	k.Run(ctx, m.space, &m.cfg, Launch{Grid: 4, Block: 512, Args: args(64, base)})
	// 200 ms of naps of 100 µs and more; a busy wait would make far more of them.
	if n := m.stats.Sleeps.Load(); n < 5 || n > 5000 {
		t.Errorf("gave way %d times in 200 ms", n)
	}
	if n := m.stats.Issues.Load(); n > 3_000_000 {
		t.Errorf("%d instructions while waiting", n)
	}
}

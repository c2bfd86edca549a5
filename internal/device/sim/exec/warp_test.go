package exec

import "testing"

func TestShuffle(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %laneid;
	shfl.sync.down.b32 %r1|%p1, %r0, 3, 31, -1;
	shfl.sync.up.b32 %r2|%p2, %r0, 3, 0, -1;
	shfl.sync.bfly.b32 %r3, %r0, 16, 31, -1;
	shfl.sync.idx.b32 %r4|%p3, %r0, 5, 0x1807, -1;
	mul.wide.u32 %rd1, %r0, 16;
	add.s64 %rd1, %rd0, %rd1;
	st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
	selp.u32 %r5, 1, 0, %p1;
	selp.u32 %r6, 1, 0, %p2;
	st.global.v2.u32 [%rd1+4096], {%r5, %r6};`, 1, 32)
	for l := range uint32(32) {
		down, up, ok, ok2 := l+3, l-3, uint32(1), uint32(1)
		if l+3 > 31 {
			down, ok = l, 0
		}
		if l < 3 {
			up, ok2 = l, 0
		}
		// Segments of 8 lanes: lane 5 of each.
		if g := [4]uint32(words(m.mem)[4*l:]); g != [4]uint32{down, up, l ^ 16, l&^7 | 5} {
			t.Errorf("lane %d got %v", l, g)
		}
		if m.u32(1024+int(4*l)) != ok || m.u32(1025+int(4*l)) != ok2 {
			t.Errorf("lane %d: predicates %d, %d", l, m.u32(1024+int(4*l)), m.u32(1025+int(4*l)))
		}
	}
}

func TestVoteMatchRedux(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %laneid;
	and.b32 %r7, %r0, 3;
	setp.eq.u32 %p1, %r7, 1;
	vote.sync.ballot.b32 %r1, %p1, -1;
	vote.sync.any.pred %p2, %p1, -1;
	vote.sync.all.pred %p3, %p1, -1;
	vote.sync.uni.pred %p4, %p1, -1;
	match.any.sync.b32 %r2, %r7, -1;
	match.all.sync.b32 %r3|%p5, %r7, -1;
	redux.sync.add.s32 %r4, %r0, -1;
	activemask.b32 %r5;
	selp.u32 %r8, 1, 0, %p2;
	selp.u32 %r9, 2, 0, %p3;
	selp.u32 %r10, 4, 0, %p4;
	or.b32 %r8, %r8, %r9;
	or.b32 %r8, %r8, %r10;
	mul.wide.u32 %rd1, %r0, 32;
	add.s64 %rd1, %rd0, %rd1;
	st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
	st.global.v2.u32 [%rd1+16], {%r5, %r8};`, 1, 32)
	for l := range uint32(32) {
		want := [6]uint32{0x22222222, 0x11111111 << (l & 3), 0, 31 * 16, 0xffffffff, 1}
		if g := [6]uint32(words(m.mem)[8*l:]); g != want {
			t.Errorf("lane %d got %x, want %x", l, g, want)
		}
	}
}

// TestWarpSync: lanes that took two ways exchange values.
func TestWarpSync(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %laneid;
	mov.u32 %r1, 0;
	and.b32 %r7, %r0, 1;
	setp.eq.u32 %p1, %r7, 1;
	@%p1 bra ODD;
	add.s32 %r1, %r0, 100;
	bra JOIN;
ODD:
	setp.gt.u32 %p2, %r0, 20;
	@%p2 bra OUT;
	add.s32 %r1, %r0, 200;
JOIN:
	bar.warp.sync -1;
	shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
	mul.wide.u32 %rd1, %r0, 4;
	add.s64 %rd1, %rd0, %rd1;
	st.global.u32 [%rd1], %r2;
OUT:`, 1, 32)
	for l := range uint32(20) {
		want := 200 + l + 1
		if l&1 == 1 {
			want = 100 + l - 1
		}
		if m.u32(int(l)) != want {
			t.Errorf("lane %d got %d, want %d", l, m.u32(int(l)), want)
		}
	}
}

// TestDivergentLoop: every thread loops as often as its number says; a guard
// and a table of labels choose what it adds.
func TestDivergentLoop(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, 0;
	mov.u32 %r2, 0;
	bra TEST;
LOOP:
	and.b32 %r3, %r2, 3;
	brx.idx %r3, TABLE;
TABLE: .branchtargets ZERO, ONE, TWO, ONE;
ZERO:
	add.s32 %r1, %r1, 1;
	bra NEXT;
ONE:
	add.s32 %r1, %r1, 10;
	bra NEXT;
TWO:
	setp.gt.u32 %p2, %r0, 40;
	@%p2 add.s32 %r1, %r1, 100;
	@!%p2 add.s32 %r1, %r1, 1000;
NEXT:
	add.s32 %r2, %r2, 1;
TEST:
	setp.lt.u32 %p1, %r2, %r0;
	@%p1 bra LOOP;
	mul.wide.u32 %rd1, %r0, 4;
	add.s64 %rd1, %rd0, %rd1;
	st.global.u32 [%rd1], %r1;`, 1, 100)
	for i := range 100 {
		sum := 0
		for j := range i {
			two := 1000
			if i > 40 {
				two = 100
			}
			sum += [4]int{1, 10, two, 10}[j&3]
		}
		if int(m.u32(i)) != sum {
			t.Errorf("thread %d got %d, want %d", i, m.u32(i), sum)
		}
	}
}

// TestScopes: registers and labels of inner braces hide those outside, and the
// same label may stand in two scopes.
func TestScopes(t *testing.T) {
	m := newMachine(t)
	m.body(`
	mov.u32 %r1, 5;
	{
	.reg .b32 %r<4>;
	.reg .pred q;
	mov.u32 %r1, 7;
	setp.eq.u32 q, %r1, 7;
	@q bra L;
	mov.u32 %r1, 100;
L:
	st.global.u32 [%rd0], %r1;
	}
	{
	.reg .b32 t;
	mov.u32 t, %r1;
	bra L;
	mov.u32 t, 100;
L:
	st.global.u32 [%rd0+4], t;
	}`, 1, 1)
	if m.u32(0) != 7 || m.u32(1) != 5 {
		t.Errorf("got %d and %d", m.u32(0), m.u32(1))
	}
}

// TestLocal: every thread has its own local memory, reached by local and by
// generic addresses.
func TestLocal(t *testing.T) {
	m := newMachine(t)
	m.body(`
	.local .align 8 .b8 depot[24];
	mov.u64 %rd1, depot;
	cvta.local.u64 %rd2, %rd1;
	mov.u32 %r0, %tid.x;
	st.local.u32 [depot+4], %r0;
	st.u32 [%rd2+8], %r0;
	bar.sync 0;
	ld.local.v2.u32 {%r1, %r2}, [%rd1+8];
	ld.u32 %r3, [%rd2+4];
	add.s32 %r1, %r1, %r3;
	isspacep.local %p1, %rd2;
	@%p1 add.s32 %r1, %r1, 1000;
	isspacep.global %p1, %rd2;
	@%p1 add.s32 %r1, %r1, 5000;
	mul.wide.u32 %rd3, %r0, 4;
	add.s64 %rd3, %rd0, %rd3;
	st.global.u32 [%rd3], %r1;`, 1, 80)
	for i := range 80 {
		if int(m.u32(i)) != 2*i+1000 {
			t.Errorf("thread %d got %d", i, m.u32(i))
		}
	}
}

// TestDynamicShared: extern shared memory lies behind the static one and is
// cleared for every block.
func TestDynamicShared(t *testing.T) {
	m := newMachine(t)
	text := header + `.extern .shared .align 16 .b8 dyn[];
.visible .entry k(.param .u64 p) {
	.reg .b64 %rd<4>; .reg .b32 %r<8>;
	.shared .align 4 .u32 own;
	ld.param.u64 %rd0, [p];
	mov.u32 %r1, dyn;
	mov.u32 %r2, own;
	mov.u32 %r3, %dynamic_smem_size;
	st.shared.u32 [dyn+28], %r3;
	st.global.v2.u32 [%rd0], {%r1, %r2};
	ld.shared.u32 %r4, [%r1+28];
	st.global.v2.u32 [%rd0+8], {%r4, %r3};
	ret;
}`
	k := mustCompile(t, text)
	err := k.Run(t.Context(), m.space, &m.cfg, Launch{Grid: 1, Block: 1, SharedBytes: 32, Args: args(8, base)})
	if err != nil {
		t.Fatal(err)
	}
	if g := [4]uint32(words(m.mem)); g != [4]uint32{16, 0, 32, 32} {
		t.Errorf("got %v", g)
	}
}

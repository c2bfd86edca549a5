package exec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	bulkStore  = "cp.async.bulk.global.shared::cta.bulk_group "
	bulkCommit = "cp.async.bulk.commit_group;\n"
)

// bulkWait waits until n groups at most are under way.
func bulkWait(n int) string { return fmt.Sprintf("cp.async.bulk.wait_group %d;\n", n) }

// Bulk copies bring shared memory to global memory, over the ends of pages,
// several threads at once.
func TestBulkCopy(t *testing.T) {
	m := newMachine(t)
	second := pageBytes(1)
	if err := m.space.Map(base+PageSize, second); err != nil {
		t.Fatal(err)
	}
	// Threads 0 and 33 each copy a half of what all have stored, to the end of the
	// first page and the start of the second.
	m.body(`
	.shared .align 16 .b8 stage[1024];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, stage;
	mad.lo.u32 %r3, %r1, 16, %r2;
	mul.lo.u32 %r4, %r1, 3;
	st.shared.v4.u32 [%r3], {%r1, %r4, %r4, %r1};
	fence.proxy.async.shared::cta;
	bar.sync 0;
	and.b32 %r5, %r1, 31;
	shr.u32 %r6, %r1, 5;
	setp.ne.u32 %p1, %r5, %r6;
	@%p1 bra DONE;
	mad.lo.u32 %r7, %r6, 512, %r2;
	cvt.u64.u32 %rd1, %r6;
	mad.lo.s64 %rd1, %rd1, 512, %rd0;
	`+bulkStore+`[%rd1+2096640], [%r7], 512;
	`+bulkCommit+bulkWait(0)+`DONE:`, 1, 64)
	got := append(words(m.mem[PageSize-512:]), words(second)[:128]...)
	for i, v := range got {
		thread := uint32(i / 4)
		if want := []uint32{thread, 3 * thread, 3 * thread, thread}[i%4]; v != want {
			t.Fatalf("word %d is %d, expected %d", i, v, want)
		}
	}
}

// What a program sees of a copy: it is late until it was waited for, reads its
// source late unless that was waited for, and groups are waited for in order.
func TestBulkWaits(t *testing.T) {
	const (
		stage = ".shared .align 16 .b8 stage[64];\nmov.u32 %r1, 7;\nst.shared.u32 [stage], %r1;\nfence.proxy.async;\n"
		copy  = bulkStore + "[%rd0], [stage], 16;\n" + bulkCommit
		again = "mov.u32 %r1, 8;\nst.shared.u32 [stage], %r1;\n" + bulkStore + "[%rd0+16], [stage], 16;\n" + bulkCommit
		end   = "\nst.global.u32 [%rd0+64], %r2;\nst.global.u32 [%rd0+68], %r3;\n" + "cp.async.bulk.wait_group 0;\n"
		first = "ld.global.u32 %r2, [%rd0];\n"
		both  = first + "ld.global.u32 %r3, [%rd0+16];\n"
	)
	for _, c := range []struct {
		name, body string
		seen       [2]uint32 // by the thread
		left       [2]uint32 // at the end
	}{
		{"waited for", stage + copy + bulkWait(0) + both + end, [2]uint32{7, 0}, [2]uint32{7, 0}},
		{"not waited for", stage + copy + both + end, [2]uint32{0, 0}, [2]uint32{7, 0}},
		{"read only", stage + copy + "cp.async.bulk.wait_group.read 0;\n" + both + end, [2]uint32{0, 0}, [2]uint32{7, 0}},
		{"source reused too early", stage + copy + again + bulkWait(0) + both + end, [2]uint32{8, 8}, [2]uint32{8, 8}},
		{"source reused", stage + copy + "cp.async.bulk.wait_group.read 0;\n" + again + bulkWait(0) + both + end, [2]uint32{7, 8}, [2]uint32{7, 8}},
		{"first of two", stage + copy + bulkWait(0) + again + bulkWait(1) + both + end, [2]uint32{7, 0}, [2]uint32{7, 8}},
		{"one of two", stage + copy + "cp.async.bulk.wait_group.read 0;\n" + again + bulkWait(1) + both + end, [2]uint32{7, 0}, [2]uint32{7, 8}},
		{"none of two", stage + copy + "cp.async.bulk.wait_group.read 0;\n" + again + bulkWait(2) + both + end, [2]uint32{0, 0}, [2]uint32{7, 8}},
		{"an empty group between", stage + copy + bulkCommit + bulkWait(1) + both + end, [2]uint32{7, 0}, [2]uint32{7, 0}},
		{"not committed", stage + strings.TrimSuffix(copy, bulkCommit) + bulkWait(0) + both + bulkCommit + end, [2]uint32{0, 0}, [2]uint32{7, 0}},
		{"where the predicate holds", stage + "setp.eq.u32 %p1, %r1, 8;\n@%p1 " + bulkStore + "[%rd0], [stage], 16;\n@!%p1 " + bulkStore + "[%rd0+16], [stage], 16;\n" + bulkCommit + bulkWait(0) + both + end, [2]uint32{0, 7}, [2]uint32{0, 7}},
		{"nothing", stage + bulkStore + "[%rd0], [stage], 0;\n" + bulkCommit + bulkWait(0) + both + end, [2]uint32{0, 0}, [2]uint32{0, 0}},
	} {
		m := newMachine(t)
		m.body(c.body, 1, 1)
		if seen, left := [2]uint32{m.u32(16), m.u32(17)}, [2]uint32{m.u32(0), m.u32(4)}; seen != c.seen || left != c.left {
			t.Errorf("%s: %v are seen and %v left, expected %v and %v", c.name, seen, left, c.seen, c.left)
		}
	}
}

// A copy that is never waited for in full is done all the same: a thread that
// looks on sees it, and so does who looks when the kernel has ended.
func TestBulkProgress(t *testing.T) {
	m := newMachine(t)
	m.body(`
	.shared .align 16 .b8 stage[32];
	mov.u32 %r1, 7;
	st.shared.u32 [stage], %r1;
	st.shared.u32 [stage+16], %r1;
	fence.proxy.async;
	`+bulkStore+`[%rd0], [stage], 16;
	`+bulkCommit+`
LOOP:
	ld.relaxed.sys.global.u32 %r2, [%rd0];
	setp.ne.u32 %p1, %r2, 7;
	@%p1 bra LOOP;
	`+bulkStore+`[%rd0+16], [stage+16], 16;
	`+bulkCommit+"cp.async.bulk.wait_group.read 0;\n", 1, 1)
	if m.u32(0) != 7 || m.u32(4) != 7 {
		t.Errorf("%d and %d are left", m.u32(0), m.u32(4))
	}
}

// The same block's room is used by the next block and the next launch: nothing of
// a copy stays behind.
func TestBulkBlocks(t *testing.T) {
	m := newMachine(t)
	text := `
	.shared .align 16 .b8 stage[64];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd1, %r1, 64;
	add.s64 %rd1, %rd0, %rd1;
	st.shared.v4.u32 [stage], {%r1, %r1, %r1, %r1};
	fence.proxy.async.shared::cta;
	` + bulkStore + `[%rd1], [stage], 64;
	` + bulkCommit + "cp.async.bulk.wait_group.read 0;\n"
	for range 2 {
		clear(m.mem[:4096])
		m.body(text, 40, 1)
		for b := range 40 {
			if m.u32(16*b) != uint32(b) || m.u32(16*b+4) != 0 {
				t.Fatalf("block %d left %v", b, words(m.mem[64*b:64*b+32]))
			}
		}
	}
}

// What the PTX ISA leaves undefined is a fault.
func TestBulkFaults(t *testing.T) {
	const mcAt = base + 8*PageSize
	copied := bulkStore + "[%rd0], [stage], 64; "
	for _, c := range []struct {
		name, body string
		kind       Kind
		addr       uint64
	}{
		{"misaligned destination", bulkStore + "[%rd0+8], [stage], 16;", Misaligned, base + 8},
		{"misaligned source", bulkStore + "[%rd0], [stage+8], 16;", Misaligned, 8},
		{"size", "mov.u32 %r1, 24; " + bulkStore + "[%rd0], [stage], %r1;", BulkSize, 24},
		{"source too long", bulkStore + "[%rd0], [stage+16], 64;", WrongSpace, 16},
		{"far source", "mov.u32 %r1, -16; " + bulkStore + "[%rd0], [%r1], 32;", WrongSpace, 1<<32 - 16},
		{"generic source", "mov.u64 %rd2, stage; cvta.shared.u64 %rd2, %rd2; " + bulkStore + "[%rd0], [%rd2], 32;", WrongSpace, SharedWindow},
		{"unmapped", bulkStore + "[%rd0+2097136], [stage], 32;", IllegalAddress, base + PageSize},
		{"shared destination", "mov.u64 %rd2, 0; " + bulkStore + "[%rd2], [stage], 32;", IllegalAddress, 0},
		{"multicast", bulkStore + "[%rd1], [stage], 64;", PlainOnMulticast, mcAt},
		{"not waited for", copied + bulkCommit, BulkUnread, base},
		{"not committed", copied + bulkWait(0), BulkUnread, base},
		{"not all groups", copied + bulkCommit + "cp.async.bulk.wait_group.read 1;", BulkUnread, base},
	} {
		for _, weak := range []bool{false, true} {
			m := newMachine(t)
			m.multicast(2)
			text := kernelText(".shared .align 16 .b8 stage[64];\nld.param.u64 %rd1, [p+8];\nmov.u32 %r30, %tid.x;\nsetp.ne.u32 %p15, %r30, 40;\n@%p15 bra OUT;\n" + c.body + "\nOUT:")
			k := mustCompile(t, text)
			if weak {
				k = weakKernel(t, text)
				m.cfg.Weak = &Weak{History: NewHistory(alignedBytes(HistoryHeadBytes), []HistoryRange{{m.mem, alignedBytes(HistoryBytes(PageSize))}})}
			}
			err := m.launch(k, 3, 41, base, mcAt)
			var f *Fault
			if !errors.As(err, &f) || f.Kind != c.kind || f.Addr != c.addr || f.Thread != 40 || f.Line != 18 || f.Kernel != "k" || !strings.HasPrefix(f.Text+" ", bulkStore) {
				t.Errorf("%s, weak %v: %v", c.name, weak, err)
			}
		}
	}
}

// Message passing by a bulk copy: who sees the flag must see all that was copied.
func TestWeakBulk(t *testing.T) {
	const seeds = 80
	const (
		threads = 64
		// Every thread stores 8 bytes of the message; thread 0 copies it.
		store = ".shared .align 16 .b8 stage[512];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, stage;\nmad.lo.u32 %r3, %r1, 8, %r2;\nmov.u64 %rd1, 1;\nst.shared.u64 [%r3], %rd1;\nsetp.ne.u32 %p1, %r1, 0;\nsetp.ne.u32 %p2, %r1, 40;\n"
		fence = "fence.proxy.async.shared::cta;\n"
		bar   = "bar.sync 0;\n"
		go0   = "@%p1 bra DONE;\n"
		copy  = bulkStore + "[%rd0+256], [stage], 512;\n" + bulkCommit
		read0 = "cp.async.bulk.wait_group.read 0;\n"
		flag1 = "st.release.sys" + flag
		done  = "DONE:\n"
	)
	issue := func(s string) string { return "@%p1 bra SKIP;\n" + s + "SKIP:\n" }
	// The reader's thread 0 waits; every thread counts what it misses.
	get := "mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n" + await("acquire.sys") +
		"DONE:\nbar.sync 0;\nmul.wide.u32 %rd2, %r1, 8;\nadd.s64 %rd2, %rd2, %rd0;\nld.global.u32 %r3, [%rd2+256];\nsub.u32 %r3, 1, %r3;\nred.relaxed.gpu.global.add.u32 [%rd0+1024], %r3;\n"
	for _, c := range []struct {
		name, put string
		broken    bool
	}{
		{"as it should be", store + fence + bar + go0 + copy + bulkWait(0) + flag1 + done, false},
		{"fence behind the barrier", store + bar + go0 + fence + copy + bulkWait(0) + flag1 + done, false},
		{"fence for all memory", store + "fence.proxy.async;\n" + bar + go0 + copy + bulkWait(0) + flag1 + done, false},
		{"released by another thread", store + fence + bar + issue(copy+bulkWait(0)) + bar + "@%p2 bra DONE;\n" + flag1 + done, false},
		{"no fence", store + bar + go0 + copy + bulkWait(0) + flag1 + done, true},
		{"fence for global memory", store + "fence.proxy.async.global;\n" + bar + go0 + copy + bulkWait(0) + flag1 + done, true},
		{"fence of one thread before the barrier", store + "@!%p1 " + fence + bar + go0 + copy + bulkWait(0) + flag1 + done, true},
		{"no wait", store + fence + bar + go0 + copy + flag1 + bulkWait(0) + done, true},
		{"wait for the reads", store + fence + bar + go0 + copy + read0 + flag1 + done, true},
		{"wait for another group", store + fence + bar + go0 + copy + bulkWait(1) + flag1 + bulkWait(0) + done, true},
		{"relaxed flag", store + fence + bar + go0 + copy + bulkWait(0) + "st.relaxed.sys" + flag + done, true},
		{"released without a barrier", store + fence + bar + issue(copy+bulkWait(0)) + "@%p2 bra DONE;\n" + flag1 + done, true},
		{"source stored to again", store + fence + bar + go0 + copy + "st.shared.u64 [stage+8], 0;\n" + bulkWait(0) + flag1 + done, true},
		{"source stored to when read", store + fence + bar + go0 + copy + read0 + "st.shared.u64 [stage+8], 0;\n" + bulkWait(0) + flag1 + done, false},
	} {
		got, races := litmus{threads: threads, programs: []string{c.put, get}}.outcomes(t, seeds, 0)
		if broken := got["0 "] < seeds; broken != c.broken || !c.broken && races > 0 {
			t.Errorf("%s: words missed, and how often: %v; %d races", c.name, got, races)
		}
	}
}

// A bulk copy over what another rank reads is ordered by an acquire and a fence
// of proxies behind it.
func TestWeakBulkOverRead(t *testing.T) {
	const seeds = 60
	read := "ld.global.u32 %r1, [%rd0+64];\nst.release.sys" + flag
	start := ".shared .align 16 .b8 stage[16];\nmov.u64 %rd1, 1;\nst.shared.u64 [stage], %rd1;\nfence.proxy.async.shared::cta;\n"
	copy := bulkStore + "[%rd0+64], [stage], 16;\n" + bulkCommit + bulkWait(0)
	for _, c := range []struct {
		name, store string
		race        bool
	}{
		{"fence", start + await("acquire.sys") + "fence.proxy.async.global;\n" + copy, false},
		{"no fence", start + await("acquire.sys") + copy, true},
		{"fence for shared memory", start + await("acquire.sys") + "fence.proxy.async.shared::cta;\n" + copy, true},
		{"fence too early", start + "fence.proxy.async;\n" + await("acquire.sys") + copy, true},
		{"relaxed", start + await("relaxed.sys") + "fence.proxy.async;\n" + copy, true},
	} {
		_, races := litmus{programs: []string{read, c.store}}.outcomes(t, seeds)
		if c.race != (races > seeds/5) || !c.race && races > 0 {
			t.Errorf("%s: %d races of %d", c.name, races, seeds)
		}
	}
	// The fence may be another thread's, before a barrier.
	for fence, race := range map[string]bool{"fence.proxy.async;\n": false, "": true} {
		wait := "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n" + await("acquire.sys") + fence + "DONE:\nbar.sync 0;\n@!%p1 bra OUT;\n" + copy + "OUT:\n"
		_, races := litmus{threads: 2, programs: []string{read, start + wait}}.outcomes(t, seeds)
		if race != (races > seeds/5) || !race && races > 0 {
			t.Errorf("by another thread, %q: %d races of %d", fence, races, seeds)
		}
	}
}

// Words arrive in any order, and before anybody waits.
func TestWeakBulkOrder(t *testing.T) {
	put := ".shared .align 16 .b8 stage[32];\nmov.u64 %rd1, 1;\nst.shared.u64 [stage], %rd1;\nst.shared.u64 [stage+16], %rd1;\nfence.proxy.async;\n" +
		bulkStore + "[%rd0+64], [stage], 32;\n" + bulkCommit +
		"WAIT: ld.relaxed.sys.global.u32 %r9, [%rd0+128];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\n" + bulkWait(0)
	get := "LOOP: ld.relaxed.sys.global.u32 %r1, [%rd0+64];\nld.relaxed.sys.global.u32 %r2, [%rd0+80];\nor.b32 %r3, %r1, %r2;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra LOOP;\n" +
		"st.global.u32 [%rd0+1024], %r1;\nst.global.u32 [%rd0+1028], %r2;\nst.relaxed.sys.global.u32 [%rd0+128], 1;\n"
	got, _ := litmus{programs: []string{put, get}}.outcomes(t, 200, 0, 1)
	for _, one := range []string{"1 0 ", "0 1 ", "1 1 "} {
		if got[one] == 0 {
			t.Errorf("never %s: %v", one, got)
		}
	}
}

// Kernels without bulk copies carry nothing for them.
func TestBulkCostsOthersNothing(t *testing.T) {
	m := newMachine(t)
	k := mustCompile(t, kernelText(".shared .u32 box;\nst.shared.u32 [box], %r0;\nst.global.u32 [%rd0], %r0;"))
	if err := m.launch(k, 2, 64, base); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, b := range k.blocks {
		steps += len(b.steps)
	}
	if c := k.spare.Get(); c == nil || c.(*cta).groups != nil || c.(*cta).copies != nil || steps != 3 {
		t.Errorf("%d steps, %+v", steps, c)
	}
}

package exec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// FuzzCompile feeds bodies to the compiler and runs what it accepts: it must
// refuse, fault or end, and never panic or overrun its deadline.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"add.s32 %r0, %r1, -3; setp.lt.and.s32 %p0|%p1, %r1, 5, !%p2; @%p0 bra L; trap; L: ret;",
		"ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0]; st.global.v2.b64 [%rd0+16], {%rd0, %rd1};",
		"bar.sync 0; bar.red.popc.u32 %r1, 1, 64, %p1; bar.warp.sync -1; shfl.sync.idx.b32 %r1|%p1, %r2, 3, 31, -1;",
		"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%r1,%r2,%r3,%r4}, [%rd0+2097152];",
		"multimem.red.global.add.v2.f32 [%rd0], {%f1, %f2}; atom.global.cas.b64 %rd1, [%rd0], 0, 1;",
		"cvt.rn.bf16x2.f32 %r1, %f1, %f2; cvt.rzi.s8.f64 %rs1, %fd1; fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
		"brx.idx %r1, T; T: .branchtargets A, B; A: nanosleep.u32 5; B: mov.u64 %rd1, %globaltimer;",
		"{ .reg .b32 t; .local .b8 d[16]; mov.u64 %rd1, d; st.local.u32 [%rd1], t; } bfi.b32 %r0, %r1, %r2, 200, 200;",
		"W: ld.acquire.sys.global.u32 %r1, [%rd0]; setp.eq.s32 %p1, %r1, 0; @%p1 bra W;",
		"div.s16 %rs1, %rs2, %rs3; rem.s64 %rd1, %rd2, %rd3; shf.l.wrap.b32 %r0, %r1, %r2, %r3; prmt.b32 %r0, %r1, %r2, 0x7531;",
	} {
		f.Add(s, uint8(40))
	}
	m := newMachine(f)
	mc := uint64(base + PageSize)
	dev := [][]byte{pageBytes(1), pageBytes(1)}
	if err := m.space.MapMulticast(mc, PageSize, func(uint64) ([][]byte, error) { return dev, nil }); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string, threads uint8) {
		mod, err := ptx.Parse(kernelText(body))
		if err != nil {
			return
		}
		for _, e := range mod.Entries {
			k, err := Compile(e, mod)
			if err != nil {
				var u *UnknownInstructionError
				if !errors.As(err, &u) || u.Name == "" {
					t.Errorf("error %v is a %T", err, err)
				}
				continue
			}
			if k.SharedBytes > MaxSharedBytes || k.LocalBytes > 1<<16 || k.ParamBytes > 4096 {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			begin := time.Now()
			err = k.Run(ctx, m.space, &m.cfg, Launch{Grid: 2, Block: uint32(threads)%64 + 1, Args: args(k.ParamBytes)[:k.ParamBytes]})
			cancel()
			var f *Fault
			if err != nil && !errors.As(err, &f) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("unexpected error: %v", err)
			}
			if d := time.Since(begin); d > programtest.Within(5*time.Second) {
				t.Errorf("took %v", d)
			}
		}
	})
}

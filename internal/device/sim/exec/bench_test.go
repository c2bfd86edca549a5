package exec

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// report turns the counts of a benchmark into rates.
func report(b *testing.B, m *machine) {
	s := b.Elapsed().Seconds()
	b.ReportMetric(float64(m.stats.Instructions.Load())/s, "thread-instr/s")
	b.ReportMetric(float64(m.stats.Issues.Load())/s, "warp-instr/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkNVLSLoop is the inner loop of NVLS all-reduce: load-reduce of 16
// bytes and store to all devices, one rank reducing everything.
func BenchmarkNVLSLoop(b *testing.B) {
	for _, devices := range []int{2, 8} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			m := newMachine(b)
			mc, _ := m.multicast(devices)
			k := fromFile(b, "testdata/loop.ptx", "nvls_sum_f32")
			a := nvlsArgs(k, []uint64{base}, mc, PageSize/16, 0, 1, 0, 1e9, base+4096)
			for i := 0; b.Loop(); i++ {
				clear(m.mem[:4096])
				if err := k.Run(context.Background(), m.space, &m.cfg, Launch{Grid: 4, Block: 512, Args: a}); err != nil {
					b.Fatal(err)
				}
			}
			report(b, m)
		})
	}
}

// BenchmarkArithmetic is a hash loop: registers only.
func BenchmarkArithmetic(b *testing.B) {
	m := newMachine(b)
	k := mustCompile(b, kernelText(`
	mov.u32 %r0, %tid.x;
	cvt.u64.u32 %rd1, %r0;
	mov.u32 %r1, 0;
LOOP:
	shr.u64 %rd2, %rd1, 33;
	xor.b64 %rd1, %rd1, %rd2;
	mul.lo.s64 %rd1, %rd1, -49064778989728563;
	shr.u64 %rd2, %rd1, 29;
	xor.b64 %rd1, %rd1, %rd2;
	add.s32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 1000;
	@%p1 bra LOOP;
	mul.wide.u32 %rd3, %r0, 8;
	add.s64 %rd3, %rd0, %rd3;
	st.global.u64 [%rd3], %rd1;`))
	for b.Loop() {
		if err := m.launch(k, 4, 256, base); err != nil {
			b.Fatal(err)
		}
	}
	report(b, m)
}

// BenchmarkCopy is a copy loop of 16 bytes a thread.
func BenchmarkCopy(b *testing.B) {
	m := newMachine(b)
	k := mustCompile(b, kernelText(`
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %rd1, %r0, 16;
	add.s64 %rd1, %rd0, %rd1;
	mov.u32 %r1, 0;
LOOP:
	ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
	st.global.v4.u32 [%rd1+1048576], {%r2, %r3, %r4, %r5};
	add.s64 %rd1, %rd1, 8192;
	add.s32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 100;
	@%p1 bra LOOP;`))
	for b.Loop() {
		if err := m.launch(k, 1, 512, base); err != nil {
			b.Fatal(err)
		}
	}
	report(b, m)
}

// BenchmarkLaunch is what a launch costs that does next to nothing.
func BenchmarkLaunch(b *testing.B) {
	m := newMachine(b)
	k := mustCompile(b, kernelText("st.global.u32 [%rd0], %r0;"))
	m.cfg.SMs = 4
	for b.Loop() {
		if err := m.launch(k, 8, 512, base); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompile parses and compiles the largest module that ships.
func BenchmarkCompile(b *testing.B) {
	src, err := os.ReadFile("../../../kernels/ptx/portable_float.ptx")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		mod, err := ptx.Parse(string(src))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Compile(mod.Entries[0], mod); err != nil {
			b.Fatal(err)
		}
	}
}

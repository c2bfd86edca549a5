package nvls_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// What the switch can do: the table of multimem.ld_reduce, written out.
func TestSupports(t *testing.T) {
	const sum, all = "sum avg", "sum avg min max"
	can := map[collective.DType]string{
		collective.Float: sum, collective.Double: sum, collective.Half: all, collective.BFloat16: all,
		collective.Int32: all, collective.Uint32: all, collective.Int64: all, collective.Uint64: all,
	}
	for _, d := range collective.DTypes() {
		for _, op := range collective.Ops() {
			err := nvls.Supports(d, op)
			want := regexp.MustCompile(`\b` + op.String() + `\b`).MatchString(can[d])
			if (err == nil) != want {
				t.Errorf("%s of %s: %v", op, d, err)
			}
			if (nvls.Instructions(d, op) != "") != want {
				t.Errorf("%s of %s: instructions %q", op, d, nvls.Instructions(d, op))
			}
			if err != nil && (failure.CodeOf(err) != failure.Unavailable || !regexp.MustCompile("NVLS cannot do "+op.String()+" of "+d.String()+": the switch .*--mode ring or p2p.*--fallback allow").MatchString(err.Error())) {
				t.Errorf("%s of %s: %v", op, d, err)
			}
		}
	}
	for name, got := range map[string]string{
		"multimem.ld_reduce.add.v4.f32": nvls.Instructions(collective.Float, collective.Avg), "multimem.ld_reduce.add.acc::f32.v4.bf16x2": nvls.Instructions(collective.BFloat16, collective.Sum),
		"multimem.ld_reduce.min.v4.f16x2": nvls.Instructions(collective.Half, collective.Min), "multimem.ld_reduce.add.u64": nvls.Instructions(collective.Int64, collective.Sum),
		"multimem.ld_reduce.max.s64": nvls.Instructions(collective.Int64, collective.Max),
	} {
		if got != name {
			t.Errorf("%s instead of %s", got, name)
		}
	}
}

func TestZeroCopyRefusals(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		m, other := r.Alloc(1), r.Alloc(1)
		z := nvls.NewZeroCopy(r.Group, collective.Tuning{})
		r.OK(z.Register(context.Background(), m), "Register")
		for _, c := range []struct {
			call collective.Call
			code failure.Code
			want string
		}{
			{collective.Call{Send: m.At(4), Recv: m.At(1024), Count: 4, DType: collective.Float}, failure.Usage, "aligned to 16 bytes.*a multimem access.*use nvls-copy-in"},
			{collective.Call{Send: m.At(0), Recv: m.At(1032), Count: 4, DType: collective.Double}, failure.Usage, "aligned to 16 bytes.*use nvls-copy-in"},
			{collective.Call{Send: other.At(0), Recv: m.At(0), Count: 4, DType: collective.Float}, failure.Usage, "registered"},
			{collective.Call{Send: m.At(0), Recv: other.At(0), Count: 4, DType: collective.Float}, failure.Usage, "registered"},
			{collective.Call{Send: m.At(0), Recv: m.At(0), Count: 4, DType: collective.Float, Op: collective.Prod}, failure.Unavailable, "NVLS cannot do prod of float"},
			{collective.Call{Send: m.At(0), Recv: m.At(0), Count: 4, DType: collective.Uint8}, failure.Unavailable, "8-bit"},
		} {
			if _, err := z.Prepare(c.call); failure.CodeOf(err) != c.code || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				r.Fatalf("%+v: code %d, expected %q: %v", c.call, failure.CodeOf(err), c.want, err)
			}
		}
		r.Close(z)
		r.Close(other)
		r.Close(m)
	})
}

// Where NVLS cannot run, every way to it says why on every rank, and the driver's
// multicast interface is not touched.
func TestUnavailable(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(rank int, o *collective.Options)
		want string
	}{
		{"switched off", func(_ int, o *collective.Options) { o.MulticastOff = "NCCL_NVLS_ENABLE=0" }, "switched off at this site: NCCL_NVLS_ENABLE=0"},
		{"A100", func(_ int, o *collective.Options) { o.Sim.Major = 8 }, "compute capability 9.0, this GPU has 8.0"},
		{"shared", func(_ int, o *collective.Options) { o.ShareGPU, o.Sim.Devices = true, 1 }, "several ranks share one GPU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got outcome
			var trace calls
			grouptest.Run(t, ranks, func(rank int, o *collective.Options) {
				c.set(rank, o)
				o.Sim.Trace = &trace
			}, func(r *grouptest.Rank) {
				m := r.Alloc(1)
				got.put(r, nvls.Available(context.Background(), r.Group))
				r.Barrier()
				if err := nvls.NewZeroCopy(r.Group, collective.Tuning{}).Register(context.Background(), m); failure.CodeOf(err) != failure.Unavailable {
					r.Fatalf("Register: %v", err)
				}
				if _, err := nvls.NewCopyIn(context.Background(), r.Group, 1, collective.Tuning{}); failure.CodeOf(err) != failure.Unavailable {
					r.Fatalf("NewCopyIn: %v", err)
				}
				r.Close(m)
			})
			got.check(t, failure.Unavailable, "NVLS cannot run.*"+c.want+".*--mode ring or p2p")
			if len(trace.lines) == 0 {
				t.Fatal("no call was traced")
			}
			for _, l := range trace.lines {
				if regexp.MustCompile("Multicast|FABRIC").MatchString(l) {
					t.Errorf("the driver was asked: %s", l)
				}
			}
		})
	}
}

// calls is a trace of driver calls.
type calls struct {
	mu    sync.Mutex
	lines []string
}

func (c *calls) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(b))
	return len(b), nil
}

// The record names the instructions that the kernels have.
func TestInstructionsAreTheKernels(t *testing.T) {
	for _, d := range collective.DTypes() {
		for _, op := range []collective.Op{collective.Sum, collective.Min, collective.Max} {
			name := nvls.Instructions(d, op)
			if name == "" {
				continue
			}
			ptx, err := kernels.Module(d.String(), kernels.NVLSZeroCopy)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []kernels.Family{kernels.NVLSZeroCopy, kernels.NVLSCopyIn} {
				text, err := kernels.Cut(ptx, kernels.Entry(f, op.String()))
				if err != nil {
					t.Fatal(err)
				}
				found := regexp.MustCompile(`multimem\.ld_reduce[a-z0-9.:]*`).FindAllString(text, -1)
				if len(found) == 0 {
					t.Errorf("%s of %s: no multimem.ld_reduce in %s", op, d, f)
				}
				for _, got := range found {
					if got = strings.Replace(got, ".relaxed.sys.global", "", 1); got != name {
						t.Errorf("%s of %s: %s has %s, the record says %s", op, d, f, got, name)
					}
				}
			}
		}
	}
}

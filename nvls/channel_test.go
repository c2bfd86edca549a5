package nvls_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

const ranks = 3

// fault is what happens to a driver's call on one rank while it is armed.
type fault struct {
	rank  int
	call  string
	do    func(n int) device.Code // n counts the calls while armed, from 1
	armed atomic.Bool
	n     atomic.Int32
}

func (f *fault) configure(rank int, o *collective.Options) {
	if rank != f.rank {
		return
	}
	o.Sim.Fail = func(call string, _ int) device.Code {
		if call != f.call || !f.armed.Load() {
			return 0
		}
		return f.do(int(f.n.Add(1)))
	}
}

func always(code device.Code) func(int) device.Code { return func(int) device.Code { return code } }

// outcome gathers the ranks' errors.
type outcome struct {
	mu   sync.Mutex
	errs [ranks]string
	code [ranks]failure.Code
}

func (o *outcome) put(r *grouptest.Rank, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs[r.Rank()], o.code[r.Rank()] = fmt.Sprint(err), failure.CodeOf(err)
}

// check wants the same error on every rank.
func (o *outcome) check(t *testing.T, code failure.Code, want string) {
	t.Helper()
	for r := range ranks {
		if o.errs[r] != o.errs[0] || o.code[r] != code || !regexp.MustCompile(want).MatchString(o.errs[r]) {
			t.Errorf("rank %d: code %d, expected %d and %q: %s", r, o.code[r], code, want, o.errs[r])
		}
	}
}

func free(r *grouptest.Rank) uint64 {
	r.Barrier()
	b, _, err := r.Device().MemInfo()
	r.OK(err, "MemInfo")
	r.Barrier()
	return b
}

// works sees that a channel can be made and used, and closes it.
func works(r *grouptest.Rank, m *collective.Memory) {
	z := nvls.NewZeroCopy(r.Group, collective.Tuning{})
	r.OK(z.Register(context.Background(), m), "Register")
	arena := grouptest.NewArena(m)
	r.Check(z, grouptest.Case{Send: arena.Take(4000, 0), Recv: arena.Take(4000, 0), Count: 1000, DType: collective.Float})
	r.Close(z)
}

// A step that fails on one rank fails on all with the same error; nothing is left,
// and the next try can succeed.
func TestChannelFaults(t *testing.T) {
	for _, f := range []*fault{
		{rank: 0, call: "cuMulticastCreate", do: always(device.InvalidValue)},
		{rank: 0, call: "cuMulticastCreate", do: always(device.OutOfMemory)},
		{rank: 0, call: "cuMemExportToShareableHandle", do: always(device.OperatingSystem)},
		{rank: 1, call: "cuMemImportFromShareableHandle", do: always(device.NotPermitted)},
		{rank: 2, call: "cuMulticastAddDevice", do: always(device.IllegalState)},
		{rank: 1, call: "cuMulticastBindMem", do: always(device.InvalidValue)},
		{rank: 2, call: "cuMulticastBindMem", do: always(device.OutOfMemory)},
		{rank: 1, call: "cuMemMap", do: always(device.Unknown)},
	} {
		t.Run(fmt.Sprintf("%s on rank %d", f.call, f.rank), func(t *testing.T) {
			var got outcome
			grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
				m := r.Alloc(1)
				before := free(r)
				f.armed.Store(true)
				r.Barrier()
				c, err := nvls.NewChannel(context.Background(), r.Group, m)
				got.put(r, err)
				if c != nil {
					r.Fatalf("there is a channel")
				}
				r.Barrier()
				f.armed.Store(false)
				r.Barrier()
				if after := free(r); after != before {
					r.Fatalf("%d bytes were free, %d are now", before, after)
				}
				works(r, m)
				r.Close(m)
			})
			got.check(t, failure.Unavailable, fmt.Sprintf(`NVLS cannot run.*\[nvls\.[a-z-]+\].*rank %d.*%s: error [0-9]+ \(CUDA_ERROR_.*To do \((user|administrator)\)`, f.rank, f.call))
		})
	}
}

// As often as there are multicast objects in an NVSwitch system, and once more:
// a failed attempt takes none.
func TestFailedChannelsLeakNoObject(t *testing.T) {
	f := &fault{rank: 1, call: "cuMulticastBindMem", do: always(device.IllegalState)}
	grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		f.armed.Store(true)
		for range 130 {
			if _, err := nvls.NewChannel(context.Background(), r.Group, m); failure.CodeOf(err) != failure.Unavailable || !strings.Contains(err.Error(), "cuMulticastBindMem") {
				r.Fatalf("%v", err)
			}
		}
		r.Barrier()
		f.armed.Store(false)
		r.Barrier()
		works(r, m)
		r.Close(m)
	})
}

// Copy-in frees its staging buffer when the channel cannot be made.
func TestCopyInFaults(t *testing.T) {
	f := &fault{rank: 2, call: "cuMulticastBindMem", do: always(device.IllegalState)}
	var got outcome
	grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
		before := free(r)
		f.armed.Store(true)
		_, err := nvls.NewCopyIn(context.Background(), r.Group, 1<<20, collective.Tuning{})
		got.put(r, err)
		if after := free(r); after != before {
			r.Fatalf("%d bytes were free, %d are now", before, after)
		}
	})
	got.check(t, failure.Unavailable, "rank 2.*error 401.*nvidia-fabricmanager")
}

// "Not ready" is tried again by all ranks together, also when it is one rank's.
func TestNotReadyTwice(t *testing.T) {
	t.Parallel()
	f := &fault{rank: 1, call: "cuMulticastBindMem", do: func(n int) device.Code {
		if n <= 2 {
			return device.SystemNotReady
		}
		return 0
	}}
	grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		f.armed.Store(true)
		r.Barrier()
		works(r, m)
		if n := f.n.Load(); n != 3 {
			r.Fatalf("rank 1 has bound %d times", n)
		}
		r.Close(m)
	})
}

// "Not ready" for ever ends.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	f := &fault{rank: 2, call: "cuMulticastBindMem", do: always(device.SystemNotReady)}
	var got outcome
	start := time.Now()
	grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		f.armed.Store(true)
		r.Barrier()
		_, err := nvls.NewChannel(context.Background(), r.Group, m)
		got.put(r, err)
		r.Close(m)
	})
	got.check(t, failure.Unavailable, `Fabric Manager is not ready.*802.*10 times.*systemctl status nvidia-fabricmanager`)
	if n, took := f.n.Load(), time.Since(start); n != 10 || took > programtest.Within(20*time.Second) {
		t.Errorf("%d attempts in %v", n, took)
	}
}

// A context that ends stops the retries.
func TestNotReadyEndsWithContext(t *testing.T) {
	t.Parallel()
	f := &fault{rank: 0, call: "cuMulticastBindMem", do: always(device.SystemNotReady)}
	grouptest.Run(t, ranks, f.configure, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		f.armed.Store(true)
		r.Barrier()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, err := nvls.NewChannel(ctx, r.Group, m); err == nil || time.Since(begin) > programtest.Within(5*time.Second) {
			r.Fatalf("%v", err)
		}
		r.Close(m)
	})
}

// A bind that does not return ends in an error that names the rank, on all ranks.
// Its object and memory are left to the end of the process.
func TestBindNeverReturns(t *testing.T) {
	t.Parallel()
	for _, copyIn := range []bool{false, true} {
		release := make(chan struct{})
		f := &fault{rank: 1, call: "cuMulticastBindMem", do: func(int) device.Code { <-release; return device.IllegalState }}
		var got outcome
		begin := time.Now()
		grouptest.Run(t, ranks, func(rank int, o *collective.Options) {
			f.configure(rank, o)
			o.Timeout = 500 * time.Millisecond
		}, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			f.armed.Store(true)
			r.Barrier()
			var err error
			if copyIn {
				_, err = nvls.NewCopyIn(context.Background(), r.Group, 1, collective.Tuning{})
			} else {
				_, err = nvls.NewChannel(context.Background(), r.Group, m)
			}
			got.put(r, err)
			r.Barrier()
			if r.Rank() == 0 {
				close(release) // so that the test's device can be closed
			}
		})
		got.check(t, failure.Timeout, `cuMulticastBindMem did not return \[nvls\.bind-hangs\] \(rank 1\).*within 500ms.*To do \(administrator\).*nvidia-fabricmanager`)
		if took := time.Since(begin); took > programtest.Within(10*time.Second) {
			t.Errorf("it took %v", took)
		}
	}
}

// Granularities larger than 2 MiB, and a recommended one larger than the minimum.
func TestGranularity(t *testing.T) {
	for _, g := range [][2]uint64{{4 << 20, 4 << 20}, {2 << 20, 16 << 20}, {8 << 20, 32 << 20}} {
		grouptest.Run(t, 2, func(_ int, o *collective.Options) {
			o.Sim.MulticastMinimum, o.Sim.MulticastRecommended = g[0], g[1]
		}, func(r *grouptest.Rank) {
			m := r.Alloc(3 << 20)
			if m.Bytes() != max(4<<20, g[1]) {
				r.Fatalf("3 MiB became %d bytes with granularities %d", m.Bytes(), g)
			}
			works(r, m)
			c, err := nvls.NewCopyIn(context.Background(), r.Group, 1, collective.Tuning{})
			r.OK(err, "NewCopyIn")
			r.Check(c, grouptest.Case{Send: m.At(1 << 20), Recv: m.At(m.Bytes() - 1<<20), Count: 5000, DType: collective.Half})
			r.Close(c)
			r.Close(m)
		})
	}
}

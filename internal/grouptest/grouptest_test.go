package grouptest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestRun(t *testing.T) {
	var sum atomic.Int64
	Run(t, 3, func(rank int, o *collective.Options) { o.Sim.Devices = 4 }, func(r *Rank) {
		if r.Size() != 3 || len(r.Driver().Devices()) != 4 {
			r.Fatalf("%d ranks, %d devices", r.Size(), len(r.Driver().Devices()))
		}
		r.Barrier()
		sum.Add(1 << r.Rank())
	})
	if sum.Load() != 7 {
		t.Errorf("the ranks that ran are %b", sum.Load())
	}
}

// A rank that fails ends the others' waits, and the test.
func TestFailureEndsAll(t *testing.T) {
	rec := &recorder{TB: t}
	Run(rec, 2, nil, func(r *Rank) {
		if r.Rank() == 1 {
			r.Fatalf("rank 1 has enough")
		}
		r.Barrier()
	})
	got := strings.Join(rec.errors, "\n")
	if !strings.Contains(got, "rank 1: rank 1 has enough") || !strings.Contains(got, "rank 0: barrier: ") {
		t.Errorf("errors:\n%s", got)
	}
}

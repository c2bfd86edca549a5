package nccl

import (
	"context"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// hang is an all-reduce call that does not return.
func hang(ctx context.Context, r *rank) error {
	a, err := Open(ctx, r.Group, r.options())
	if err != nil {
		return err
	}
	m, err := r.Alloc(ctx, "test", 4096)
	if err != nil {
		return err
	}
	p, err := a.Prepare(collective.Call{Send: m.At(0), Recv: m.At(0), Count: 1, DType: collective.Float, Op: collective.Sum})
	if err != nil {
		return err
	}
	go p.Enqueue(r.Stream())
	return <-r.hung
}

func TestDeadlines(t *testing.T) {
	for _, tt := range []struct{ part, call, within string }{
		{"open", "ncclGetUniqueId", "1s"},
		{"open", "ncclCommInitRank", "1s"},
		{"symmetric", "ncclCommWindowRegister", "1s"},
		{"open", "ncclCommDestroy", "1s"},
		{"hang", "ncclAllReduce", "1s"},
	} {
		t.Run(tt.call, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			o := child(t, tt.part, "FAKENCCL_HANG="+tt.call)
			o.failedWith(t, failure.Timeout, tt.call+" did not return within "+tt.within, "rank 0 on")
			if d := time.Since(start); d > programtest.Within(15*time.Second) {
				t.Errorf("took %v", d)
			}
		})
	}
}

// TestWatchdog: many short calls are not one long one.
func TestWatchdog(t *testing.T) {
	barked := make(chan struct{})
	w := watch(80*time.Millisecond, func() { close(barked) })
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); {
		w.enter()
		time.Sleep(time.Millisecond)
		w.leave()
	}
	select {
	case <-barked:
		t.Fatal("it barked at short calls")
	default:
	}
	w.enter()
	select {
	case <-barked:
	case <-time.After(10 * time.Second):
		t.Fatal("it did not bark at a long call")
	}
	w.stop()
	w.stop()
}

package collective_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// One rank never launches: the others' kernels give up by themselves, within the
// timeout, and name it.
func TestKernelDeadline(t *testing.T) {
	const n, absent, timeout = 3, 1, 700 * time.Millisecond
	stages := map[string]string{
		"nvls-zero-copy":  "for the peers' kernels to start",
		"nvls-copy-in":    "for the peers' chunk to be in the staging buffer",
		"p2p-copy-in":     "for the peers' chunk to be in the staging buffer",
		"ring":            "for the previous rank's data in the ring",
		"p2p-one-shot":    "for the peers' kernels to start",
		"p2p-two-shot":    "for the peers' kernels to start",
		"p2p-packet":      "for a peer's packet",
		"p2p-push-bulk":   "for the peers' inputs to be in scratch memory",
		"p2p-push":        "for the peers' inputs to be in scratch memory",
		"p2p-copy-engine": "for the peers' copies of their inputs into scratch memory",
	}
	for i := range len(stages) {
		grouptest.Run(t, n, func(_ int, o *collective.Options) { o.Timeout = timeout }, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			all := reducers(r, m)
			mode := all[i].Mode()
			arena := grouptest.NewArena(m)
			s := r.Prepare(all[i], grouptest.Case{Send: arena.Take(40000, 0), Recv: arena.Take(40000, 0), Count: 10000, DType: collective.Float})
			r.Barrier()
			if r.Rank() != absent {
				start := time.Now()
				r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue")
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				err := r.Group.Wait(ctx)
				if took := time.Since(start); took < timeout || took > timeout+programtest.Within(10*time.Second) {
					r.Fatalf("%s: the kernel gave up after %v", mode, took)
				}
				wantTimeout(r, err, mode, stages[mode], absent)
			}
			s.Close()
			closeAll(r, all)
			r.Close(m)
		})
	}
}

// smallCall prepares a call of nvls-zero-copy, whose end frees everything.
func smallCall(r *grouptest.Rank) (s *grouptest.Started, end func()) {
	m := r.Alloc(1)
	all := reducers(r, m)
	arena := grouptest.NewArena(m)
	s = r.Prepare(all[0], grouptest.Case{Send: arena.Take(64, 0), Recv: arena.Take(64, 0), Count: 16, DType: collective.Float})
	return s, func() {
		s.Close()
		closeAll(r, all)
		r.Close(m)
	}
}

// A rank that has no patience for all of a long queue, whose kernels give up one
// after the other, tells what the first one said.
func TestQueueBehindFailedKernel(t *testing.T) {
	grouptest.Run(t, 2, func(_ int, o *collective.Options) { o.Timeout = 200 * time.Millisecond }, func(r *grouptest.Rank) {
		s, end := smallCall(r)
		r.Barrier()
		if r.Rank() == 0 {
			for range 30 { // 6 s of waiting
				r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			wantTimeout(r, r.Group.Wait(ctx), "nvls-zero-copy", "for the peers' kernels to start", 1)
			drained, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			r.OK(r.Group.Drain(drained), "waiting for the rest")
		}
		end()
	})
}

// wantTimeout checks that an error tells who waited for whom, and where.
func wantTimeout(r *grouptest.Rank, err error, mode, stage string, absent int) {
	var f *failure.Error
	if !errors.As(err, &f) || f.Code != failure.Timeout {
		r.Fatalf("%s: code %d: %v", mode, failure.CodeOf(err), err)
	}
	// In a ring the rank behind the absent one is starved first; whoever is next
	// may wait for that one.
	peers := []string{fmt.Sprintf("rank %d did not answer", absent)}
	if mode == "ring" {
		peers = append(peers, fmt.Sprintf("rank %d did not answer", (r.Rank()+r.Size()-1)%r.Size()))
	}
	for _, w := range []string{fmt.Sprintf("rank %d, block ", r.Rank()), stage} {
		if !strings.Contains(f.Why, w) {
			r.Fatalf("%s: the reason lacks %q: %v", mode, w, err)
		}
	}
	for _, p := range peers {
		if strings.Contains(f.Why, p) {
			return
		}
	}
	r.Fatalf("%s: the reason names none of %q: %v", mode, peers, err)
}

// A wait for the device that ends for the context says so, and where.
func TestWaitEndsWithContext(t *testing.T) {
	grouptest.Run(t, 2, func(_ int, o *collective.Options) { o.Timeout = 2 * time.Second }, func(r *grouptest.Rank) {
		s, end := smallCall(r)
		if r.Rank() == 0 {
			r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue")
			ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, errors.New("the test has no time"))
			defer cancel()
			err := r.Group.Wait(ctx)
			if failure.CodeOf(err) != failure.Timeout || !strings.Contains(fmt.Sprint(err), "the test has no time") || !strings.Contains(fmt.Sprint(err), "rank 0 on ") {
				r.Fatalf("code %d: %v", failure.CodeOf(err), err)
			}
		}
		r.Barrier()
		if r.Rank() == 1 {
			r.OK(s.Prepared.Enqueue(r.Stream()), "Enqueue") // late, but in time for the kernel
		}
		r.Wait()
		s.Verify()
		end()
	})
}

//go:build linux

package mpi

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// thread is the one operating system thread that calls MPI. FUNNELED is all
// that is asked of the library, and some answer differently elsewhere even to
// questions that look harmless.
type thread struct {
	work chan func()

	mu   sync.Mutex
	busy *DeadlineError // the call that was given up, if one was
}

func newThread() *thread {
	t := &thread{work: make(chan func())}
	go func() {
		// Never unlocked: should the goroutine end, the thread ends with it, and
		// not with MPI's thread-local state in someone else's hands.
		runtime.LockOSThread()
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f on the thread and waits for its end or for that of ctx. What f
// writes must not be read unless do returns nil or f's own error.
func (t *thread) do(ctx context.Context, call, stage string, f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy != nil {
		return &DeadlineError{Call: t.busy.Call, Stage: t.busy.Stage, Waited: t.busy.Waited, Err: t.busy.Err}
	}
	if err := ctx.Err(); err != nil {
		return &DeadlineError{Call: call, Stage: stage, Err: context.Cause(ctx)}
	}
	start := time.Now()
	done := make(chan error, 1)
	t.work <- func() { done <- f() }
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		t.busy = &DeadlineError{Call: call, Stage: stage, Waited: time.Since(start), Err: context.Cause(ctx)}
		return t.busy
	}
}

// idle runs f on the thread if no call is under way or given up there, and says
// whether it did.
func (t *thread) idle(f func()) bool {
	if !t.mu.TryLock() {
		return false
	}
	defer t.mu.Unlock()
	if t.busy != nil {
		return false
	}
	done := make(chan struct{})
	t.work <- func() { f(); close(done) }
	<-done
	return true
}

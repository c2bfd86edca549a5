//go:build linux

package mpi

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestThreadIsOne(t *testing.T) {
	th := newThread()
	seen := map[int]bool{}
	for range 50 {
		if err := th.do(context.Background(), "call", "stage", func() error { seen[unix.Gettid()] = true; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("calls ran on %d threads", len(seen))
	}
	want := errors.New("from f")
	if err := th.do(context.Background(), "call", "stage", func() error { return want }); err != want {
		t.Errorf("got %v", err)
	}
}

func TestThreadDeadline(t *testing.T) {
	th := newThread()
	release := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	err := th.do(ctx, "MPI_Barrier", "ready", func() error { <-release; return nil })
	var de *DeadlineError
	if !errors.As(err, &de) || de.Call != "MPI_Barrier" || de.Stage != "ready" || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if failure.CodeOf(err) != failure.Timeout {
		t.Errorf("exit code %d", failure.CodeOf(err))
	}
	// Later calls neither wait nor run; the thread is not free for an abort.
	err = th.do(context.Background(), "MPI_Bcast", "next", func() error { t.Error("ran beside a stuck call"); return nil })
	if !errors.As(err, &de) || de.Stage != "ready" {
		t.Errorf("got %v", err)
	}
	if th.idle(func() {}) {
		t.Error("idle with a stuck call")
	}
	close(release)
}

func TestThreadIdle(t *testing.T) {
	th := newThread()
	ran := false
	if !th.idle(func() { ran = true }) || !ran {
		t.Error("an idle thread did not run f")
	}
	started, release := make(chan struct{}), make(chan struct{})
	go th.do(context.Background(), "MPI_Barrier", "s", func() error { close(started); <-release; return nil })
	<-started
	if th.idle(func() {}) {
		t.Error("idle while a call is under way")
	}
	close(release)
}

//go:build linux

package sigguard

import (
	"errors"
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const sigIgn = 1

// ignore sets a disposition behind the runtime's back, as a C library does.
func ignore(t *testing.T, sig int) {
	t.Helper()
	if errno := sigaction(sig, &disposition{handler: sigIgn}, nil); errno != 0 {
		t.Fatalf("signal %d: %v", sig, errno)
	}
}

func TestGuardSignalsRestores(t *testing.T) {
	before, err := readAll()
	if err != nil {
		t.Fatal(err)
	}
	taken := []unix.Signal{unix.SIGUSR1, unix.SIGSEGV, unix.SIGHUP, unix.Signal(40)}
	err = GuardSignals(func() error {
		for _, s := range taken {
			ignore(t, int(s))
		}
		now, err := readAll()
		if err != nil {
			return err
		}
		for _, s := range taken {
			if now[s].handler != sigIgn {
				t.Errorf("signal %d was not taken inside the guard: the test tests nothing", s)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after, err := readAll()
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("dispositions differ:\n got %v\nwant %v", after, before)
	}
}

func TestGuardSignalsDelivers(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	defer signal.Stop(c)
	if err := GuardSignals(func() error { ignore(t, int(unix.SIGUSR1)); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(unix.Getpid(), unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c:
	case <-time.After(5 * time.Second):
		t.Fatal("SIGUSR1 did not arrive")
	}
}

func TestGuardSignalsNilDereference(t *testing.T) {
	if err := GuardSignals(func() error { ignore(t, int(unix.SIGSEGV)); return nil }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	var p *int
	*p = 1
}

func TestGuardSignalsLeavesLibc(t *testing.T) {
	for sig := firstLibc; sig <= lastLibc; sig++ {
		var old, now disposition
		sigaction(sig, &disposition{}, &old) // what a parent ignores is inherited
		// The handler is never called: nobody sends this signal.
		if err := GuardSignals(func() error {
			sigaction(sig, &disposition{handler: sigIgn}, nil)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		sigaction(sig, nil, &now)
		sigaction(sig, &old, nil)
		if now.handler != sigIgn || now.flags&saOnStack == 0 {
			t.Errorf("signal %d: %+v, want the new handler with SA_ONSTACK", sig, now)
		}
	}
}

func TestGuardSignalsPassesOn(t *testing.T) {
	want := errors.New("no such library")
	if err := GuardSignals(func() error { return want }); err != want {
		t.Errorf("got %v", err)
	}
	before, _ := readAll()
	func() {
		defer func() { recover() }()
		GuardSignals(func() error { ignore(t, int(unix.SIGBUS)); panic("load") })
	}()
	after, _ := readAll()
	if *after != *before {
		t.Error("not restored after a panic")
	}
}

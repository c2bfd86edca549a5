//go:build linux

// Package sigguard keeps Go's signal handlers in place while foreign libraries
// are loaded.
//
// MPICH takes SIGUSR1, UCX takes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGHUP,
// and neither asks for the alternate stack. Left alone, the first would kill
// the program at the warning that a batch system sends before a time limit, and
// the second would turn every recoverable Go panic into a crash. So whoever
// opens such a library does it inside GuardSignals.
//
// A program that imports the package also keeps SIGUSR1 and SIGUSR2 waiting from its
// first moment until it asks for them by signal.Notify.
package sigguard

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	numSignals = 64
	// setSize is the kernel's sigset_t in bytes, which rt_sigaction asks for.
	setSize = numSignals / 8

	saOnStack = 0x08000000 // SA_ONSTACK, the same on all these platforms

	// The C library uses these for thread cancellation, set*id and (musl)
	// timers. It installs their handlers on first use and remembers that it did:
	// taking them away would make the next pthread_cancel kill the process.
	firstLibc, lastLibc = 32, 34
)

// disposition is the kernel's struct sigaction on the 64-bit Linux platforms
// that Go supports with cgo. Only flags is looked at; the rest is kept as read.
type disposition struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// guard makes nested and concurrent loads restore in the order of their start.
var guard sync.Mutex

// GuardSignals runs load and then puts back every signal disposition that load
// changed. The C library's own signals (32 to 34) stay as load left them, but on
// the alternate stack, as Go's runtime demands of any handler.
//
// Dispositions belong to the process: no other goroutine may call
// signal.Notify, Ignore or Reset meanwhile, for that change may be undone.
// The error of load comes back unchanged; one of the kernel is joined to it.
func GuardSignals(load func() error) (err error) {
	guard.Lock()
	defer guard.Unlock()
	before, err := readAll()
	if err != nil {
		return err
	}
	// Deferred, so that a panic in load finds Go's handlers too.
	defer func() {
		if e := restore(before); e != nil {
			err = errors.Join(err, e)
		}
	}()
	return load()
}

func readAll() (*[numSignals + 1]disposition, error) {
	var all [numSignals + 1]disposition
	for sig := 1; sig <= numSignals; sig++ {
		if errno := sigaction(sig, nil, &all[sig]); errno != 0 {
			return nil, fmt.Errorf("rt_sigaction: reading the disposition of signal %d: %w", sig, errno)
		}
	}
	return &all, nil
}

func restore(before *[numSignals + 1]disposition) error {
	after, err := readAll()
	if err != nil {
		return err
	}
	var errs []error
	for sig := 1; sig <= numSignals; sig++ {
		want := before[sig]
		if after[sig] == want {
			continue
		}
		if sig >= firstLibc && sig <= lastLibc {
			want = after[sig]
			want.flags |= saOnStack
		}
		if errno := sigaction(sig, &want, nil); errno != 0 {
			errs = append(errs, fmt.Errorf("rt_sigaction: restoring the disposition of signal %d: %w", sig, errno))
		}
	}
	return errors.Join(errs...)
}

// sigaction is the raw call: the C library's would hide its own signals and
// exchange the restorer.
func sigaction(sig int, set, get *disposition) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), setSize, 0, 0)
	runtime.KeepAlive(set)
	return errno
}

//go:build linux

package mpiboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Periods of the own launcher. Variables for the tests only.
var (
	// After one rank failed, the others see its connection close, agree and
	// leave by themselves; who has not left by then gets SIGTERM.
	launchGrace = 5 * time.Second
	// From SIGTERM, ours or the user's, to SIGKILL.
	launchKill = 10 * time.Second
)

// Launch is the own launcher: it starts np ranks of argv on this host, which
// find each other by Join, and waits for all of them. Each gets env (nil: this
// process's environment) and the variables of its rank; none gets stdin.
//
// Their output comes in whole lines, so that lines do not mix. SIGTERM, SIGINT,
// SIGHUP, SIGUSR1 and SIGUSR2 are passed on to every rank. If one fails, the others
// have a grace period to leave by themselves, then get SIGTERM and at last
// SIGKILL. If this process is killed, so are they.
//
// exit is the highest exit code of the ranks that ended by themselves, where
// death by signal s counts as 128+s; it is 143 after SIGTERM or the end of ctx,
// 130 after SIGINT and 129 after SIGHUP. err says that ranks could not be started.
func Launch(ctx context.Context, np int, argv []string, env []string, stdout, stderr io.Writer) (exit int, err error) {
	if np < 1 || len(argv) == 0 {
		return int(failure.Usage), failure.New(failure.Usage, "cannot start %d ranks of %q", np, argv)
	}
	if env == nil {
		env = os.Environ()
	}
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2} {
		// nohup and a shell's & ask to ignore one; Notify would undo that.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)

	// The kernel sends the parent-death signal when the thread that forked ends,
	// so this one must outlive the ranks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	l := &launch{ended: make(chan rankEnd, np)}
	// One lock for both, for they may be the same file.
	var mu sync.Mutex
	out := &lineWriter{w: stdout, mu: &mu, err: new(writeError)}
	l.stderr = &lineWriter{w: stderr, mu: &mu, err: new(writeError)}
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Ignore(unix.SIGPIPE)
		defer signal.Reset(unix.SIGPIPE)
	}
	id := NewUniqueID()
	for r := range np {
		if err := l.start(r, np, id, argv, env, out); err != nil {
			for _, cmd := range l.ranks {
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
			for range l.ranks {
				<-l.ended
			}
			return int(failure.CodeOf(err)), err
		}
	}
	exit = l.wait(ctx, signals)
	if e := out.err.is; e != nil {
		return max(exit, int(failure.Internal)), failure.Wrap(failure.Internal, e, "cannot write to standard output")
	}
	return exit, nil
}

// launch is the ranks of one Launch.
type launch struct {
	ranks  []*exec.Cmd
	gone   []bool
	ended  chan rankEnd
	stderr *lineWriter // every write to it is one line
}

// rankEnd is how a rank ended.
type rankEnd struct {
	rank int
	code int
	how  string
}

func (l *launch) start(r, np int, id UniqueID, argv, env []string, stdout *lineWriter) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(withoutOwn(env),
		fmt.Sprintf("%s=%d", EnvRank, r), fmt.Sprintf("%s=%d", EnvSize, np), fmt.Sprintf("%s=%v", EnvUniqueID, id))
	// A group of its own: the terminal's Ctrl-C then reaches a rank once, by us,
	// and the rank's own children can be ended with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, errs := stdout.fork(), l.stderr.fork()
	cmd.Stdout, cmd.Stderr = out, errs
	// A grandchild that keeps the pipe open must not keep us.
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		f := &failure.Error{Code: failure.Internal, What: fmt.Sprintf("cannot start rank %d of %d", r, np), Err: err}
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			f.Do, f.By = "raise the limit on open files (ulimit -n 4096)", failure.User
		case errors.Is(err, unix.EAGAIN):
			f.Do, f.By = "raise the limit on processes (ulimit -u)", failure.User
		}
		return f
	}
	l.ranks, l.gone = append(l.ranks, cmd), append(l.gone, false)
	go func() {
		err := cmd.Wait()
		out.flush()
		errs.flush()
		end := rankEnd{rank: r, code: cmd.ProcessState.ExitCode(), how: cmd.ProcessState.String()}
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			end.code = 128 + int(ws.Signal())
		}
		if errors.Is(err, exec.ErrWaitDelay) {
			end.how += ", a child of it kept its output open"
		}
		l.ended <- end
	}()
	return nil
}

// withoutOwn drops the rank variables of an outer Launch.
func withoutOwn(env []string) []string {
	var out []string
	for _, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		if k != EnvRank && k != EnvSize && k != EnvUniqueID {
			out = append(out, kv)
		}
	}
	return out
}

func (l *launch) signal(s syscall.Signal) {
	for r, cmd := range l.ranks {
		if !l.gone[r] {
			cmd.Process.Signal(s)
		}
	}
}

// wait passes signals on until every rank has ended.
func (l *launch) wait(ctx context.Context, signals <-chan os.Signal) (exit int) {
	var (
		done     = ctx.Done()
		step     <-chan time.Time // when the next, harder, measure is due
		harder   func()
		stopping bool // a signal to end has gone out
		byUser   int  // 143 or 130
		first    *rankEnd
	)
	kill := func() {
		for r, cmd := range l.ranks {
			if !l.gone[r] {
				fmt.Fprintf(l.stderr, "nvls-allreduce: rank %d has not ended within %v of SIGTERM: killing it\n", r, launchKill)
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
		}
	}
	stop := func(s syscall.Signal) {
		l.signal(s)
		// A rank that is stopped takes no signal before it goes on.
		l.signal(syscall.SIGCONT)
		if !stopping {
			stopping = true
			step, harder = time.After(launchKill), kill
		}
	}
	for left := len(l.ranks); left > 0; {
		select {
		case e := <-l.ended:
			left--
			l.gone[e.rank] = true
			if first != nil && stopping {
				// Its code would be ours, not its own.
				fmt.Fprintf(l.stderr, "nvls-allreduce: rank %d was ended (%s) because rank %d failed (%s)\n", e.rank, e.how, first.rank, first.how)
				continue
			}
			exit = max(exit, e.code)
			if e.code != 0 && first == nil && byUser == 0 {
				first = &e
				step, harder = time.After(launchGrace), func() {
					fmt.Fprintf(l.stderr, "nvls-allreduce: rank %d failed (%s) and other ranks have not left within %v: ending them\n", e.rank, e.how, launchGrace)
					stop(syscall.SIGTERM)
				}
			}
		case <-step:
			step = nil
			harder()
		case s := <-signals:
			switch s {
			case unix.SIGTERM, unix.SIGINT, unix.SIGHUP:
				byUser = max(byUser, 128+int(s.(syscall.Signal)))
				stop(s.(syscall.Signal))
			default:
				l.signal(s.(syscall.Signal))
			}
		case <-done:
			done = nil
			byUser = int(failure.Terminated)
			stop(syscall.SIGTERM)
		}
	}
	if byUser != 0 {
		return byUser
	}
	return exit
}

//go:build linux

package endtoend

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// endless measures until it is stopped; a kernel is running nearly all the time.
const endless = "--mode ring,nvls-zero-copy -b 1K -e 4K -n 5 -w 1 -N 0"

// measuring starts an endless job and waits until it has printed rows.
func measuring(t *testing.T, l launcher, np int) *process {
	t.Helper()
	p := job{launcher: l, np: np, flags: endless}.start(t)
	row := regexp.MustCompile(`(?m)^ +\d+ +\d+ +float +sum +-1 .*\n`)
	p.await("two rows", limit, func() bool { return len(row.FindAllString(p.stdout.String(), 2)) == 2 })
	return p
}

// interrupt ends a measuring job by SIGTERM: results are on disk and everything
// is gone soon after.
func interrupt(t *testing.T, l launcher) {
	p := measuring(t, l, 3)
	sent := time.Now()
	if l.terminate != nil {
		l.terminate(t)
	} else if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o := p.wait(limit)
	if took, most := time.Since(sent), programtest.Within(5*time.Second); took > most {
		t.Errorf("ended %v after SIGTERM, want %v at most", took, most)
	}
	if !slices.Contains(l.terminated, o.exit) {
		t.Errorf("exit code %d, want one of %v", o.exit, l.terminated)
	}
	if o.run == nil {
		t.Fatal("no result on disk")
	}
	if o.run.Status != (result.Status{State: result.Interrupted, Reason: "SIGTERM"}) {
		t.Errorf("status is %+v", o.run.Status)
	}
	if len(o.run.Rows) < 2 || o.run.Totals().FailedChecks != 0 {
		t.Errorf("%d rows, %d of them wrong", len(o.run.Rows), o.run.Totals().FailedChecks)
	}
	leftovers.Sockets(t, o.run.ID)
}

func TestSIGTERM(t *testing.T) {
	each(t, func(t *testing.T, l launcher) { interrupt(t, l) })
}

// A signal that batch systems send before the end does the same.
func TestSIGUSR1(t *testing.T) {
	p := measuring(t, local, 2)
	p.cmd.Process.Signal(syscall.SIGUSR1)
	o := p.wait(limit)
	o.want(t, 143)
	if o.run == nil || o.run.Status != (result.Status{State: result.Interrupted, Reason: "SIGUSR1"}) {
		t.Errorf("result is %+v", o.run)
	}
}

// TestKilledRank kills one rank as the kernel's out-of-memory killer would: the
// others leave, and say who is missing and in which stage. Several times, for
// the stage is any.
func TestKilledRank(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		for range 3 {
			p := measuring(t, l, 3)
			if err := syscall.Kill(p.pid(1), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			o := p.wait(limit)
			if took, most := time.Since(killed), programtest.Within(5*time.Second); took > most {
				t.Errorf("ended %v after the kill, want %v at most", took, most)
			}
			if !slices.Contains(l.killed, o.exit) {
				t.Errorf("exit code %d, want one of %v", o.exit, l.killed)
			}
			if !l.outlives {
				continue
			}
			if !regexp.MustCompile(`at stage "[a-z- ]+" did not complete \(rank [02] on \S+\): rank 1 closed its connection`).MatchString(o.stderr) {
				t.Errorf("no message names rank 1 and the stage:\n%s", o.stderr)
			}
		}
	})
}

// A rank that is stopped, not gone: the kernel's own deadline ends the wait, and
// the message says who was waited for, by whom and in which stage. Ranks wait long
// enough for one that is only slow.
func TestStoppedRank(t *testing.T) {
	p := job{launcher: local, np: 3, flags: "--mode p2p-two-shot -b 64 -e 64 -N 0 -T 1", config: fmt.Sprintf("[bootstrap]\ntimeout = %q\n", max(3*time.Second, programtest.Within(time.Second)))}.start(t)
	p.await("a row", limit, func() bool { return strings.Contains(p.stdout.String(), " float ") })
	rank1 := p.pid(1)
	if err := syscall.Kill(rank1, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Rank 0 or rank 2 is the first to give up; the other may see that one leave.
	spoken := regexp.MustCompile(`(?s)rank 0 of 3 on .*\(exit code 4\)`)
	p.await("the deadline", limit, func() bool { return spoken.MatchString(p.stderr.String()) })
	// Rank 2 may wait for rank 1 at the stage before.
	silent := regexp.MustCompile(`rank 1 did not answer|ranks 1 and 2 did not answer`)
	if !silent.MatchString(p.stderr.String()) {
		t.Errorf("nobody names rank 1:\n%s", p.stderr.String())
	}
	// The launcher would give it 15 s.
	syscall.Kill(rank1, syscall.SIGKILL)
	o := p.wait(limit)
	if !slices.Contains([]int{4, 137}, o.exit) {
		t.Errorf("exit code %d", o.exit)
	}
	if o.run == nil || o.run.Status.State != result.Failed || !silent.MatchString(o.run.Status.Reason) && !strings.Contains(o.run.Status.Reason, "rank 2 left with exit code 4") {
		t.Errorf("the result does not say why the run failed: %+v", o.run)
	}
}

// pid is the process of a rank, as the header names it.
func (p *process) pid(rank int) int {
	p.t.Helper()
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^#  Rank +%d Group +0 Pid +(\d+) on`, rank)).FindStringSubmatch(p.stdout.String())
	if m == nil {
		p.t.Fatalf("no process id of rank %d in\n%s", rank, p.stdout.String())
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// A warning that comes before the program asks for it waits. The signal is sent
// as soon as it is blocked, long before Go's runtime has a handler for it.
func TestWarnedAtTheStart(t *testing.T) {
	p := job{launcher: local, np: 2, flags: endless}.start(t)
	status := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	blocked := regexp.MustCompile(`(?m)^SigBlk:\s*([0-9a-f]+)$`)
	p.await("SIGUSR1 blocked", limit, func() bool {
		text, _ := os.ReadFile(status)
		m := blocked.FindSubmatch(text)
		if m == nil {
			return false
		}
		mask, _ := strconv.ParseUint(string(m[1]), 16, 64)
		return mask&(1<<(uint(syscall.SIGUSR1)-1)) != 0
	})
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if o := p.wait(limit); o.exit != 143 || o.run == nil || o.run.Status.State != result.Interrupted {
		t.Errorf("exit code %d, result %+v", o.exit, o.run)
	}
}

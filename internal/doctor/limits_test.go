//go:build linux

package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
)

// With few open files the doctor says so at once, comes to an end soon, and never
// gives another reason: it runs out of files while it starts the probe processes, or
// these do.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	short := 0
	for n := 10; n <= 28; n += 3 {
		start := time.Now()
		prefix := []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, n)}
		r, code, stderr := program{args: []string{"run.device=sim", "run.mode=ring"}, prefix: prefix}.run(t)
		if took := time.Since(start); took > 25*time.Second {
			t.Errorf("%d files: it took %v", n, took)
		}
		if !strings.Contains(stderr, fmt.Sprintf("only %d files may be open", n)) || !strings.Contains(stderr, "ulimit -n") {
			t.Errorf("%d files: nothing was said beforehand: %s", n, stderr)
		}
		want(t, find(t, r.Findings, "limits.files"), Warning, "", "ulimit -n")
		for _, f := range r.Findings {
			if strings.Contains(f.Do, "ulimit -u") {
				t.Errorf("%d files, and yet: %+v", n, f)
			}
		}
		switch v := verdictOf(t, r, configs.ModeRing); v.Runs {
		case Yes:
		case No:
			t.Errorf("%d files: they say nothing about GPUs: %+v", n, v)
		default:
			short++
			f := find(t, r.Findings, v.Because[0])
			if code != 3 || f.Outcome != Unknown || !strings.Contains(f.Do, "ulimit -n") {
				t.Errorf("%d files: exit code %d, %+v", n, code, f)
			}
		}
	}
	if short == 0 {
		t.Error("no limit was too low: the test tests nothing")
	}
}

// Why a probe process does not start decides what to do.
func TestNotStarted(t *testing.T) {
	for _, tt := range []struct {
		err   error
		words string
	}{
		{unix.EMFILE, "ulimit -n"},
		{fmt.Errorf("pipe2: %w", unix.ENFILE), "ulimit -n"},
		{fmt.Errorf("fork/exec: %w", unix.EAGAIN), "ulimit -u"},
		{unix.EACCES, "can be read and run"},
	} {
		f, never := notStarted(askPeers, []told{{End: &ending{OK: true}}, {Rank: 1, Never: true, Lacks: lacks(tt.err), How: tt.err.Error()}})
		if !never {
			t.Errorf("%v: it is said to have started", tt.err)
		}
		want(t, f, Warning, Unknown, tt.words, tt.err.Error())
	}
	f, ok := starved(askMulticast, []told{{End: &ending{Text: "memfd_create: too many open files"}}})
	if !ok {
		t.Error("a probe process that ran out of files is taken for one that failed")
	}
	want(t, f, Warning, Unknown, "ulimit -n")
}

// What could not be told for want of files says so.
func TestUnsureForWantOfFiles(t *testing.T) {
	want(t, unsure("shm", "x", unix.EMFILE, "y"), Warning, Unknown, "ulimit -n")
	if f := unsure("shm", "x", unix.ENOENT, "y"); f.Do != "" {
		t.Errorf("%+v", f)
	}
	if f := fromError("descriptors", "x", fmt.Errorf("passing: %s", unix.EMFILE.Error()), allModes, "y"); !strings.Contains(f.Do, "ulimit -n") {
		t.Errorf("%+v", f)
	}
}

// Limits that are set, as the process meets them.
func TestUlimits(t *testing.T) {
	t.Parallel()
	prefix := []string{"sh", "-c", `ulimit -l 64 && ulimit -v 1000000000 && exec "$0" "$@"`}
	r, code, _ := program{args: []string{"run.device=sim", "bootstrap.mpi_library=/nonexistent/libmpi.so"}, environ: []string{"TMPDIR=/nonexistent"}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "limits.locked-memory"), Info, "", "RLIMIT_MEMLOCK = 65536")
	want(t, find(t, r.Findings, "limits.address-space"), Warning, "", "RLIMIT_AS = 1024000000000", "ulimit -v unlimited")
	want(t, find(t, r.Findings, "tmp"), Warning, No, "/nonexistent", "TMPDIR")
	want(t, find(t, r.Findings, "mpi"), Info, No, "no MPI library", "/nonexistent/libmpi.so")
	if code != 0 {
		t.Errorf("none of it keeps the software device from running: exit code %d: %s", code, r.Verdict.Text)
	}
}

// A network without an interface that is up, of this process's own.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, prefix: unshared(t, nil, "-rn")}.run(t)
	want(t, find(t, r.Findings, "network"), Warning, No, "no network interface is up", "ip link set lo up")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

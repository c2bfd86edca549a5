//go:build linux

package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
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
	none := filepath.Join(t.TempDir(), "none")
	prefix := []string{"sh", "-c", `ulimit -l 64 && ulimit -v 1000000000 && exec "$0" "$@"`}
	r, code, _ := program{args: []string{"run.device=sim", "bootstrap.mpi_library=/nonexistent/libmpi.so"}, environ: []string{"TMPDIR=" + none}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "limits.locked-memory"), Info, "", "RLIMIT_MEMLOCK = 65536")
	want(t, find(t, r.Findings, "limits.address-space"), Warning, "", "RLIMIT_AS = 1024000000000", "ulimit -v unlimited")
	want(t, find(t, r.Findings, "tmp"), Warning, No, none, "TMPDIR")
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

// Files of a limited size: the software device cannot be made, and a run ends with
// the same code.
func TestFileSize(t *testing.T) {
	t.Parallel()
	prefix := []string{"sh", "-c", `ulimit -f 100; exec "$0" "$@"`}
	r, code, _ := program{args: []string{"run.device=sim", "run.mode=ring"}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "limits.file-size"), Warning, "", "RLIMIT_FSIZE = ", "ulimit -f unlimited")
	want(t, find(t, r.Findings, "gpu.driver"), Failed, No, "file too large", "ulimit -f unlimited")
	if v := verdictOf(t, r, configs.ModeRing); code != int(failure.Internal) || v.Because[0] != "gpu.driver" {
		t.Errorf("exit code %d, %+v", code, v)
	}
}

// Timeouts that are too short for a process to start say nothing, and more software
// GPUs than a group can have are no more than it can have.
func TestExtremes(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim", "run.mode=ring", "bootstrap.timeout=1ms", "sim.devices=9"}}.run(t)
	if v := verdictOf(t, r, configs.ModeRing); v.Runs == No || (v.Runs == Yes) != (code == 0) {
		t.Errorf("exit code %d: %s", code, r.Verdict.Text)
	}
}

func TestBriefly(t *testing.T) {
	late := []told{{Late: true}, {End: &ending{OK: true}}}
	timed := []told{{End: &ending{Text: "x", Code: failure.Timeout}}}
	failed := costs(askPeers, "did not end in time", allModes, "x", failure.Administrator, Evidence{"v", "there"})
	want(t, briefly(failed, late, time.Second), Warning, Unknown, "timeout under [bootstrap]")
	want(t, briefly(failed, timed, time.Second), Warning, Unknown, "timeout under [bootstrap]")
	for name, f := range map[string]Finding{
		"30 s are enough":      briefly(failed, late, 30*time.Second),
		"nothing was late":     briefly(failed, []told{{End: &ending{Text: "x", Code: failure.Device}}}, time.Second),
		"it ended by a signal": briefly(failed, []told{{How: "signal: killed"}}, time.Second),
	} {
		if f.Severity != Failed || f.Outcome != No {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Few processes, for a user whom that limit binds: threads count.
func TestFewProcesses(t *testing.T) {
	s := fakeSystem(t, nil)
	s.User = 1234
	s.Limit = func(r int) (unix.Rlimit, error) { return unix.Rlimit{Cur: 30, Max: 30}, nil }
	f := processes(s)
	want(t, f, Warning, "", "RLIMIT_NPROC = 30", "ulimit -u")
	s.User = 0
	want(t, processes(s), OK, "", "does not bind root")
	s.User = 1234
	s.Limit = func(r int) (unix.Rlimit, error) { return unix.Rlimit{Cur: 4096, Max: 4096}, nil }
	want(t, processes(s), OK, "", "4096")
	// A process that cannot make a thread says nothing about GPUs. The words are those
	// of Go's runtime.
	for _, said := range []string{"runtime/cgo: pthread_create failed: Resource temporarily unavailable; SIGABRT: abort", "runtime: failed to create new OS thread (have 5 already; errno=11)"} {
		f, ok := starved(askPeers, []told{{End: &ending{Text: "rank 1 is gone"}}, {Rank: 1, How: "signal: aborted", Said: said}})
		if !ok {
			t.Fatalf("%s", said)
		}
		want(t, f, Warning, Unknown, "ulimit -u", said)
	}
}

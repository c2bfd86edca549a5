//go:build linux

package mpiboot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// launchRanks runs the own launcher in this process.
func launchRanks(t *testing.T, np int, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	exit, err := Launch(ctx, np, append([]string{os.Args[0], rankProgram}, args...), nil, &out, &errs)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if ctx.Err() != nil {
		t.Fatalf("not ended within %v\n%s\n%s", patience, out.String(), errs.String())
	}
	return exit, out.String(), errs.String()
}

// shorten the launcher's periods for one test.
func hurry(t *testing.T, grace, kill time.Duration) {
	g, k := launchGrace, launchKill
	launchGrace, launchKill = grace, kill
	t.Cleanup(func() { launchGrace, launchKill = g, k })
}

func TestLaunch(t *testing.T) {
	for _, np := range []int{1, 2, 4, 8} {
		exit, out, errs := launchRanks(t, np, "hello")
		checkRanks(t, np, LauncherLocal, exit, out+errs)
	}
}

// checkRanks reads what the scenario hello printed.
func checkRanks(t *testing.T, np int, launcher string, exit int, out string) {
	t.Helper()
	if exit != 0 {
		t.Fatalf("exit code %d\n%s", exit, out)
	}
	ids := map[string]bool{}
	for r := range np {
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^rank %d of %d by %s in ([0-9a-f]{32})$`, r, np, launcher)).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("rank %d of %d by %s said nothing:\n%s", r, np, launcher, out)
		}
		ids[m[1]] = true
	}
	if len(ids) != 1 {
		t.Errorf("%d unique ids among %d ranks", len(ids), np)
	}
}

func TestLaunchLines(t *testing.T) {
	exit, out, errs := launchRanks(t, 4, "lines")
	if exit != 0 {
		t.Fatalf("exit code %d\n%s", exit, errs)
	}
	next := map[string]int{}
	ends := 0
	for line := range strings.Lines(out) {
		if strings.HasSuffix(line, "has no end\n") {
			ends++
			continue
		}
		m := regexp.MustCompile(`^rank (\d) line (\d+) ([a-z]+)\|([a-z]+)\n$`).FindStringSubmatch(line)
		if m == nil {
			if !strings.Contains(line, " by local in ") {
				t.Fatalf("mixed line %q", line)
			}
			continue
		}
		r, _ := strconv.Atoi(m[1])
		if want := strings.Repeat(string(rune('a'+r)), 50); m[3] != want || m[4] != want || m[2] != strconv.Itoa(next[m[1]]) {
			t.Fatalf("mixed or misplaced line %q", line)
		}
		next[m[1]]++
	}
	for r := range 4 {
		if next[strconv.Itoa(r)] != 200 {
			t.Errorf("rank %d: %d lines", r, next[strconv.Itoa(r)])
		}
	}
	if ends != 4 {
		t.Errorf("%d unfinished lines came through, want 4", ends)
	}
}

func TestLaunchCodes(t *testing.T) {
	exit, out, errs := launchRanks(t, 3, "codes", "0", "7", "3")
	if exit != 7 {
		t.Errorf("exit code %d\n%s%s", exit, out, errs)
	}
}

func TestLaunchDeath(t *testing.T) {
	exit, _, errs := launchRanks(t, 3, "die")
	if exit != 128+9 {
		t.Errorf("exit code %d", exit)
	}
	for _, r := range []int{0, 2} {
		if !strings.Contains(errs, fmt.Sprintf("rank %d of 3", r)) || !strings.Contains(errs, "rank 1 closed its connection (it ended)") {
			t.Errorf("rank %d did not say what happened:\n%s", r, errs)
		}
	}
}

func TestLaunchAbsent(t *testing.T) {
	hurry(t, 300*time.Millisecond, 10*time.Second)
	t.Setenv("TEST_TIMEOUT", programtest.Within(2*time.Second).String())
	exit, _, errs := launchRanks(t, 2, "absent", "0")
	if exit != 4 || !strings.Contains(errs, `stage "agreement on the exit code"`) || !strings.Contains(errs, "rank 1 did not answer within ") {
		t.Errorf("exit code %d\n%s", exit, errs)
	}
}

// Ranks in containers: each in a user namespace of its own they still trust
// each other; in network namespaces of their own they need a directory.
func TestLaunchNamespaces(t *testing.T) {
	unshare := func(flags, dir, timeout string) (int, string) {
		t.Helper()
		t.Setenv("TEST_SOCKET_DIR", dir)
		t.Setenv("TEST_TIMEOUT", timeout)
		var out bytes.Buffer
		exit, err := Launch(bg, 2, []string{"unshare", flags, os.Args[0], rankProgram, "hello"}, nil, &out, &out)
		if err != nil {
			t.Fatal(err)
		}
		return exit, out.String()
	}
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare -rn: %v: %s", err, out)
	}
	exit, out := unshare("-r", "", "1m")
	checkRanks(t, 2, LauncherLocal, exit, out)
	exit, out = unshare("-U", "", "1m") // no user is mapped
	checkRanks(t, 2, LauncherLocal, exit, out)
	exit, out = unshare("-rn", "", "500ms")
	if exit != 4 || !strings.Contains(out, "networks of their own, set socket_dir") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
	dir, err := os.MkdirTemp("", "ns")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exit, out = unshare("-rn", dir, "1m")
	checkRanks(t, 2, LauncherLocal, exit, out)
}

func TestLaunchAbort(t *testing.T) {
	hurry(t, 300*time.Millisecond, 10*time.Second)
	exit, _, errs := launchRanks(t, 3, "abort")
	if exit != 7 || !strings.Contains(errs, "rank 1 alone found this (exit code 7)") || !strings.Contains(errs, "rank 1 failed (exit status 7)") {
		t.Errorf("exit code %d\n%s", exit, errs)
	}
}

func TestLaunchRankNeverJoins(t *testing.T) {
	hurry(t, 300*time.Millisecond, 10*time.Second)
	exit, _, errs := launchRanks(t, 2, "early")
	if exit != 6 || !strings.Contains(errs, "rank 0 was ended") {
		t.Errorf("exit code %d\n%s", exit, errs)
	}
}

func TestLaunchKillsTheDeaf(t *testing.T) {
	hurry(t, 300*time.Millisecond, 300*time.Millisecond)
	exit, _, errs := launchRanks(t, 2, "deaf", "fail")
	if exit != 5 || !strings.Contains(errs, "rank 1 has not ended within 300ms of SIGTERM: killing it") {
		t.Errorf("exit code %d\n%s", exit, errs)
	}
}

func TestLaunchCannotStart(t *testing.T) {
	exit, err := Launch(bg, 2, []string{"/nonexistent/program"}, nil, os.Stdout, os.Stderr)
	if err == nil || exit != int(failure.CodeOf(err)) || !strings.Contains(err.Error(), "/nonexistent/program") {
		t.Errorf("%d, %v", exit, err)
	}
	if exit, err := Launch(bg, 0, []string{"true"}, nil, os.Stdout, os.Stderr); exit != int(failure.Usage) || err == nil {
		t.Errorf("%d, %v", exit, err)
	}
}

func TestLaunchContext(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	out := &watched{text: "ready\n", seen: cancel}
	exit, err := Launch(ctx, 2, []string{os.Args[0], rankProgram, "wait"}, nil, out, os.Stderr)
	if exit != int(failure.Terminated) || err != nil {
		t.Errorf("%d, %v\n%s", exit, err, out)
	}
}

// watched calls seen once text has been written to it.
type watched struct {
	mu   sync.Mutex
	all  bytes.Buffer
	text string
	seen func()
	once sync.Once
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(b)
	if strings.Contains(w.all.String(), w.text) {
		w.once.Do(w.seen)
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// await waits until text was written n times, or gives up.
func (w *watched) await(text string, n int) {
	for end := time.Now().Add(patience); strings.Count(w.String(), text) < n && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
}

// signalled starts cmd, does act once its ranks are ready, and gives its exit
// code and output.
func signalled(t *testing.T, cmd *exec.Cmd, text string, act func(pid int, out *watched)) (int, string) {
	t.Helper()
	out := &watched{text: text}
	out.seen = func() { go act(cmd.Process.Pid, out) }
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer stop.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestLaunchPassesSignals(t *testing.T) {
	cmd := exec.Command(os.Args[0], rankProgram, "launch", "3", "wait")
	exit, out := signalled(t, cmd, "ready\n", func(pid int, out *watched) {
		syscall.Kill(pid, syscall.SIGUSR1)
		out.await("user defined signal 1", 3)
		syscall.Kill(pid, syscall.SIGUSR2)
		out.await("user defined signal 2", 3)
		syscall.Kill(pid, syscall.SIGTERM)
	})
	if exit != 143 {
		t.Errorf("exit code %d", exit)
	}
	for r := range 3 {
		for _, s := range []string{"user defined signal 1", "user defined signal 2", "terminated"} {
			if n := strings.Count(out, fmt.Sprintf("rank %d got %s\n", r, s)); n != 1 {
				t.Errorf("rank %d got %q %d times:\n%s", r, s, n, out)
			}
		}
	}
}

// The ranks are in process groups of their own, so a terminal that goes away
// reaches them only through the launcher; under nohup nothing ends.
func TestLaunchHangup(t *testing.T) {
	hangup := func(pid int, _ *watched) {
		syscall.Kill(pid, syscall.SIGHUP)
		time.Sleep(300 * time.Millisecond)
		syscall.Kill(pid, syscall.SIGTERM)
	}
	cmd := exec.Command(os.Args[0], rankProgram, "launch", "2", "wait")
	if exit, out := signalled(t, cmd, "ready\n", hangup); exit != 129 && exit != 143 || strings.Contains(out, "got") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
	cmd = exec.Command("nohup", os.Args[0], rankProgram, "launch", "2", "wait")
	if exit, out := signalled(t, cmd, "ready\n", hangup); exit != 143 || strings.Count(out, "got terminated") != 2 {
		t.Errorf("nohup: exit code %d\n%s", exit, out)
	}
}

// No rank outlives a launcher that was killed.
func TestLaunchLeavesNoOrphans(t *testing.T) {
	cmd := exec.Command(os.Args[0], rankProgram, "launch", "2", "deaf")
	both := regexp.MustCompile(`(?s)pid (\d+)\n.*pid (\d+)\n`)
	out := &watched{text: "\x00"}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []string
	for end := time.Now().Add(10 * time.Second); pids == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		pids = both.FindStringSubmatch(out.String())
	}
	cmd.Process.Kill()
	if pids == nil {
		t.Fatalf("the ranks did not come up:\n%s", out)
	}
	cmd.Wait()
	for _, p := range pids[1:] {
		pid, _ := strconv.Atoi(p)
		gone := false
		for end := time.Now().Add(5 * time.Second); !gone && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			// A zombie that init has not fetched yet counts as gone.
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			gone = err != nil || strings.Contains(string(stat), ") Z ")
		}
		if !gone {
			t.Errorf("rank with pid %d is still there", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestLineWriter(t *testing.T) {
	var b bytes.Buffer
	var mu sync.Mutex
	w := &lineWriter{w: &b, mu: &mu, err: new(writeError)}
	other := w.fork()
	fmt.Fprint(w, "one ")
	fmt.Fprint(other, "two\nthr")
	fmt.Fprint(w, "line\nnext\nun")
	other.flush()
	w.flush()
	w.flush()
	if got, want := b.String(), "two\none line\nnext\nthr\nun\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	fmt.Fprint(w, strings.Repeat("x", longestLine+1))
	if b.Len() != longestLine+2 {
		t.Errorf("an endless line of %d was held back", longestLine)
	}
}

//go:build linux

package containertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// program is the binary under test, as users build it.
var program string

func TestMain(m *testing.M) { programtest.Main(m, &program, nil) }

// outcome is how a command ended.
type outcome struct {
	exit int
	out  string // both streams
	took time.Duration
}

// run runs a command and checks that it leaves nothing.
func run(t *testing.T, argv ...string) outcome {
	t.Helper()
	leftovers.Check(t, program)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = Environ()
	cmd.WaitDelay = 2 * time.Second
	start := time.Now()
	stop := time.AfterFunc(4*time.Minute, func() {
		t.Errorf("%v has not ended", argv)
		cmd.Process.Kill()
	})
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%v: %v", argv, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), string(out), time.Since(start)}
}

func (o outcome) want(t *testing.T, exit int, parts ...string) {
	t.Helper()
	if o.exit != exit {
		t.Errorf("exit code %d, want %d\n%s", o.exit, exit, o.out)
	}
	for _, part := range parts {
		if !strings.Contains(o.out, part) {
			t.Errorf("no %q in\n%s", part, o.out)
		}
	}
}

// mpirun is the beginning of a command line of this host's Open MPI.
func mpirun(np int) []string {
	return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(np)}
}

// allModes is a run of every mode with few sizes, in a folder that all ranks see.
func allModes(dir string, flags ...string) []string {
	return append([]string{"run", "--device", "sim", "--mode", "all", "-b", "1K", "-e", "64K", "-f", "64", "-n", "1", "-w", "1",
		"-J", filepath.Join(dir, "result.json")}, flags...)
}

// right checks the result of allModes: every mode ran, and no element is wrong.
func right(t *testing.T, dir, launcher string, ranks int) *result.Run {
	t.Helper()
	r, err := result.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Status.State != result.Complete || r.WorldSize != ranks || r.Launcher != launcher {
		t.Errorf("%d ranks of launcher %q, status %+v; want %d of %q, complete", r.WorldSize, r.Launcher, r.Status, ranks, launcher)
	}
	modes := map[string]int{}
	for _, row := range r.Rows {
		modes[row.Mode]++
		if row.Wrong == nil || *row.Wrong != 0 {
			t.Errorf("%s, %d bytes: wrong elements %v", row.Mode, row.Size, row.Wrong)
		}
	}
	for _, mode := range []string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p"} {
		// 1K and 64K, out of place and in place.
		if modes[mode] != 4 {
			t.Errorf("%d rows of %s, want 4", modes[mode], mode)
		}
	}
	leftovers.Sockets(t, r.ID)
	return r
}

// shared is a short folder that all containers of a test see: a socket's path
// may have 107 bytes.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "share")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

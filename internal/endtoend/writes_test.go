package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// What cannot be written is told, and does not take the rest with it.
func TestOutputThatFails(t *testing.T) {
	quick := []string{"--device", "sim", "--mode", "ring", "-b", "8", "-e", "64", "-n", "1", "-w", "1"}
	run := func(t *testing.T, stdout *os.File, args ...string) (code int, stderr string) {
		leftovers.Check(t, program)
		cmd := exec.Command(program, append(append([]string{}, quick...), args...)...)
		cmd.Env = programtest.Environ(nil)
		var b strings.Builder
		cmd.Stderr = &b
		if stdout != nil {
			cmd.Stdout = stdout
		}
		err := cmd.Start()
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
		defer timer.Stop()
		cmd.Wait()
		return cmd.ProcessState.ExitCode(), b.String()
	}
	for _, np := range [][]string{nil, {"--np", "2"}} {
		t.Run("full"+strings.Join(np, ""), func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			path := filepath.Join(t.TempDir(), "r.json")
			code, stderr := run(t, full, append(np, "-J", path)...)
			if code != 1 || !strings.Contains(stderr, "cannot write to standard output") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			r, err := result.ReadFile(path)
			if err != nil || r.Status.State != result.Complete {
				t.Errorf("%v, %+v", err, r)
			}
		})
		t.Run("closed pipe"+strings.Join(np, ""), func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			reader.Close()
			defer writer.Close()
			path := filepath.Join(t.TempDir(), "r.json")
			code, stderr := run(t, writer, append(np, "-J", path)...)
			if code != 1 || !strings.Contains(stderr, "cannot write to standard output") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if r, err := result.ReadFile(path); err != nil || r.Status.State != result.Complete {
				t.Errorf("%v, %+v", err, r)
			}
		})
	}
	t.Run("pipe without reader", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r.json")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, stderr := run(t, nil, "-J", path); code != 6 || !strings.Contains(stderr, "cannot write "+path) {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	t.Run("before anything is measured", func(t *testing.T) {
		if code, stderr := run(t, nil, "-J", "/proc/r.json"); code != 6 || !strings.Contains(stderr, "try the output files") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
}

//go:build linux

package endtoend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The binaries under test. They lie in a folder of their own, by which processes
// that run them are recognised.
var (
	binDir  string
	program string // as users build it
	faulty  string // with the faults of internal/bench/fault_inject.go
)

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "endtoend")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// As /proc/PID/exe will show it.
	if binDir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	program, faulty = filepath.Join(binDir, "nvls-allreduce"), filepath.Join(binDir, "faulty")
	for _, args := range [][]string{{"-o", program}, {"-o", faulty, "-tags", "faultinject"}} {
		cmd := exec.Command("go", append(append([]string{"build"}, args...), "../../cmd/nvls-allreduce")...)
		cmd.Env = append(os.Environ(), "CGO_CFLAGS="+os.Getenv("CGO_CFLAGS")+" -Wno-deprecated-declarations")
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			return 0, fmt.Errorf("go build %v: %v\n%s", args, err, out)
		}
	}
	return m.Run(), nil
}

//go:build linux

// Package programtest builds the program for tests that run it as its users do,
// each rank a process, and sees that nothing around the test changes what it does:
// neither the user's environment (Environ) nor tests of other packages, which go
// test runs beside (leftovers.Isolate).
package programtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
)

// buildLimit is how long one go build may take, beside other tests and with a
// cold cache.
const buildLimit = 8 * time.Minute

// source is the program's package; every test that uses this one is in the module.
const source = "github.com/nvls-allreduce/nvls-allreduce/cmd/nvls-allreduce"

// Main is a TestMain: it builds the program as users do, sets *program to its
// path, runs the tests and ends the process. With faulty it also builds the
// program that takes faults from its environment (internal/bench/fault_inject.go).
// The files lie in a folder of their own, which is gone afterwards.
func Main(m *testing.M, program, faulty *string) {
	leftovers.Isolate()
	code, err := run(m, program, faulty)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, program, faulty *string) (int, error) {
	dir, err := os.MkdirTemp("", "programtest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// As /proc/PID/exe will show it.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	*program = filepath.Join(dir, "nvls-allreduce")
	if err := build(*program, ""); err != nil {
		return 0, err
	}
	if faulty != nil {
		*faulty = filepath.Join(dir, "faulty")
		if err := build(*faulty, "faultinject"); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

func build(path, tags string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_CFLAGS="+os.Getenv("CGO_CFLAGS")+" -Wno-deprecated-declarations")
	// The compiler has nothing to say about this program.
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
	return nil
}

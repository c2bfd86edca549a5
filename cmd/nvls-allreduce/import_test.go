package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A signal in the middle of a long result leaves nothing behind: the half file
// would have hundreds of megabytes.
func TestImportIsEnded(t *testing.T) {
	const log = "../../internal/importer/testdata/nccl-2.13.log"
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	first, end := strings.Index(s, "   268435456"), strings.Index(s, "# Out of bounds")
	dir := t.TempDir()
	long := filepath.Join(dir, "long.log")
	if err := os.WriteFile(long, []byte(s[:first]+strings.Repeat(s[first:end], 20e6/(end-first))+s[end:]), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.json")
	if err := os.WriteFile(out, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{program, "import", long, "-o", out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	half := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, ".out.json.*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for wait := time.Now().Add(30 * time.Second); len(half()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(wait) {
			cmd.Process.Kill()
			t.Fatal("nothing is written")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
	if left := half(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "before" {
		t.Errorf("the target was changed: %d bytes, %v", len(b), err)
	}
}

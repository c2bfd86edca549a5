//go:build linux

package leftovers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recorder is a test that fails without failing this one.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "sleep")
	if err := os.WriteFile(program, code, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func(dir string) { sharedMemoryDir = dir }(sharedMemoryDir)
	sharedMemoryDir = t.TempDir()
	r := &recorder{TB: t}
	Check(r, program)
	cmd := exec.Command(program, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	file := filepath.Join(sharedMemoryDir, "segment")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	for _, f := range r.cleanups {
		f()
	}
	all := strings.Join(r.errors, "\n")
	for _, want := range []string{fmt.Sprintf("process %d is left", cmd.Process.Pid), file + " is left"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	killed := make(chan error, 1)
	go func() { killed <- cmd.Wait() }()
	select {
	case <-killed:
	case <-time.After(5 * time.Second):
		t.Error("the process was not killed")
	}
}

func TestSockets(t *testing.T) {
	id := fmt.Sprintf("test%d", os.Getpid())
	r := &recorder{TB: t}
	Sockets(r, id)
	if len(r.errors) > 0 {
		t.Errorf("before there is one: %v", r.errors)
	}
	l, err := net.Listen("unix", "@nvls-allreduce."+id+".0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if Sockets(r, id); len(r.errors) != 1 {
		t.Errorf("one socket: %v", r.errors)
	}
}

//go:build linux

package leftovers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envLeave makes the test binary leave a process of this program running, and a
// file in /dev/shm, and wait.
const envLeave = "LEFTOVERS_TEST_LEAVE"

func TestMain(m *testing.M) {
	Isolate()
	if program := os.Getenv(envLeave); program != "" {
		leave(program)
	}
	patience = 300 * time.Millisecond // these tests leave things on purpose
	os.Exit(m.Run())
}

func leave(program string) {
	err := os.WriteFile(shmFile, nil, 0o600)
	cmd := exec.Command(program, "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

const shmFile = machineSharedMemory + "/nvls-isolate-test"

// A test binary that is killed leaves nothing, neither running nor in /dev/shm.
func TestIsolate(t *testing.T) {
	if !isolated() {
		t.Skip("only root can have namespaces, and not in every container")
	}
	program := copyOf(t, "sleep")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envNamespace+"=", envLeave+"="+program)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for end := time.Now().Add(time.Minute); len(Processes(program)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process did not start")
		}
	}
	if _, err := os.Stat(shmFile); err == nil {
		t.Errorf("%s is seen outside", shmFile)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(Processes(program)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process is left")
		}
	}
}

// copyOf gives a program a file of its own.
func copyOf(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(copied, code, 0o755); err != nil {
		t.Fatal(err)
	}
	return copied
}

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
	program := copyOf(t, "sleep")
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
	// One that goes soon is not left.
	time.AfterFunc(patience/3, func() { l.Close() })
	if Sockets(r, id); len(r.errors) != 1 {
		t.Errorf("a socket that goes: %v", r.errors)
	}
}

// In the machine's own /dev/shm, others make files too.
func TestSharedMemoryOfOthers(t *testing.T) {
	if !isolated() {
		t.Skip("without a /dev/shm of its own, the test would disturb others")
	}
	t.Setenv(envNamespace, "")
	r := &recorder{TB: t}
	Check(r)
	for _, name := range []string{"test", "nvls-test"} {
		file := filepath.Join(machineSharedMemory, fmt.Sprintf("%s%d", name, os.Getpid()))
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(file) })
	}
	for _, f := range r.cleanups {
		f()
	}
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "nvls-test") {
		t.Errorf("%v", r.errors)
	}
}

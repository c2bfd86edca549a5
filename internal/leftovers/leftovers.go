//go:build linux

// Package leftovers looks, after a test, for what a job must not leave behind:
// processes, abstract sockets, and files in /dev/shm.
package leftovers

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long after a job's end its processes may take to be gone. A
// launcher may return before the last of them.
const patience = 3 * time.Second

// sharedMemoryDir is where POSIX shared memory is. The test of this package has
// a directory of its own, for the tests of other packages look here meanwhile.
var sharedMemoryDir = "/dev/shm"

// Check fails the test if a process of program is there at its end, or a new
// file in /dev/shm. Such processes are killed. The program is recognised by its
// file, whatever name it has in a container.
func Check(t testing.TB, program string) {
	t.Helper()
	before := sharedMemory()
	t.Cleanup(func() {
		left := Processes(program)
		for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = Processes(program) {
			time.Sleep(20 * time.Millisecond)
		}
		for _, pid := range left {
			t.Errorf("process %d is left", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, name := range sharedMemory() {
			if !slices.Contains(before, name) && !ofMPI(name) {
				t.Errorf("%s is left", filepath.Join(sharedMemoryDir, name))
			}
		}
	})
}

// Processes finds those that run the program.
func Processes(program string) []int {
	want, err := os.Stat(program)
	if err != nil {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, l := range links {
		// A zombie has no file any more; it has ended.
		if is, err := os.Stat(l); err == nil && os.SameFile(is, want) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Sockets fails the test if an abstract socket of the run with this unique id is
// in the network namespace of the test.
func Sockets(t testing.TB, id string) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), " @nvls-allreduce."+id); ok {
			t.Errorf("the socket @nvls-allreduce.%s%s is left", id, name)
		}
	}
}

func sharedMemory() []string {
	entries, _ := os.ReadDir(sharedMemoryDir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ofMPI recognises the files of Open MPI, PMIx and MPICH, which are theirs to
// clean up and which a killed rank leaves.
func ofMPI(name string) bool {
	return slices.ContainsFunc([]string{"vader_segment.", "sm_segment.", "osc_", "pmix", "mpich_", "psm", "ucx_shm"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

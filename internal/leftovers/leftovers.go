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

// patience is how long after a job's end its processes and sockets may take to be
// gone. A launcher may return before the last of the ranks that it killed.
var patience = 5 * time.Second

const machineSharedMemory = "/dev/shm"

// sharedMemoryDir is where POSIX shared memory is. The test of this package has
// a directory of its own, for the tests of other packages look here meanwhile.
var sharedMemoryDir = machineSharedMemory

// Check fails the test if a process of one of the programs is there at its end,
// or a new file in /dev/shm. Such processes are killed. A program is recognised by
// its file, whatever name it has in a container. In a /dev/shm that is not this
// test's alone (see Isolate), only names of this project count.
func Check(t testing.TB, programs ...string) {
	t.Helper()
	before := sharedMemory()
	t.Cleanup(func() {
		for _, pid := range await(func() []int { return Processes(programs...) }) {
			t.Errorf("process %d is left", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, name := range sharedMemory() {
			if !slices.Contains(before, name) && !ofMPI(name) && (alone() || strings.Contains(name, "nvls")) {
				t.Errorf("%s is left", filepath.Join(sharedMemoryDir, name))
			}
		}
	})
}

// alone says whether nobody else makes files in sharedMemoryDir.
func alone() bool { return isolated() || sharedMemoryDir != machineSharedMemory }

// await gives what find still finds when patience has ended.
func await[T any](find func() []T) []T {
	left := find()
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = find() {
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// Processes finds those that run one of the programs.
func Processes(programs ...string) []int {
	var want []os.FileInfo
	for _, p := range programs {
		if file, err := os.Stat(p); err == nil {
			want = append(want, file)
		}
	}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, l := range links {
		// A zombie has no file any more; it has ended.
		is, err := os.Stat(l)
		if err == nil && slices.ContainsFunc(want, func(file os.FileInfo) bool { return os.SameFile(is, file) }) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Sockets fails the test if an abstract socket of the run with this unique id is
// left in the network namespace of the test.
func Sockets(t testing.TB, id string) {
	t.Helper()
	for _, name := range await(func() []string { return sockets(id) }) {
		t.Errorf("the socket @nvls-allreduce.%s is left", name)
	}
}

// sockets lists those that are named by the id; others belong to tests that run
// beside.
func sockets(id string) []string {
	text, _ := os.ReadFile("/proc/net/unix")
	var names []string
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), " @nvls-allreduce."+id); ok {
			names = append(names, id+name)
		}
	}
	return names
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

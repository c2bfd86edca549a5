//go:build linux

package endtoend

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

// processes finds those that run a binary of this test.
func processes() []int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && filepath.Dir(exe) == binDir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			// A zombie has ended; its parent has only not looked yet.
			if stat, err := os.ReadFile(filepath.Join(filepath.Dir(l), "stat")); err == nil && !strings.Contains(string(stat), ") Z ") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// sockets lists this project's abstract sockets that are named by a run's id:
// others belong to tests that run beside.
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

// sharedMemory lists what is in /dev/shm.
func sharedMemory() []string {
	entries, _ := os.ReadDir("/dev/shm")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// noneLeft fails the test if a process of it is still there shortly after its
// end, or a file in /dev/shm that is not an MPI library's own. Those are the
// library's to clean up, which a killed rank cannot do.
func noneLeft(t *testing.T, before []string) {
	t.Helper()
	end := time.Now().Add(3 * time.Second)
	for len(processes()) > 0 && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, name := range sharedMemory() {
		if slices.Contains(before, name) || ofMPI(name) {
			continue
		}
		t.Errorf("/dev/shm/%s is left", name)
	}
}

// ofMPI recognises the files of Open MPI, PMIx and MPICH.
func ofMPI(name string) bool {
	return slices.ContainsFunc([]string{"vader_segment.", "sm_segment.", "osc_", "pmix", "mpich_", "psm", "ucx_shm"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// noSockets fails the test if a socket of the run id is left shortly after its
// end. A launcher may return a moment before the ranks that it killed are gone.
func noSockets(t *testing.T, id string) {
	t.Helper()
	end := time.Now().Add(3 * time.Second)
	for len(sockets(id)) > 0 && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := sockets(id); len(left) > 0 {
		t.Errorf("the sockets @nvls-allreduce.%v are left", left)
	}
}

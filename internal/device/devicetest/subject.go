// Package devicetest is the suite that every implementation of the device
// contract passes. What a collective relies on is tested here, on the software
// device and on GPUs alike; what only one of them can do is tested beside it.
//
// Ranks are goroutines in one process, each with a device of its own, and then
// processes, made by running the test binary again. Ranks may share one GPU.
// Parts that need more than there is are skipped by name.
//
// Rules for a test in here: nothing of one driver by name; error codes only
// where both drivers document them; faults of kernels only in a child process,
// because they cost a process its GPU context; no wait without a deadline.
package devicetest

import (
	"os"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Subject is the driver under test.
type Subject struct {
	// Processes is the number of ranks when ranks are processes, at most 8; 0
	// means 3. The multicast part needs as many devices.
	Processes int
	// Share makes what the ranks of a group have in common, as descriptors that
	// child processes inherit. It may be nil.
	Share func(t testing.TB) []*os.File
	// Open opens the device of one rank, in whatever process. files are Share's.
	// What it opens is closed by t's cleanup.
	Open func(t testing.TB, files []*os.File, rank, size int) device.Device
}

// Run runs the suite. It must be called by a test function of its own, which
// does nothing else: child processes run that function again.
func Run(t *testing.T, s Subject) {
	if inChild() {
		runChild(t, s)
		return
	}
	if s.Processes == 0 {
		s.Processes = 3
	}
	t.Run("Info", func(t *testing.T) { solo(t, s, testInfo) })
	t.Run("Allocate", func(t *testing.T) { solo(t, s, testAllocate) })
	t.Run("Map", func(t *testing.T) { solo(t, s, testMap) })
	t.Run("HostCopies", func(t *testing.T) { solo(t, s, testHostCopies) })
	t.Run("Module", func(t *testing.T) { solo(t, s, testModule) })
	t.Run("StreamOrder", func(t *testing.T) { solo(t, s, testStreamOrder) })
	t.Run("Blocks", func(t *testing.T) { solo(t, s, testBlocks) })
	t.Run("WaitDeadline", func(t *testing.T) { solo(t, s, testWaitDeadline) })
	t.Run("TwoStreams", func(t *testing.T) { solo(t, s, testTwoStreams) })
	t.Run("Events", func(t *testing.T) { solo(t, s, testEvents) })
	t.Run("WaitEvent", func(t *testing.T) { solo(t, s, testWaitEvent) })
	t.Run("Graph", func(t *testing.T) { solo(t, s, testGraph) })
	t.Run("GraphOfBranches", func(t *testing.T) { solo(t, s, testBranches) })
	t.Run("UnjoinedBranch", func(t *testing.T) { solo(t, s, testUnjoined) })
	t.Run("LaunchAllocatesNothing", func(t *testing.T) { solo(t, s, testLaunchAllocates) })

	t.Run("ImportOfSomethingElse", func(t *testing.T) { solo(t, s, testImportOther) })
	for _, name := range names(scenarios) {
		t.Run(name, func(t *testing.T) {
			t.Run("goroutines", func(t *testing.T) { inProcess(t, s, 2, name) })
			t.Run("processes", func(t *testing.T) { inProcesses(t, s, s.Processes, name) })
		})
	}
	for _, name := range names(faults) {
		t.Run("Fault"+name, func(t *testing.T) { inProcesses(t, s, 1, name) })
	}
	t.Run("Multicast", func(t *testing.T) { testMulticast(t, s) })
}

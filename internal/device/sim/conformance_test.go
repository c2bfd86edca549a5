package sim_test

import (
	"os"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/devicetest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
)

// subject is a group of ranks on fresh software GPUs: every rank has a session
// of its own, as a process has.
func subject(o sim.Options) devicetest.Subject {
	return devicetest.Subject{
		Share: func(t testing.TB) []*os.File { return create(t, o).Files() },
		Open: func(t testing.TB, files []*os.File, rank, size int) device.Device {
			s := attach(t, files)
			s.Use(o.Process)
			return open(t, s, rank%len(s.Driver().Devices()))
		},
	}
}

func create(t testing.TB, o sim.Options) *sim.Session {
	t.Helper()
	s, err := sim.Create(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

func attach(t testing.TB, files []*os.File) *sim.Session {
	t.Helper()
	s, err := sim.Attach(files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

func closed(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func open(t testing.TB, s *sim.Session, ordinal int) device.Device {
	t.Helper()
	d, err := s.Driver().Open(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, d) })
	return d
}

const gib = 1 << 30

// The usual node: eight devices, a rank on each.
func TestConformance(t *testing.T) {
	s := subject(sim.Options{MemoryBytes: gib})
	s.Processes = 8
	devicetest.Run(t, s)
}

// All ranks share one device: no multicast part, all else.
func TestConformanceSharedGPU(t *testing.T) {
	devicetest.Run(t, subject(sim.Options{Devices: 1, MemoryBytes: gib}))
}

// Granularities unlike those that every H100 reports.
func TestConformanceGranularity(t *testing.T) {
	devicetest.Run(t, subject(sim.Options{Devices: 4, MemoryBytes: gib, MulticastMinimum: 4 << 20, MulticastRecommended: 8 << 20}))
}

// A device without multicast, and a smaller one.
func TestConformanceA100(t *testing.T) {
	devicetest.Run(t, subject(sim.Options{Devices: 2, MemoryBytes: gib, Major: 8, SMs: 1, BlocksPerSM: 1}))
}

func TestConformanceMulticastOff(t *testing.T) {
	devicetest.Run(t, subject(sim.Options{Devices: 2, MemoryBytes: gib, Process: sim.Process{MulticastOff: "NCCL_NVLS_ENABLE=0"}}))
}

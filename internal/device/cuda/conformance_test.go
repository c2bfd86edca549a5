package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/devicetest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
)

// TestConformance runs the suite of the device contract on the GPUs of this
// machine, the ranks spread over them in turn. It is skipped where there is no
// GPU, and fails where there is one that does not work.
func TestConformance(t *testing.T) {
	drv := openReal(t)
	for _, info := range drv.Devices() {
		t.Logf("%s, %s: %s", drv.Version(), info.Name, info.UUID)
	}
	if off := drv.Devices()[0].MulticastOff; off != "" {
		t.Logf("multicast is not tested: switched off by %s", off)
	}
	devicetest.Run(t, devicetest.Subject{
		Open: func(t testing.TB, _ []*os.File, rank, size int) device.Device {
			dev, err := drv.Open(rank % len(drv.Devices()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := dev.Close(); err != nil && !isFault(err) {
					t.Error(err)
				}
			})
			return dev
		},
	})
}

// isFault tells whether err is that of a context which a kernel has destroyed:
// every later call reports it again, the closing ones included.
func isFault(err error) bool {
	const (
		illegalInstruction device.Code = 715
		invalidPC          device.Code = 718
	)
	switch code, _ := device.CodeOf(err); code {
	case device.IllegalAddress, device.LaunchTimeout, illegalInstruction, device.MisalignedAddr,
		device.InvalidAddrSpace, invalidPC, device.LaunchFailed:
		return true
	}
	return false
}

// openReal opens the machine's libcuda, or skips the test where there is no GPU.
func openReal(t *testing.T) device.Driver {
	t.Helper()
	drv, err := Open(Options{MulticastOff: testMulticastOff(t)})
	if err != nil {
		nodes, _ := filepath.Glob("/dev/nvidia[0-9]*")
		if len(nodes) == 0 && failure.CodeOf(err) == failure.Unavailable {
			t.Skipf("there is no GPU here: %v", err)
		}
		t.Fatalf("there are GPUs here (%v), but: %v", nodes, err)
	}
	t.Cleanup(func() {
		if err := drv.Close(); err != nil {
			t.Error(err)
		}
	})
	return drv
}

// testMulticastOff is the site switch for tests on real GPUs. A test is stricter
// than a run: whoever runs all tests has not asked for multicast, so it stays
// off until asked for by name.
func testMulticastOff(t *testing.T) string {
	off, err := site.MulticastOff("", os.Getenv, false)
	if err != nil {
		t.Fatal(err)
	}
	if off == "" && os.Getenv(site.EnvMulticast) == "" {
		off = "the tests, unless " + site.EnvMulticast + "=auto is in the environment"
	}
	return off
}

// TestRealFacts checks what the driver and NVML say of real GPUs for sense.
func TestRealFacts(t *testing.T) {
	drv := openReal(t)
	for _, info := range drv.Devices() {
		t.Logf("%+v", info)
		if info.UUID == (device.UUID{}) || info.Name == "" || info.PCI == "" || info.Major < 5 || info.SMs < 1 ||
			info.MemoryBytes < 1<<30 || info.MaxThreadsPerBlock < 1024 || info.MaxBlocksPerSM < 1 {
			t.Errorf("device %d: facts are missing", info.Ordinal)
		}
		if info.Link.Links > 0 && (info.Link.PeakBytesPerSecond < float64(info.Link.Links)*20e9 || info.Link.PeakBytesPerSecond > float64(info.Link.Links)*200e9) {
			t.Errorf("device %d: %d links of together %g bytes/s", info.Ordinal, info.Link.Links, info.Link.PeakBytesPerSecond)
		}
		fabric, ok := drv.(*Driver).Fabric(info.Ordinal)
		t.Logf("fabric %+v, known: %v", fabric, ok)
	}
}

// TestRealMemoryComesBack sets up and tears down everything and compares the
// device's free memory: a leak of physical memory shows.
func TestRealMemoryComesBack(t *testing.T) {
	drv := openReal(t)
	dev, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	granularity := must(dev.Granularity())
	cycle := func() {
		m := must(dev.Alloc(16 * granularity))
		must(m.Map())
		file := must(m.Export())
		peer := must(dev.Import(file, m.Bytes()))
		must(peer.Map())
		for _, step := range []func() error{file.Close, peer.Unmap, peer.Close, m.Unmap, m.Close} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle() // the first one may leave page tables behind
	before, _, err := dev.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		cycle()
	}
	after, _, err := dev.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	if lost := int64(before) - int64(after); lost >= int64(16*granularity) {
		t.Errorf("%d bytes of device memory did not come back", lost)
	}
}

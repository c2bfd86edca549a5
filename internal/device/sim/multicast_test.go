package sim_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestMulticastAccess(t *testing.T) {
	// object is a multicast object of two devices, of which the first has bound
	// the first half only.
	object := func(t *testing.T) (b *bench, at device.Ptr) {
		s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
		b, peer := newBench(t, open(t, s, 0)), open(t, attach(t, s.Files()), 1)
		mc, err := b.CreateMulticast(2, 2*sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		f, err := mc.Export()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = mc.Map()
		wantCode(t, err, device.InvalidValue) // not all devices were added
		far, err := peer.ImportMulticast(f, 2, 2*sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []device.Multicast{mc, far} {
			if err := m.AddDevice(); err != nil {
				t.Fatal(err)
			}
		}
		mine, _ := b.alloc(sim.Granule)
		other, err := peer.Alloc(2 * sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		if err := mc.Bind(0, mine, 0, sim.Granule); err != nil {
			t.Fatal(err)
		}
		if err := far.Bind(0, other, 0, 2*sim.Granule); err != nil {
			t.Fatal(err)
		}
		at, err = mc.Map()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.stream.Launch(b.function("add"), 1, 1, 0, storeArgs(at, 0)); err != nil {
			t.Fatal(err)
		}
		if err := waited(t, b.stream); err != nil {
			t.Fatalf("multimem where all is bound: %v", err)
		}
		return b, at
	}
	t.Run("plain store", func(t *testing.T) {
		b, at := object(t)
		wantCode(t, b.CopyToDevice(at, make([]byte, 4)), device.InvalidValue)
		wantCode(t, b.stream.Set32(at, 0, 1), device.InvalidValue)
		wantCode(t, b.fault("store", at), device.InvalidAddrSpace)
	})
	t.Run("multimem on memory", func(t *testing.T) {
		b, _ := object(t)
		_, p := b.alloc(sim.Granule)
		wantCode(t, b.fault("add", p), device.InvalidAddrSpace)
	})
	t.Run("not bound", func(t *testing.T) {
		b, at := object(t)
		err := b.fault("add", at+sim.Granule)
		wantCode(t, err, device.IllegalAddress)
		if !strings.Contains(err.Error(), b.Info().UUID.String()) {
			t.Errorf("the error does not name the device that is not bound: %v", err)
		}
	})
}

// After Unbind, in whichever process, what a kernel knew about the binding is
// not used any more.
func TestUnbindIsSeenByPeers(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	b, peer := newBench(t, open(t, s, 0)), open(t, attach(t, s.Files()), 1)
	mc, far := pair(t, b, peer)
	mine, _ := b.alloc(sim.Granule)
	other, err := peer.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	if err := mc.Bind(0, mine, 0, sim.Granule); err != nil {
		t.Fatal(err)
	}
	if err := far.Bind(0, other, 0, sim.Granule); err != nil {
		t.Fatal(err)
	}
	at, err := mc.Map()
	if err != nil {
		t.Fatal(err)
	}
	add := b.function("add")
	for range 2 {
		if err := b.stream.Launch(add, 1, 1, 0, storeArgs(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := waited(t, b.stream); err != nil {
		t.Fatal(err)
	}
	if err := far.Unbind(0, sim.Granule); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.fault("add", at), device.IllegalAddress)
}

// pair makes a multicast object of two devices, both added.
func pair(t *testing.T, a, b device.Device) (mine, far device.Multicast) {
	t.Helper()
	mine, err := a.CreateMulticast(2, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	f, err := mine.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if far, err = b.ImportMulticast(f, 2, sim.Granule); err != nil {
		t.Fatal(err)
	}
	for _, m := range []device.Multicast{mine, far} {
		if err := m.AddDevice(); err != nil {
			t.Fatal(err)
		}
	}
	return mine, far
}

func TestTeamRules(t *testing.T) {
	s := create(t, sim.Options{Devices: 3, MemoryBytes: gib})
	a, b, c := open(t, s, 0), open(t, s, 1), open(t, s, 2)
	mine, far := pair(t, a, b)
	f, err := mine.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = c.ImportMulticast(f, 3, sim.Granule)
	wantCode(t, err, device.InvalidValue)
	third, err := c.ImportMulticast(f, 2, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, third.AddDevice(), device.InvalidValue) // one more than the team
	_, err = third.Map()
	wantCode(t, err, device.InvalidDevice)
	m, err := c.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, third.Bind(0, m, 0, sim.Granule), device.InvalidDevice)
	// Memory of another device, imported: each device binds its own.
	e, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	foreign, err := a.Import(e, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, mine.Bind(0, foreign, 0, sim.Granule), device.InvalidDevice)
	wantCode(t, mine.AddDevice(), device.InvalidValue) // twice
	own, err := a.Alloc(2 * sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.Bind(0, own, sim.Granule, sim.Granule); err != nil {
		t.Fatal(err)
	}
	wantCode(t, mine.Bind(0, own, 0, sim.Granule), device.InvalidValue) // over a binding
	wantCode(t, far.Unbind(0, sim.Granule), device.InvalidValue)        // of another device
	wantCode(t, own.Close(), device.IllegalState)
	_, err = a.CreateMulticast(4, sim.Granule)
	wantCode(t, err, device.InvalidValue)
	_, err = a.CreateMulticast(0, sim.Granule)
	wantCode(t, err, device.InvalidValue)
}

// Bind waits for a device that never comes; closing the session ends it.
func TestCloseEndsBind(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	d := open(t, s, 0)
	mc, err := d.CreateMulticast(2, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	if err := mc.AddDevice(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mc.Bind(0, m, 0, sim.Granule) }()
	select {
	case err := <-done:
		t.Fatalf("Bind did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	closed(t, d)
	select {
	case err := <-done:
		wantCode(t, err, device.InvalidHandle)
	case <-time.After(10 * time.Second):
		t.Fatal("Bind still waits after Close")
	}
}

func TestMulticastOffNamesTheSwitch(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib, Process: sim.Process{MulticastOff: "NVSHMEM_DISABLE_NVLS=1"}})
	var trace bytes.Buffer
	s.Trace = &trace
	d := open(t, s, 0)
	if info := d.Info(); info.Multicast || info.MulticastOff != "NVSHMEM_DISABLE_NVLS=1" {
		t.Errorf("info says multicast %v, switched off by %q", info.Multicast, info.MulticastOff)
	}
	_, err := d.CreateMulticast(2, sim.Granule)
	wantCode(t, err, device.NotSupported)
	if !strings.Contains(fmt.Sprint(err), "NVSHMEM_DISABLE_NVLS=1") || strings.Contains(fmt.Sprint(err), "too old") {
		t.Errorf("the error must name the switch and nothing else: %v", err)
	}
	if failure.CodeOf(err) != failure.Unavailable {
		t.Errorf("exit code %d, expected %d", failure.CodeOf(err), failure.Unavailable)
	}
	if !strings.Contains(trace.String(), "cuMulticastCreate(numDevices=2, bytes=2097152, POSIX_FILE_DESCRIPTOR) = CUDA_ERROR_NOT_SUPPORTED") {
		t.Errorf("trace:\n%s", &trace)
	}
}

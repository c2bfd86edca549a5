package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestDevices(t *testing.T) {
	f := newFake(t, "")
	drv, _ := f.open(t, "")
	if got, want := drv.Version(), "CUDA 13.0"; got != want {
		t.Errorf("version %q, want %q", got, want)
	}
	want := device.Info{
		UUID:    device.UUID{0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f},
		Ordinal: 1, Name: "Fake H200", PCI: "0000:1c:00", Major: 9, SMs: 132, MemoryBytes: 1 << 30, L2Bytes: 60 << 20,
		VMM: true, PosixFD: true, Multicast: true, CooperativeLaunch: true, MaxThreadsPerBlock: 1024, MaxBlocksPerSM: 32,
	}
	if diff := cmp.Diff(want, drv.Devices()[1]); diff != "" {
		t.Error(diff)
	}
	for _, ordinal := range []int{-1, 2} {
		if _, err := drv.Open(ordinal); !isCode(err, device.InvalidDevice) {
			t.Errorf("device %d: %v", ordinal, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	lib := buildShared(t, "libfakecuda.so", fakeSource)
	empty := buildShared(t, "libempty.so", "int nothing;")
	notELF := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(notELF, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, lib, fail, devices, container string
		code                                failure.Code
		driver                              device.Code
		want                                []string
	}{
		{name: "no library", lib: "/nonexistent/libcuda.so.1", code: failure.Unavailable, want: []string{"/nonexistent/libcuda.so.1", "--device sim"}},
		{name: "no library in a container", lib: "/nonexistent/libcuda.so.1", container: "x.sif", code: failure.Unavailable, want: []string{"--nv", "--device sim"}},
		{name: "no library at all", lib: notELF, code: failure.Unavailable, want: []string{"--device sim", "file too short"}},
		{name: "too old", lib: empty, code: failure.Unavailable, want: []string{"too old", "cuInit"}},
		{name: "no device", lib: lib, fail: "cuInit=100", code: failure.Unavailable, driver: device.NoDevice, want: []string{"CUDA_ERROR_NO_DEVICE", "--device sim"}},
		{name: "no device in a container", lib: lib, fail: "cuInit=100", container: "x.sif", code: failure.Unavailable, driver: device.NoDevice, want: []string{"--nv"}},
		{name: "count 0", lib: lib, devices: "0", code: failure.Unavailable, driver: device.NoDevice, want: []string{"--device sim"}},
		{name: "not ready", lib: lib, fail: "cuInit=802", code: failure.Device, driver: device.SystemNotReady, want: []string{"nvidia-fabricmanager", "administrator"}},
		{name: "mismatch", lib: lib, fail: "cuInit=803", code: failure.Device, driver: driverMismatch, want: []string{"803", "LD_LIBRARY_PATH"}},
		{name: "unknown", lib: lib, fail: "cuInit=999", code: failure.Device, driver: device.Unknown, want: []string{"999", "Xid"}},
		{name: "later call", lib: lib, fail: "cuDeviceGetUuid_v2=999", code: failure.Device, driver: device.Unknown, want: []string{"cuDeviceGetUuid:"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("FAKECUDA_FAIL", tt.fail)
			t.Setenv("FAKECUDA_DEVICES", tt.devices)
			t.Setenv("APPTAINER_CONTAINER", "")
			t.Setenv("SINGULARITY_CONTAINER", tt.container)
			_, err := Open(Options{Library: tt.lib, NVML: noNVML()})
			if failure.CodeOf(err) != tt.code {
				t.Errorf("exit code %d, want %d: %v", failure.CodeOf(err), tt.code, err)
			}
			if code, ok := device.CodeOf(err); code != tt.driver || ok != (tt.driver != 0) {
				t.Errorf("driver's code %d, want %d", code, tt.driver)
			}
			for _, want := range tt.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// Calls from threads that never saw the context must work.
func TestThreads(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	for range 4 {
		errs := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			_, _, err := g.MemInfo()
			errs <- err
		}()
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FAKECUDA_FAIL", "cuCtxSetCurrent=999")
	must(Open(Options{Library: f.path, NVML: noNVML()})) // reads the variable
	errs := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, _, err := g.MemInfo()
		errs <- err
	}()
	var e *device.Error
	if err := <-errs; !errors.As(err, &e) || e.Call != "cuCtxSetCurrent" || e.Code != device.Unknown {
		t.Errorf("got %v", err)
	}
	t.Setenv("FAKECUDA_FAIL", "")
	must(Open(Options{Library: f.path, NVML: noNVML()}))
}

func TestDriverCloseNeedsDevicesClosed(t *testing.T) {
	f := newFake(t, "")
	drv := must(Open(Options{Library: f.path, NVML: noNVML()}))
	dev := must(drv.Open(1))
	if err := drv.Close(); err == nil {
		t.Error("closed with an open device")
	}
	if err := errors.Join(dev.Close(), dev.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
}

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// words packs arguments of a kernel of the fake.
func words(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

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

func TestMemory(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	granularity := must(g.Granularity())

	for _, n := range []uint64{0, 1, granularity + 4096} {
		if _, err := g.Alloc(n); !isCode(err, device.InvalidValue) || !strings.Contains(err.Error(), "granularity") {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	if _, err := g.Alloc(2 << 30); !isCode(err, device.OutOfMemory) || !strings.Contains(err.Error(), "805306368 of 1073741824 free") {
		t.Errorf("Alloc of too much: %v", err)
	}

	m := must(g.Alloc(2 * granularity))
	p := must(m.Map())
	if _, err := m.Map(); err == nil {
		t.Error("mapped twice")
	}
	host := bytes.Repeat([]byte{1}, int(2*granularity))
	if err := g.CopyToHost(host, p); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(host, make([]byte, len(host))) {
		t.Error("new memory is not zero")
	}

	file := must(m.Export())
	peer := must(g.Import(file, m.Bytes()))
	file.Close()
	q := must(peer.Map())
	if err := g.CopyToDevice(p+4096, []byte("written by the owner")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if err := g.CopyToHost(got, q+4096); err != nil {
		t.Fatal(err)
	}
	if string(got) != "written by the owner" {
		t.Errorf("the peer reads %q", got)
	}

	if err := m.Close(); !isCode(err, device.IllegalState) {
		t.Errorf("closed while mapped: %v", err)
	}
	f.forget(t)
	if err := errors.Join(m.Unmap(), m.Close(), peer.Unmap(), peer.Close()); err != nil {
		t.Fatal(err)
	}
	teardown := []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}
	// The goroutine may be on a new thread, where a context is set first.
	calls := slices.DeleteFunc(f.calls(t), func(s string) bool { return s == "cuCtxSetCurrent" })
	if diff := cmp.Diff(append(teardown, teardown...), calls); diff != "" {
		t.Error(diff)
	}
	if err := m.Unmap(); err == nil {
		t.Error("unmapped twice")
	}
	if err := m.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// What was made before a failing step is taken back.
func TestMemoryFailures(t *testing.T) {
	buildShared(t, "libfakecuda.so", fakeSource)
	for _, tt := range []struct {
		fail, call string
		code       device.Code
		undone     []string
	}{
		{"cuMemAddressReserve=2", "cuMemAddressReserve", device.OutOfMemory, []string{"cuMemRelease"}},
		{"cuMemMap=401", "cuMemMap", device.IllegalState, []string{"cuMemAddressFree", "cuMemRelease"}},
		{"cuMemSetAccess=1", "cuMemSetAccess", device.InvalidValue, []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}},
		{"cuMemsetD32Async=700", "cuMemsetD32Async", device.IllegalAddress, []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}},
	} {
		t.Run(tt.fail, func(t *testing.T) {
			f := newFake(t, tt.fail)
			_, g := f.open(t, "")
			_, err := g.Alloc(2 << 20)
			var e *device.Error
			if !errors.As(err, &e) || e.Call != tt.call || e.Code != tt.code || e.Device != g.Info().UUID || e.Name == "" {
				t.Errorf("got %+v", err)
			}
			calls := slices.DeleteFunc(f.calls(t), func(s string) bool { return s == "cuCtxSetCurrent" })
			if got := calls[max(0, len(calls)-len(tt.undone)):]; !slices.Equal(got, tt.undone) {
				t.Errorf("last calls %v, want %v", got, tt.undone)
			}
		})
	}
}

func isCode(err error, code device.Code) bool {
	c, ok := device.CodeOf(err)
	return ok && c == code
}

func TestModule(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	_, err := g.LoadModule("garbage")
	if !isCode(err, device.InvalidPTX) {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%+v", err); !strings.Contains(s, "line 3; fatal: syntax error") || !strings.Contains(s, "info: compiled nothing") {
		t.Errorf("the JIT's log is missing: %s", s)
	}
	m := must(g.LoadModule(fakePTX))
	defer m.Close()
	if _, err := m.Function("absent"); !isCode(err, device.NotFound) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("got %v", err)
	}
	fn := must(m.Function("add_one"))
	want := device.FunctionAttributes{Registers: 40, SharedBytes: 1 << 10, LocalBytes: 16, MaxThreadsPerBlock: 1024}
	if diff := cmp.Diff(want, fn.Attributes()); diff != "" || fn.Name() != "add_one" {
		t.Errorf("%s %s", fn.Name(), diff)
	}
	if !contains(f.calls(t), "cuFuncLoad") {
		t.Error("the kernel was not loaded")
	}
}

func TestStream(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	m := must(g.Alloc(2 << 20))
	p := must(m.Map())
	s := must(g.NewStream())
	add := kernel(t, g, "add_one")

	if err := errors.Join(s.Set32(p, 41, 8), s.Launch(add, 1, 32, 0, words(uint64(p), 8)), s.Copy(p+64, p, 32)); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginCapture(); err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(add, 1, 32, 0, words(uint64(p), 8)); err != nil {
		t.Fatal(err)
	}
	graph := must(s.EndCapture())
	for range 3 {
		if err := s.LaunchGraph(graph); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	host := make([]byte, 96)
	if err := g.CopyToHost(host, p); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]uint32{0: 45, 28: 45, 32: 0, 64: 42, 92: 42} {
		if got := binary.NativeEndian.Uint32(host[i:]); got != want {
			t.Errorf("byte %d: %d, want %d", i, got, want)
		}
	}

	// More dynamic shared memory than the default must be allowed first, once.
	f.forget(t)
	for range 2 {
		if err := s.Launch(add, 1, 32, 100<<10, words(uint64(p), 8)); err != nil {
			t.Fatal(err)
		}
	}
	calls := slices.DeleteFunc(f.calls(t), func(s string) bool { return s == "cuCtxSetCurrent" })
	if diff := cmp.Diff([]string{"cuFuncSetAttribute", "cuLaunchKernel", "cuLaunchKernel"}, calls); diff != "" {
		t.Error(diff)
	}
	if err := s.Launch(add, 0, 32, 0, words(uint64(p), 8)); !isCode(err, device.InvalidValue) {
		t.Errorf("an empty grid: %v", err)
	}
	if err := errors.Join(graph.Close(), s.Close(), m.Unmap(), m.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestWaitAndEvents(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	s := must(g.NewStream())
	defer s.Close()
	busy := kernel(t, g, "busy")
	start, end := must(g.NewEvent()), must(g.NewEvent())

	const work = 40 * time.Millisecond // longer than Wait spins
	if err := s.Record(start); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := errors.Join(s.Launch(busy, 1, 1, 0, words(uint64(work), 0)), s.Record(end)); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Query(); done || err != nil {
		t.Errorf("Query says done %v, %v", done, err)
	}
	if _, err := end.Since(start); !isCode(err, device.NotReady) {
		t.Errorf("Since before the event: %v", err)
	}

	cause := errors.New("the deadline of the test")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	if err := s.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("Wait past its deadline: %v", err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < work || took > work+time.Second {
		t.Errorf("Wait returned after %v, the work takes %v", took, work)
	}
	if d, err := end.Since(start); err != nil || d < work || d > work+time.Second {
		t.Errorf("events are %v apart, %v", d, err)
	}
	// Work that is done is reported even when ctx has ended.
	if err := s.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := errors.Join(start.Close(), end.Close()); err != nil {
		t.Error(err)
	}
}

func TestKernelFault(t *testing.T) {
	f := newFake(t, "")
	drv := must(Open(Options{Library: f.path, NVML: noNVML()}))
	dev := must(drv.Open(0))
	s := must(dev.NewStream())
	mod := must(dev.LoadModule(fakePTX))
	if err := s.Launch(must(mod.Function("fault")), 1, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); !isCode(err, device.IllegalAddress) || !strings.Contains(err.Error(), dev.Info().UUID.String()) {
		t.Errorf("Wait: %v", err)
	}
	if done, err := s.Query(); done || !isCode(err, device.IllegalAddress) {
		t.Errorf("Query: %v, %v", done, err)
	}
	// The context is lost, but the process can end in order.
	if err := dev.Close(); !isCode(err, device.IllegalAddress) {
		t.Errorf("Close: %v", err)
	}
	if err := drv.Close(); err != nil {
		t.Error(err)
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

// An exported descriptor does not leak into programs that this one starts.
func TestExportCloseOnExec(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	m := must(g.Alloc(2 << 20))
	defer m.Close()
	file := must(m.Export())
	defer file.Close()
	info := string(must(os.ReadFile(filepath.Join("/proc/self/fdinfo", fmt.Sprint(file.Fd())))))
	var flags uint64
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			fmt.Sscanf(v, "%o", &flags)
		}
	}
	if flags&0o2000000 == 0 {
		t.Errorf("O_CLOEXEC is not set: %s", info)
	}
}

func BenchmarkLaunch(b *testing.B) {
	f := newFake(b, "")
	b.Setenv("FAKECUDA_LOG", "")
	_, g := f.open(b, "")
	s := must(g.NewStream())
	defer s.Close()
	nothing := kernel(b, g, "nothing")
	args := words(1, 2, 3, 4)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch(nothing, 132, 512, 0, args); err != nil {
			b.Fatal(err)
		}
	}
}

func TestLaunchDoesNotAllocate(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	s := must(g.NewStream())
	defer s.Close()
	nothing := kernel(t, g, "nothing")
	args := words(1, 2, 3, 4)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Launch(nothing, 132, 512, 0, args); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Query(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a launch", n)
	}
}

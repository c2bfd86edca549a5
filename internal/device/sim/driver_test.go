package sim_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// storePTX is a module with a kernel that stores a word at an address, a kernel
// that adds a word over a multicast address, and an instruction that does not
// exist; target goes into the head.
func storePTX(target string) string {
	return `
.version 8.3
.target ` + target + `
.address_size 64
.visible .entry store(.param .align 8 .b8 store_param_0[16])
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [store_param_0];
	ld.param.u32 %r1, [store_param_0+8];
	st.global.u32 [%rd1], %r1;
	ret;
}
.visible .entry add(.param .align 8 .b8 add_param_0[16])
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [add_param_0];
	ld.param.u32 %r1, [add_param_0+8];
	multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];
	ret;
}
.visible .entry strange(.param .align 8 .b8 strange_param_0[16])
{
	.reg .b32 %r<2>;
	frobnicate.u32 %r1, %r1;
	ret;
}
`
}

func storeArgs(at device.Ptr, value uint32) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(at))
	b = binary.NativeEndian.AppendUint32(b, value)
	return binary.NativeEndian.AppendUint32(b, 0)
}

// bench is one opened device with the test's module and a stream.
type bench struct {
	device.Device
	t      *testing.T
	module device.Module
	stream device.Stream
}

func newBench(t *testing.T, d device.Device) *bench {
	t.Helper()
	m, err := d.LoadModule(storePTX("sm_80"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Device: d, t: t, module: m, stream: s}
}

func (b *bench) function(name string) device.Function {
	b.t.Helper()
	f, err := b.module.Function(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) alloc(bytes uint64) (device.Memory, device.Ptr) {
	b.t.Helper()
	m, err := b.Alloc(bytes)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := m.Map()
	if err != nil {
		b.t.Fatal(err)
	}
	return m, p
}

// fault launches a kernel that must fail, and gives the error.
func (b *bench) fault(kernel string, at device.Ptr) error {
	b.t.Helper()
	if err := b.stream.Launch(b.function(kernel), 1, 1, 0, storeArgs(at, 1)); err != nil {
		b.t.Fatal(err)
	}
	err := waited(b.t, b.stream)
	if err == nil {
		b.t.Fatalf("kernel %s at %#x did not fail", kernel, at)
	}
	return err
}

func TestFaultNamesThePlace(t *testing.T) {
	b := newBench(t, open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib}), 0))
	m, p := b.alloc(sim.Granule)
	err := b.fault("store", p+sim.Granule) // the guard behind the memory
	wantCode(t, err, device.IllegalAddress)
	for _, part := range []string{"CUDA_ERROR_ILLEGAL_ADDRESS", "cuLaunchKernel", "store", "block 0", "thread 0", "line 11", fmt.Sprintf("%#x", p+sim.Granule)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	// The context is lost: the same error from everything but Close of the device.
	for name, err := range map[string]error{
		"Unmap":      m.Unmap(),
		"Set32":      b.stream.Set32(p, 1, 1),
		"Launch":     b.stream.Launch(b.function0("store"), 1, 1, 0, storeArgs(p, 1)),
		"CopyToHost": b.CopyToHost(make([]byte, 4), p),
	} {
		if err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
			t.Errorf("%s after the fault: %v", name, err)
		}
	}
}

// function0 is function on a device whose context is lost.
func (b *bench) function0(name string) device.Function {
	f, _ := b.module.Function(name) // fails with the sticky error; Launch must too
	return f
}

func TestLaunchIsChecked(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	b, other := newBench(t, open(t, s, 0)), newBench(t, open(t, s, 1))
	_, p := b.alloc(sim.Granule)
	f := b.function("store")
	wantCode(t, b.stream.Launch(f, 1, 1, 0, storeArgs(p, 1)[:12]), device.InvalidValue)
	wantCode(t, b.stream.Launch(f, 1<<31, 1, 0, storeArgs(p, 1)), device.InvalidValue)
	wantCode(t, other.stream.Launch(f, 1, 1, 0, storeArgs(p, 1)), device.InvalidHandle)
	wantCode(t, b.stream.Copy(p, p+sim.Granule, 4), device.InvalidValue)
	wantCode(t, b.stream.Copy(p+sim.Granule-4, p, 8), device.InvalidValue)
	wantCode(t, b.stream.Set32(p+2, 0, 1), device.InvalidValue)
	wantCode(t, other.stream.Set32(p, 0, 1), device.InvalidValue) // an address of another rank
	wantCode(t, b.CopyToHost(make([]byte, 8), p+sim.Granule-4), device.InvalidValue)

	_, err := b.module.Function("strange")
	wantCode(t, err, device.InvalidPTX)
	for _, part := range []string{"frobnicate", "line 26"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	closed(t, b.module)
	wantCode(t, b.stream.Launch(f, 1, 1, 0, storeArgs(p, 1)), device.InvalidHandle)
	if err := waited(t, b.stream); err != nil {
		t.Errorf("refused calls cost the context: %v", err)
	}
	closed(t, b.stream)
	wantCode(t, b.stream.Set32(p, 0, 1), device.InvalidHandle)
}

func TestTargets(t *testing.T) {
	a100 := open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib, Major: 8}), 0)
	h100 := open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib}), 0)
	for _, c := range []struct {
		d      device.Device
		target string
		code   device.Code
	}{
		{a100, "sm_80", 0}, {a100, "sm_75", 0}, {a100, "sm_86", device.NoBinaryForGPU}, {a100, "sm_90", device.NoBinaryForGPU},
		{h100, "sm_80", 0}, {h100, "sm_90", 0}, {h100, "sm_90a", 0}, {h100, "sm_80, texmode_independent", 0},
		{h100, "sm_100", device.NoBinaryForGPU}, {h100, "sm_100a", device.NoBinaryForGPU}, {h100, "sm_89a", device.NoBinaryForGPU},
		{h100, "compute_90", device.InvalidPTX},
	} {
		_, err := c.d.LoadModule(storePTX(c.target))
		switch {
		case c.code != 0:
			wantCode(t, err, c.code)
		case err != nil:
			t.Errorf("%s on %s: %v", c.target, c.d.Info().ComputeCapability(), err)
		}
	}
}

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

// Close stops a kernel that would spin for ever.
func TestCloseStopsKernels(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	d := open(t, s, 0)
	m, err := d.LoadModule(`
.version 7.1
.target sm_80
.address_size 64
.visible .entry spin(.param .align 8 .b8 spin_param_0[8])
{
	.reg .pred %p<2>;
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [spin_param_0];
$again:
	ld.acquire.sys.global.b32 %r1, [%rd1];
	setp.eq.s32 %p1, %r1, 0;
	@%p1 bra $again;
	ret;
}
`)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Function("spin")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := d.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	p, err := mem.Map()
	if err != nil {
		t.Fatal(err)
	}
	st, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Launch(f, 1, 32, 0, binary.NativeEndian.AppendUint64(nil, uint64(p))); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	closed(t, d)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestMulticastOffNamesTheSwitch(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib, MulticastOff: "NVSHMEM_DISABLE_NVLS=1"})
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

func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	t.Setenv(sim.TraceVariable, file)
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	b, peer := newBench(t, open(t, s, 0)), open(t, attach(t, s.Files()), 1)
	pair(t, b, peer)
	_, p := b.alloc(sim.Granule)
	if err := b.stream.Launch(b.function("store"), 1, 1, 0, storeArgs(p, 1)); err != nil {
		t.Fatal(err)
	}
	if err := waited(t, b.stream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Alloc(1); err == nil {
		t.Fatal("1 byte was allocated")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, line := range []string{
		"p0 gpu0 cuDevicePrimaryCtxRetain(ordinal=0, uuid=GPU-",
		"p0 gpu0 cuMulticastCreate(numDevices=2, bytes=2097152, POSIX_FILE_DESCRIPTOR) = CUDA_SUCCESS\n",
		"p0 gpu0 cuMemExportToShareableHandle(multicast 1, POSIX_FILE_DESCRIPTOR) = CUDA_SUCCESS\n",
		"p1 gpu1 cuMemImportFromShareableHandle(POSIX_FILE_DESCRIPTOR, multicast, numDevices=2, bytes=2097152) = CUDA_SUCCESS\n",
		"p1 gpu1 cuMulticastAddDevice(multicast 1) = CUDA_SUCCESS\n",
		"p0 gpu0 cuMemCreate(bytes=2097152, POSIX_FILE_DESCRIPTOR) = CUDA_SUCCESS\n",
		"p0 gpu0 cuLaunchKernel(store, grid=1, block=1, shared=0, args=16) = CUDA_SUCCESS\n",
		"p0 gpu0 cuStreamSynchronize() = CUDA_SUCCESS\n",
		"p0 gpu0 cuMemCreate(bytes=1, POSIX_FILE_DESCRIPTOR) = CUDA_ERROR_INVALID_VALUE: ",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("the trace lacks %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "FABRIC") {
		t.Errorf("a FABRIC handle was asked for:\n%s", got)
	}
}

func TestInjectedFailure(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib, Fail: func(call string, n int) device.Code {
		if call == "cuMemCreate" && n == 2 {
			return device.SystemNotReady
		}
		return 0
	}})
	d := open(t, s, 0)
	for i := 1; i <= 3; i++ {
		_, err := d.Alloc(sim.Granule)
		if i == 2 {
			wantCode(t, err, device.SystemNotReady)
		} else if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestMemoryRunsOut(t *testing.T) {
	d := open(t, create(t, sim.Options{Devices: 1, MemoryBytes: 8 * sim.Granule}), 0)
	var held []device.Memory
	for range 8 {
		m, err := d.Alloc(sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, m)
	}
	_, err := d.Alloc(sim.Granule)
	wantCode(t, err, device.OutOfMemory)
	// Every second one freed: half is free, in pieces.
	for i := 0; i < 8; i += 2 {
		closed(t, held[i])
	}
	if free, total, err := d.MemInfo(); err != nil || free != 4*sim.Granule || total != 8*sim.Granule {
		t.Errorf("MemInfo: %d of %d, %v", free, total, err)
	}
	_, err = d.Alloc(2 * sim.Granule)
	wantCode(t, err, device.OutOfMemory)
	if want := fmt.Sprintf("largest piece has %d", sim.Granule); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the error does not say %q: %v", want, err)
	}
}

func TestCaptureRefusesWaiting(t *testing.T) {
	b := newBench(t, open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib}), 0))
	_, p := b.alloc(sim.Granule)
	e, err := b.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.stream.EndCapture()
	wantCode(t, err, device.IllegalState)
	if err := b.stream.BeginCapture(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.stream.BeginCapture(), device.IllegalState)
	wantCode(t, waited(t, b.stream), device.IllegalState)
	_, err = b.stream.Query()
	wantCode(t, err, device.IllegalState)
	wantCode(t, b.stream.Record(e), device.NotSupported)
	if err := b.stream.Set32(p, 5, 1); err != nil {
		t.Fatal(err)
	}
	g, err := b.stream.EndCapture()
	if err != nil {
		t.Fatal(err)
	}
	closed(t, g)
	wantCode(t, b.stream.LaunchGraph(g), device.InvalidHandle)
	_, err = e.Since(e)
	wantCode(t, err, device.InvalidHandle) // never recorded
}

func TestDriverCloseWithOpenDevice(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	r := s.Driver()
	d, err := r.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, r.Close(), device.IllegalState)
	closed(t, d)
	closed(t, r)
	_, err = r.Open(1)
	wantCode(t, err, device.InvalidDevice)
	if _, err := d.Alloc(sim.Granule); err == nil {
		t.Error("a closed device allocates")
	}
	closed(t, s)
	_, err = r.Open(0)
	wantCode(t, err, device.NotInitialized)
	if got := r.Devices(); len(got) != 0 {
		t.Errorf("a closed session has the devices %v", got)
	}
}

package sim_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// spinPTX has a kernel that waits for a word to change from 0.
const spinPTX = `
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
`

// Close stops a kernel that would spin for ever.
func TestCloseStopsKernels(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	d := open(t, s, 0)
	m, err := d.LoadModule(spinPTX)
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
	if took := time.Since(start); took > programtest.Within(5*time.Second) {
		t.Errorf("Close took %v", took)
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
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib, Process: sim.Process{Fail: func(call string, n int) device.Code {
		if call == "cuMemCreate" && n == 2 {
			return device.SystemNotReady
		}
		return 0
	}}})
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
	never, err := b.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.stream.Record(e); err != nil {
		t.Fatal(err)
	}
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
	wantCode(t, err, device.CapturedEvent)
	_, err = never.Since(never)
	wantCode(t, err, device.InvalidHandle)
	wantCode(t, b.stream.WaitEvent(e), device.CapturedEvent) // its graph is complete
}

// Two recordings have nothing to do with each other, nor with events outside.
func TestRecordingsStayApart(t *testing.T) {
	b := newBench(t, open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib}), 0))
	other, err := b.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := mustEvent(t, b), mustEvent(t, b)
	for _, err := range []error{other.Record(outside), b.stream.BeginCapture(), other.BeginCapture(), b.stream.Record(inside)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, other.WaitEvent(inside), device.CaptureMerge)
	wantCode(t, b.stream.WaitEvent(outside), device.CaptureIsolation)
	if _, err := other.EndCapture(); err != nil {
		t.Fatal(err)
	}
	if err := other.WaitEvent(inside); err != nil {
		t.Fatal(err)
	}
	_, err = other.EndCapture() // it only joined
	wantCode(t, err, device.CaptureUnmatched)
	wantCode(t, waited(t, other), device.IllegalState)
	if g, err := b.stream.EndCapture(); err != nil {
		t.Fatal(err)
	} else {
		closed(t, g)
	}
	if err := waited(t, other); err != nil {
		t.Fatal(err)
	}
}

func mustEvent(t *testing.T, b *bench) device.Event {
	t.Helper()
	e, err := b.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	return e
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

// A branch of a graph goes on while a kernel of another one waits for it, whatever
// the order in which they were recorded.
func TestBranchesRunAtOnce(t *testing.T) {
	b := newBench(t, open(t, create(t, sim.Options{Devices: 1, MemoryBytes: gib}), 0))
	other, err := b.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	_, p := b.alloc(sim.Granule)
	m, err := b.LoadModule(spinPTX)
	if err != nil {
		t.Fatal(err)
	}
	spin, err := m.Function("spin")
	if err != nil {
		t.Fatal(err)
	}
	e := mustEvent(t, b)
	for _, err := range []error{
		b.stream.BeginCapture(), b.stream.Set32(p, 0, 1), b.stream.Record(e), other.WaitEvent(e),
		b.stream.Launch(spin, 1, 32, 0, binary.NativeEndian.AppendUint64(nil, uint64(p))), other.Set32(p, 1, 1),
		other.Record(e), b.stream.WaitEvent(e),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	g, err := b.stream.EndCapture()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := b.stream.LaunchGraph(g); err != nil {
			t.Fatal(err)
		}
	}
	if err := waited(t, b.stream); err != nil {
		t.Fatal(err)
	}
}

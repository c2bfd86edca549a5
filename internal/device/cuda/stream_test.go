package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

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

// A wait for an event of another stream holds up what comes after it; into a
// recording it draws the stream that waits.
func TestWaitEvent(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	m := must(g.Alloc(2 << 20))
	p := must(m.Map())
	first, second, e := must(g.NewStream()), must(g.NewStream()), must(g.NewEvent())
	const work = 30 * time.Millisecond
	if err := errors.Join(first.Launch(kernel(t, g, "busy"), 1, 1, 0, words(uint64(work), 0)), first.Record(e), second.WaitEvent(e)); err != nil {
		t.Fatal(err)
	}
	if done, err := second.Query(); done || err != nil {
		t.Errorf("the stream that waits is done: %v, %v", done, err)
	}
	if err := errors.Join(first.Wait(t.Context()), second.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(first.BeginCapture(), first.Record(e), second.WaitEvent(e), second.Set32(p, 7, 1), second.Record(e), first.WaitEvent(e), first.Copy(p+64, p, 4)); err != nil {
		t.Fatal(err)
	}
	if first.Capturing() != true || second.Capturing() != false {
		t.Errorf("capturing: %v and %v", first.Capturing(), second.Capturing())
	}
	graph := must(first.EndCapture())
	host := make([]byte, 4)
	if err := g.CopyToHost(host, p); err != nil || binary.NativeEndian.Uint32(host) == 7 {
		t.Fatalf("what was only recorded was done: %v, %v", host, err)
	}
	if err := errors.Join(first.LaunchGraph(graph), first.Wait(t.Context()), g.CopyToHost(host, p+64)); err != nil || binary.NativeEndian.Uint32(host) != 7 {
		t.Errorf("the graph left %v, %v", host, err)
	}
	if err := errors.Join(graph.Close(), e.Close(), second.Close(), first.Close(), m.Unmap(), m.Close()); err != nil {
		t.Fatal(err)
	}
}

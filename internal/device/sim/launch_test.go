package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
)

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

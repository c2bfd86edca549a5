package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
)

// envLifeCycle makes the test binary run lifeCycle and nothing else; its value
// is the configuration's multicast key.
const envLifeCycle = "CUDA_TEST_LIFE_CYCLE"

// TestSiteSwitch proves the safety property: with a switch on, no multicast
// entry point of libcuda is looked up or called. It runs a whole life of the
// driver in a process of its own under the dynamic linker's auditor, which sees
// every lookup, and over a libcuda that writes down every call.
func TestSiteSwitch(t *testing.T) {
	libcuda := buildShared(t, "libfakecuda.so", fakeSource)
	audit := buildShared(t, "audit.so", auditSource)
	for _, tt := range []struct {
		name, config, env, want string
	}{
		{"configuration", "off", "", `multicast = "off" in the configuration`},
		{"own variable", "auto", "NVLS_ALLREDUCE_MULTICAST=off", "NVLS_ALLREDUCE_MULTICAST=off in the environment"},
		{"NCCL", "auto", "NCCL_NVLS_ENABLE=0", "NCCL_NVLS_ENABLE=0 in the environment"},
		{"PyTorch", "auto", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1 in the environment"},
		{"NVSHMEM", "auto", "NVSHMEM_DISABLE_NVLS=1", "NVSHMEM_DISABLE_NVLS=1 in the environment"},
		// The control: without a switch both logs must show multicast, or they
		// would prove nothing above.
		{"none", "auto", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			calls, lookups := filepath.Join(dir, "calls"), filepath.Join(dir, "lookups")
			cmd := exec.Command(must(os.Executable()), "-test.run=^TestLifeCycle$", "-test.v")
			for _, kv := range os.Environ() {
				name, _, _ := strings.Cut(kv, "=")
				switch name {
				case site.EnvMulticast, site.EnvNCCL, site.EnvTorch, site.EnvNVSHMEM:
				default:
					cmd.Env = append(cmd.Env, kv)
				}
			}
			cmd.Env = append(cmd.Env, envLifeCycle+"="+tt.config, "LD_AUDIT="+audit, "AUDIT_LOG="+lookups,
				"FAKECUDA_LOG="+calls, "FAKECUDA_FAIL=", "CUDA_TEST_LIBRARY="+libcuda, "CUDA_TEST_WANT="+tt.want)
			if tt.env != "" {
				cmd.Env = append(cmd.Env, tt.env)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestLifeCycle") {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, log := range []string{calls, lookups} {
				names := readLines(t, log)
				if !contains(names, "cuLaunchKernel") {
					t.Errorf("%s does not show cuLaunchKernel: it does not work", filepath.Base(log))
				}
				for _, name := range []string{"cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem", "cuMulticastUnbind", "cuMulticastGetGranularity"} {
					if want := tt.want == ""; contains(names, name) != want {
						t.Errorf("%s shows %s: %v, want %v", filepath.Base(log), name, !want, want)
					}
				}
				if tt.want == "" {
					continue
				}
				for _, name := range names {
					if strings.Contains(strings.ToLower(name), "multicast") {
						t.Errorf("%s shows %s in spite of the switch", filepath.Base(log), name)
					}
				}
			}
		})
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestLifeCycle is the child of TestSiteSwitch.
func TestLifeCycle(t *testing.T) {
	config, ok := os.LookupEnv(envLifeCycle)
	if !ok {
		t.Skip("runs only as the child of TestSiteSwitch")
	}
	off, err := site.MulticastOff(config, os.Getenv, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("CUDA_TEST_WANT"); off != want {
		t.Fatalf("the switch is %q, want %q", off, want)
	}
	drv, err := Open(Options{Library: os.Getenv("CUDA_TEST_LIBRARY"), MulticastOff: off, NVML: noNVML()})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range drv.Devices() {
		if info.Multicast != (off == "") || info.MulticastOff != off {
			t.Errorf("device %d: Multicast %v, MulticastOff %q with the switch %q", info.Ordinal, info.Multicast, info.MulticastOff, off)
		}
	}
	dev := must(drv.Open(0))
	bytes := must(dev.Granularity())
	mem := must(dev.Alloc(bytes))
	ptr := must(mem.Map())
	file := must(mem.Export())
	peer := must(dev.Import(file, bytes))
	must(peer.Map())
	mod := must(dev.LoadModule(fakePTX))
	f := must(mod.Function("add_one"))
	s := must(dev.NewStream())
	e := must(dev.NewEvent())
	steps := []func() error{
		s.BeginCapture,
		func() error { return s.Launch(f, 1, 32, 0, words(uint64(ptr), 4)) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	graph := must(s.EndCapture())
	if err := errors.Join(s.LaunchGraph(graph), s.Record(e), s.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}

	if off == "" {
		multicastLifeCycle(t, dev, mem, bytes)
	} else {
		refused := map[string]error{}
		_, _, refused["granularity"] = dev.MulticastGranularity(2, bytes)
		_, refused["create"] = dev.CreateMulticast(2, bytes)
		_, refused["import"] = dev.ImportMulticast(file, 2, bytes)
		made := &team{object: object{gpu: dev.(*gpu), kind: "multicast object", bytes: bytes}}
		refused["add"] = made.AddDevice()
		refused["bind"] = made.Bind(0, mem, 0, bytes)
		refused["unbind"] = made.Unbind(0, bytes)
		for what, err := range refused {
			if code, ok := device.CodeOf(err); !ok || code != device.NotSupported {
				t.Errorf("%s: %v, want a device error of code %d", what, err, device.NotSupported)
			}
			if failure.CodeOf(err) != failure.Unavailable {
				t.Errorf("%s: exit code %d, want %d", what, failure.CodeOf(err), failure.Unavailable)
			}
			if !strings.Contains(fmt.Sprint(err), off) {
				t.Errorf("%s: %q does not name the switch %q", what, err, off)
			}
		}
	}
	if err := errors.Join(graph.Close(), e.Close(), s.Close(), mod.Close(), peer.Unmap(), peer.Close(), file.Close(),
		mem.Unmap(), mem.Close(), dev.Close(), drv.Close()); err != nil {
		t.Fatal(err)
	}
}

// multicastLifeCycle uses every multicast method once, over the fake only.
func multicastLifeCycle(t *testing.T, dev device.Device, mem device.Memory, bytes uint64) {
	minimum, recommended, err := dev.MulticastGranularity(1, bytes)
	if err != nil || minimum != 2<<20 || recommended != 512<<20 {
		t.Fatalf("granularity %d, %d, %v", minimum, recommended, err)
	}
	mc := must(dev.CreateMulticast(1, bytes))
	if _, err := mc.Map(); err == nil {
		t.Error("mapped before the device was added")
	}
	file := must(mc.Export())
	imported := must(dev.ImportMulticast(file, 1, bytes))
	if err := errors.Join(imported.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(mc.AddDevice(), mc.Bind(0, mem, 0, bytes)); err != nil {
		t.Fatal(err)
	}
	must(mc.Map())
	if err := mc.Close(); err == nil {
		t.Error("closed while memory is bound")
	}
	if err := mem.Close(); err == nil {
		t.Error("memory closed while it is bound")
	}
	if err := mc.Unbind(0, bytes+1); err == nil {
		t.Error("unbound what was not bound")
	}
	if err := errors.Join(mc.Unmap(), mc.Unbind(0, bytes), mc.Close()); err != nil {
		t.Fatal(err)
	}
}

// A device whose attribute says that it has no multicast is not asked either.
func TestNoMulticastDevice(t *testing.T) {
	f := newFake(t, "")
	t.Setenv("FAKECUDA_ATTR132", "0")
	_, g := f.open(t, "")
	if g.Info().Multicast {
		t.Error("Multicast is true")
	}
	_, err := g.CreateMulticast(2, 2<<20)
	if code, _ := device.CodeOf(err); code != device.NotSupported {
		t.Errorf("got %v", err)
	}
	if calls := f.calls(t); contains(calls, "cuMulticastCreate") || contains(calls, "cuMulticastGetGranularity") {
		t.Errorf("multicast was called: %v", calls)
	}
}

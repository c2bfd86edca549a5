//go:build linux

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// fakeGPUs is an environment in which libcuda is the fake of package cuda's
// tests and the file system shows a host with n GPUs of which nodes are here.
func fakeGPUs(t *testing.T, nodes, host int, environ ...string) []string {
	t.Helper()
	lib := buildShared(t, "fakecuda.c", "libfakecuda.so")
	dir := t.TempDir()
	if err := os.Symlink(lib, filepath.Join(dir, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	files := gpuFiles(nodes, host)
	files["/tmp/"], files["/dev/shm/"], files["/proc/self/status"] = "", "", "Seccomp:\t0"
	s := fakeSystem(t, files)
	return append([]string{"LD_LIBRARY_PATH=" + dir, envRoot + "=" + s.Root, "TMPDIR=", "FAKECUDA_TEAM_MIB=2"}, environ...)
}

// CUDA does not start: the code decides what is said.
func TestCUDADoesNotStart(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "libcuda.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		environ []string
		words   []string // the code is that of a run
	}{
		{"no library", []string{"LD_LIBRARY_PATH="}, []string{"libcuda could not be opened"}},
		{"no library, in Apptainer", []string{"LD_LIBRARY_PATH=", "APPTAINER_CONTAINER=x.sif"}, []string{"--nv"}},
		{"wrong library", []string{"LD_LIBRARY_PATH=" + empty}, []string{"file too short"}},
		{"no device", []string{"FAKECUDA_FAIL=cuInit=100"}, []string{"CUDA_ERROR_NO_DEVICE"}},
		{"no device visible", []string{"FAKECUDA_DEVICES=0"}, []string{"CUDA_ERROR_NO_DEVICE"}},
		{"no Fabric Manager", []string{"FAKECUDA_FAIL=cuInit=802"}, []string{"802", "systemctl restart nvidia-fabricmanager"}},
		{"libcuda of another version", []string{"FAKECUDA_FAIL=cuInit=803"}, []string{"803", "LD_LIBRARY_PATH"}},
		{"compatibility library", []string{"FAKECUDA_FAIL=cuInit=804"}, []string{"804", "compatibility"}},
		{"Xid", []string{"FAKECUDA_FAIL=cuInit=999"}, []string{"999", "Xid"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, code, _ := program{environ: append(fakeGPUs(t, 2, 2), tt.environ...)}.run(t)
			want(t, find(t, r.Findings, "gpu.driver"), Failed, No, tt.words...)
			want(t, find(t, r.Findings, "peers"), Skipped, Unknown)
			want(t, find(t, r.Findings, "multicast"), Skipped, Unknown)
			want := failure.Unavailable
			if slices.ContainsFunc(tt.environ, func(e string) bool {
				return strings.HasPrefix(e, "FAKECUDA_FAIL=cuInit=") && !strings.HasSuffix(e, "=100")
			}) {
				want = failure.Device
			}
			if code != int(want) {
				t.Errorf("exit code %d, a run ends with %d", code, want)
			}
			for _, v := range r.Verdict.Modes {
				if v.Runs != No || !slices.Contains(v.Because, "gpu.driver") {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

// The verdict names what a run meets: that libcuda does not start comes before the
// device nodes that it would need. Where it starts and finds no device, the nodes
// say why.
func TestLibraryFirst(t *testing.T) {
	t.Parallel()
	for environ, first := range map[string]string{"LD_LIBRARY_PATH=": "gpu.driver", "FAKECUDA_FAIL=cuInit=999": "gpu.driver", "FAKECUDA_FAIL=cuInit=100": "gpu.nodes"} {
		r, _, _ := program{environ: append(fakeGPUs(t, 0, 0), environ)}.run(t)
		for _, v := range r.Verdict.Modes {
			if v.Because[0] != first || !slices.Contains(v.Because, "gpu.nodes") || !slices.Contains(v.Because, "gpu.driver") || v.Why != find(t, r.Findings, first).What {
				t.Errorf("%s: %+v, want %s first", environ, v, first)
			}
		}
		if !strings.HasSuffix(r.Verdict.Text, "["+first+"]") {
			t.Errorf("%s: the verdict is %q", environ, r.Verdict.Text)
		}
	}
}

// A run does without the driver's word on free memory, and so does the doctor: what
// is not known costs nothing.
func TestMemoryNotTold(t *testing.T) {
	t.Parallel()
	r, code, _ := program{environ: fakeGPUs(t, 2, 2, "FAKECUDA_FAIL=cuMemGetInfo_v2=999")}.run(t)
	want(t, find(t, r.Findings, "memory"), Warning, Unknown, "cuMemGetInfo: error 999")
	// The all-reduce that no fake can do is what the probe ends with, as without it.
	want(t, find(t, r.Findings, "peers"), Failed, No, "gives wrong data")
	if code != int(failure.WrongData) {
		t.Errorf("exit code %d", code)
	}
}

// A driver call that never returns is no answer.
func TestCUDAHangs(t *testing.T) {
	s := fakeSystem(t, nil)
	s.CUDA = func(string) (device.Driver, error) { select {} }
	d, visible, f := openCUDA(s, "", 50*time.Millisecond)
	if d != nil || visible != -1 {
		t.Errorf("a driver that hangs was opened, with %d GPUs", visible)
	}
	want(t, f[0], Warning, Unknown, "has not returned within 50ms", "Xid")
}

// versioned is a driver of which only the version matters.
type versioned struct {
	device.Driver
	version string
}

func (v versioned) Version() string        { return v.version }
func (v versioned) Devices() []device.Info { return []device.Info{{}, {}} }

func TestCUDAVersion(t *testing.T) {
	for version, outcome := range map[string]Outcome{
		"CUDA 13.0, driver 580.159.04": Yes, "CUDA 12.3": Yes, "CUDA 12.2": No, "CUDA 12.0, driver 525.60.13": No, "CUDA 11.8": No, "something": Unknown,
	} {
		sev := map[Outcome]Severity{Yes: OK, No: Failed, Unknown: Warning}[outcome]
		want(t, find(t, describeCUDA(versioned{version: version}), "gpu.cuda-version"), sev, outcome, version)
	}
	// The number above is that of the PTX that ships.
	ptx, err := kernels.Module("float", kernels.NVLSZeroCopy)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains("\n"+ptx, "\n.version 8.3\n") {
		t.Error("the NVLS kernels are no longer PTX 8.3: nvlsMajor and nvlsMinor must follow")
	}
}

// Over the fake libcuda memory is really shared between processes, but no kernel
// runs: copies arrive, an all-reduce gives wrong data, which must be seen.
func TestFakeGPUs(t *testing.T) {
	t.Parallel()
	r, code, _ := program{environ: fakeGPUs(t, 2, 2, "FAKECUDA_FABRIC=800", "NCCL_NVLS_ENABLE=0")}.run(t)
	if code != int(failure.Device) || r.Simulated || r.Device != configs.DeviceCUDA {
		t.Errorf("exit code %d, %+v", code, r)
	}
	want(t, find(t, r.Findings, "gpu.nodes"), OK, Yes)
	want(t, find(t, r.Findings, "gpu.masked"), OK, Yes)
	want(t, find(t, r.Findings, "gpu.driver"), OK, Yes, "2 GPUs", "CUDA 13.0")
	want(t, find(t, r.Findings, "gpu.visible"), OK, Yes)
	want(t, find(t, r.Findings, "gpu.libcuda"), Info, Unknown)
	want(t, find(t, r.Findings, "gpu.attributes"), OK, "", "multicast (132) not asked (NCCL_NVLS_ENABLE=0 in the environment)", "POSIX file descriptors (103) 1")
	want(t, find(t, r.Findings, "gpu.fabric-handles"), Info, "", "neither is needed", "error 800", "no IMEX channel")
	want(t, find(t, r.Findings, "nvls.switched-off"), Warning, No, "NCCL_NVLS_ENABLE=0 in the environment")
	want(t, find(t, r.Findings, "multicast"), Skipped, Unknown, "NCCL_NVLS_ENABLE=0", "no multicast call was made")
	want(t, find(t, r.Findings, "peers"), Failed, No, "gives wrong data")
	want(t, find(t, r.Findings, "memory"), Failed, No, "772 MiB free") // of 1 GiB, where 2 GiB are wanted
}

func TestFakeGPUFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		nodes, host int
		environ     []string
		id          string
		sev         Severity
		words       []string
		code        failure.Code // of a run
	}{
		{"data does not arrive", 2, 2, []string{"FAKECUDA_DROP=1"}, "peers", Failed, []string{"data does not arrive", "IOMMU and ACS", "does not read what rank 1"}, failure.WrongData},
		{"no multicast", 2, 2, []string{"FAKECUDA_ATTR132=0"}, "nvls.not-offered", Failed, []string{"attribute 132", "could not be looked at"}, failure.WrongData},
		{"one visible GPU", 2, 8, []string{"FAKECUDA_DEVICES=1", "CUDA_VISIBLE_DEVICES=0"}, "gpu.single", Failed, []string{"neither NVLS nor peer access"}, failure.Unavailable},
		{"the variable hides", 2, 2, []string{"FAKECUDA_DEVICES=1", "CUDA_VISIBLE_DEVICES=0"}, "gpu.masked", Warning, []string{"CUDA_VISIBLE_DEVICES=0 hides the others"}, failure.Unavailable},
		{"the variable hides all", 2, 2, []string{"FAKECUDA_DEVICES=0", "CUDA_VISIBLE_DEVICES=7"}, "gpu.masked", Warning, []string{"0 of 2 GPUs visible", "CUDA_VISIBLE_DEVICES=7 hides"}, failure.Unavailable},
		{"more GPUs than ranks", 9, 9, []string{"FAKECUDA_DEVICES=9", "FAKECUDA_FAIL=cuMemCreate=2"}, "peers", Failed, []string{"error 2"}, failure.Device},
		{"no nodes, yet CUDA starts", 0, 0, nil, "gpu.nodes", Warning, []string{"CUDA starts all the same"}, failure.WrongData},
		{"import refused", 2, 2, []string{"FAKECUDA_FAIL=cuMemImportFromShareableHandle=101"}, "peers", Failed, []string{"error 101", "--gpu-bind=none"}, failure.Device},
		{"multicast refused", 2, 2, []string{"FAKECUDA_FAIL=cuMulticastCreate=1"}, "multicast", Failed, []string{"error 1 ", "nvls.unhealthy"}, failure.WrongData},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environ := fakeGPUs(t, tt.nodes, tt.host, tt.environ...)
			r, code, _ := program{args: []string{"sweep.max_bytes=1M"}, environ: environ}.run(t)
			f := find(t, r.Findings, tt.id)
			want(t, f, tt.sev, No, tt.words...)
			if tt.name == "one visible GPU" {
				if v := verdictOf(t, r, configs.ModeRing); v.Runs != No || v.Because[0] != "gpu.single" {
					t.Errorf("%+v", v)
				}
			}
			if code != int(tt.code) {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, r.Verdict.Text)
			}
		})
	}
}

// The safety property of the site switch holds for the doctor and its probe
// processes: no multicast entry point is looked up or called. Without a switch
// both logs must show them, or they would prove nothing.
func TestNoMulticastWithSwitch(t *testing.T) {
	t.Parallel()
	audit := buildShared(t, "audit.c", "audit.so")
	for _, tt := range []struct {
		name, environ string
		args          []string
		off           bool
	}{
		{"none", "NCCL_NVLS_ENABLE=2", nil, false},
		{"own variable", "NVLS_ALLREDUCE_MULTICAST=off", nil, true},
		{"NCCL", "NCCL_NVLS_ENABLE=0", nil, true},
		{"PyTorch", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1", nil, true},
		{"NVSHMEM", "NVSHMEM_DISABLE_NVLS=1", nil, true},
		{"configuration", "NCCL_NVLS_ENABLE=", []string{"nvls.multicast=off"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			calls, lookups := filepath.Join(dir, "calls"), filepath.Join(dir, "lookups")
			environ := append(fakeGPUs(t, 2, 2), tt.environ, "FAKECUDA_LOG="+calls, "LD_AUDIT="+audit, "AUDIT_LOG="+lookups)
			r, _, _ := program{args: tt.args, environ: environ}.run(t)
			if f := find(t, r.Findings, "multicast"); (f.Severity == Skipped) != tt.off {
				t.Errorf("multicast: %+v", f)
			}
			for _, log := range []string{calls, lookups} {
				text, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(text), "cuLaunchKernel") {
					t.Errorf("%s does not show cuLaunchKernel: it does not work", filepath.Base(log))
				}
				if got := strings.Contains(strings.ToLower(string(text)), "multicast"); got == tt.off {
					t.Errorf("%s shows multicast: %v, with the switch %v", filepath.Base(log), got, tt.off)
				}
			}
		})
	}
}

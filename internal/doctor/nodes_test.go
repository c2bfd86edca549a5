//go:build linux

package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// gpuFiles is a host with n GPUs whose nodes are plain files.
func gpuFiles(nodes, host int) map[string]string {
	files := map[string]string{"/dev/nvidiactl": "", "/dev/nvidia-uvm": "", "/dev/nvidia-uvm-tools": "", "/dev/nvidia-caps/": "",
		"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Jan  1 00:00:00 UTC 2026\nGCC version:  gcc version 13.3.0"}
	for i := range nodes {
		files["/dev/nvidia"+string(rune('0'+i))] = ""
	}
	for i := range host {
		files["/proc/driver/nvidia/gpus/0000:1"+string(rune('0'+i))+":00.0/"] = ""
	}
	return files
}

func TestDeviceNodes(t *testing.T) {
	f, n := deviceNodes(fakeSystem(t, gpuFiles(8, 8)))
	want(t, find(t, f, "gpu.nodes"), OK, Yes, "8 GPU device nodes", "/dev/nvidia7")
	if len(n.present) != 8 || len(n.usable) != 8 || n.host != 8 {
		t.Errorf("counted %+v", n)
	}

	none, _ := deviceNodes(fakeSystem(t, map[string]string{"/dev/null": ""}))
	want(t, find(t, none, "gpu.nodes"), Failed, No, "no GPU device node")
	hidden, _ := deviceNodes(fakeSystem(t, map[string]string{"/dev/null": "", "/proc/driver/nvidia/gpus/0000:1b:00.0/": ""}))
	want(t, find(t, hidden, "gpu.nodes"), Failed, No, "host's driver has 1 GPU", "ask the batch system for GPUs")
	docker, _ := deviceNodes(fakeSystem(t, map[string]string{"/dev/null": "", "/proc/driver/nvidia/gpus/0000:1b:00.0/": "", "/.dockerenv": ""}))
	want(t, find(t, docker, "gpu.nodes"), Failed, No, "--gpus all")
	sif, _ := deviceNodes(fakeSystem(t, map[string]string{"/dev/null": "", "/proc/driver/nvidia/gpus/0000:1b:00.0/": ""}, "APPTAINER_CONTAINER=x.sif"))
	want(t, find(t, sif, "gpu.nodes"), Failed, No, "--nv")
	if f := find(t, sif, "gpu.nodes"); f.By != "user" {
		t.Errorf("who starts the container: %q", f.By)
	}
	noDev, _ := deviceNodes(fakeSystem(t, nil))
	want(t, find(t, noDev, "gpu.nodes"), Warning, Unknown)

	missing := gpuFiles(2, 2)
	delete(missing, "/dev/nvidia-uvm")
	f, _ = deviceNodes(fakeSystem(t, missing))
	want(t, find(t, f, "gpu.nodes"), Failed, No, "missing", "/dev/nvidia-uvm", "nvidia-modprobe -u")
}

// What the kernel answers decides the cause; the answers that cannot be made
// here come from a stand-in.
func TestRefusedNodes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		node  string
		errno unix.Errno
		sev   Severity
		words []string
	}{
		{"control group, some", "nvidia1", unix.EPERM, Warning, []string{"control group", "--gpu-bind=none", "/dev/nvidia1"}},
		{"control group, all", "nvidia", unix.EPERM, Failed, []string{"control group", "--gpu-bind=none"}},
		{"no driver behind", "nvidia", unix.ENXIO, Failed, []string{"no driver answers"}},
		{"fell off the bus", "nvidia1", unix.EIO, Warning, []string{"dmesg"}},
		{"something else", "nvidia1", unix.ENOMEM, Warning, []string{"cannot allocate memory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeSystem(t, gpuFiles(2, 2))
			s.OpenNode = func(path string) error {
				if strings.HasPrefix(filepath.Base(path), tt.node) {
					return tt.errno
				}
				return nil
			}
			f, n := deviceNodes(s)
			got := find(t, f, "gpu.nodes")
			if tt.errno == unix.ENOMEM {
				// No cause is claimed for what is not known.
				if got.Do != "" || got.What != "some GPU device nodes cannot be opened" {
					t.Errorf("claims a cause: %+v", got)
				}
			}
			want(t, got, tt.sev, No, tt.words...)
			if (tt.sev == Failed) != (len(n.usable) == 0) {
				t.Errorf("%d nodes can be used", len(n.usable))
			}
		})
	}
}

// A node that file permissions forbid, for real: as a user who is not root.
func TestForbiddenNodes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := fakeSystem(t, gpuFiles(2, 2))
	dir := filepath.Join(s.Root, "dev")
	for _, d := range []string{filepath.Dir(s.Root), s.Root, dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "nvidia0"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nvidia1", "nvidiactl", "nvidia-uvm"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan []Finding)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its changed user
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		f, _ := deviceNodes(s)
		done <- f
	}()
	want(t, find(t, <-done, "gpu.nodes"), Warning, No, "permissions", "nvidia0: permission denied")
}

func TestKernelDriver(t *testing.T) {
	f, v := kernelDriver(fakeSystem(t, gpuFiles(1, 1)))
	want(t, f, OK, "", "580.159.04")
	if v != "580.159.04" {
		t.Errorf("version %q", v)
	}
	open, v := kernelDriver(fakeSystem(t, map[string]string{"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86  Release Build\n"}))
	want(t, open, OK, "", "570.86")
	if v != "570.86" {
		t.Errorf("version %q", v)
	}
	f, _ = kernelDriver(fakeSystem(t, nil))
	want(t, find(t, []Finding{f}, "gpu.kernel-driver"), Failed, No, "no NVIDIA driver")
	f, _ = kernelDriver(fakeSystem(t, map[string]string{"/proc/driver/nvidia/version": "something else"}))
	want(t, f, Warning, Unknown, "something else")
}

func TestMasked(t *testing.T) {
	all := []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"}
	for _, tt := range []struct {
		name    string
		nodes   nodes
		visible int
		environ []string
		sev     Severity
		outcome Outcome
		words   []string
	}{
		{"all visible", nodes{all, all, 4, -1}, 4, nil, OK, Yes, []string{"4"}},
		{"masked by the variable", nodes{all, all, 4, -1}, 1, []string{"CUDA_VISIBLE_DEVICES=2"}, Warning, No, []string{"CUDA_VISIBLE_DEVICES=2 hides", "unset CUDA_VISIBLE_DEVICES"}},
		{"masked by Slurm", nodes{all, all, 4, -1}, 1, []string{"CUDA_VISIBLE_DEVICES=0", "SLURM_GPUS_PER_TASK=1", "SLURM_STEP_ID=0"}, Warning, No, []string{"--gpu-bind=none", "SLURM_GPUS_PER_TASK=1"}},
		{"denied by a control group", nodes{all, all[:1], 4, -1}, 1, []string{"CUDA_VISIBLE_DEVICES=0"}, Warning, No, []string{"cannot be opened", "--gpu-bind=none"}},
		{"fewer nodes than GPUs", nodes{all[:1], all[:1], 8, -1}, 1, nil, Warning, No, []string{"1 of 8 GPUs", "ask for all GPUs"}},
		{"fewer nodes than GPUs, in Apptainer", nodes{all[:1], all[:1], 8, -1}, 1, []string{"APPTAINER_CONTAINER=x.sif"}, Warning, No, []string{"1 of 8 GPUs", "start the container with --nv, or ask"}},
		{"Enroot shows one", nodes{all[:1], all[:1], 8, -1}, 1, []string{"ENROOT_ROOTFS=/x"}, Warning, No, []string{"ENROOT_RESTRICT_DEV=n"}},
		{"unknown cause", nodes{all, all, 4, -1}, 3, nil, Warning, No, []string{"nothing was found that hides"}},
		{"NVML sees more", nodes{nil, nil, -1, 8}, 2, nil, Warning, No, []string{"2 of 8", "nothing was found that hides"}},
		{"unknown number", nodes{nil, nil, -1, -1}, 2, nil, Info, Unknown, []string{"cannot be told"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want(t, masked(fakeSystem(t, nil, tt.environ...), tt.nodes, tt.visible), tt.sev, tt.outcome, tt.words...)
		})
	}
}

func TestUserLibraries(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "libcuda.so.580.159.04")
	link := filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	s := fakeSystem(t, map[string]string{"/usr/lib64/libnvidia-ptxjitcompiler.so.1": ""})
	f := userLibraries(s, link, "580.159.04")
	want(t, find(t, f, "gpu.libcuda"), OK, Yes, "580.159.04")
	want(t, find(t, f, "gpu.ptx-compiler"), OK, Yes, "/usr/lib64")
	other := userLibraries(fakeSystem(t, nil), link, "570.86")
	want(t, find(t, other, "gpu.libcuda"), Warning, No, "570.86", "compatibility", "LD_LIBRARY_PATH")
	want(t, find(t, other, "gpu.ptx-compiler"), Info, Unknown, "install the driver's")
	want(t, find(t, userLibraries(s, filepath.Join(dir, "libcuda.so.9"), "570.86"), "gpu.libcuda"), Info, Unknown)
	if got := userLibraries(s, "", ""); got != nil {
		t.Errorf("a library that was not loaded: %+v", got)
	}
}

func TestFabricHandles(t *testing.T) {
	want(t, fabricHandles(fakeSystem(t, nil, "NVIDIA_IMEX_CHANNELS=0"), true, true), Info, "", "NVIDIA_IMEX_CHANNELS=0", "does not need")
	want(t, fabricHandles(fakeSystem(t, nil), true, true), Info, "", "not needed", "attribute 128 = 1", "no IMEX channel")
	want(t, fabricHandles(fakeSystem(t, map[string]string{"/dev/nvidia-caps-imex-channels/channel0": ""}), false, true), Info, "", "not needed", "attribute 128 = 0", "1 IMEX channel")
}

//go:build linux

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// nodes is what this process finds of the GPUs in the file system.
type nodes struct {
	present []string // /dev/nvidia0, …
	usable  []string // those that can be opened
	host    int      // GPUs that the kernel driver has, -1 when that cannot be told
	nvml    int      // GPUs that NVML sees, -1 when that cannot be told
}

// deviceNodes opens every device node that CUDA needs. The second result says
// whether GPUs can be reached at all.
func deviceNodes(s *System) ([]Finding, nodes) {
	var out []Finding
	n := nodes{host: -1, nvml: -1}
	if gpus, err := os.ReadDir(s.path("/proc/driver/nvidia/gpus")); err == nil {
		n.host = len(gpus)
	}
	names, err := s.numbered("/dev", "nvidia")
	if err != nil {
		return []Finding{unsure("gpu.nodes", "whether there are GPU device nodes", err, "/dev")}, n
	}
	for _, name := range names {
		n.present = append(n.present, "/dev/"+name)
	}
	if len(n.present) == 0 {
		return append(out, noNodes(s, n)), n
	}
	var refused []Evidence
	var reasons []error
	for _, node := range slices.Concat([]string{"/dev/nvidiactl", "/dev/nvidia-uvm"}, n.present) {
		switch err := s.OpenNode(s.path(node)); {
		case err != nil:
			refused = append(refused, Evidence{fmt.Sprintf("%s: %v", node, err), "opening it"})
			reasons = append(reasons, err)
		case slices.Contains(n.present, node):
			n.usable = append(n.usable, node)
		}
	}
	switch {
	case len(refused) == 0:
		out = append(out, Finding{ID: "gpu.nodes", Severity: OK, Outcome: Yes, What: count(len(n.present), "GPU device node") + " can be opened, and nvidiactl and nvidia-uvm",
			Evidence: evidence(strings.Join(n.present, " "), "/dev")})
	case len(n.usable) == 0 || refusedShared(refused):
		out = append(out, refusedNodes(s, refused, reasons, Failed, allModes))
	default:
		out = append(out, refusedNodes(s, refused, reasons, Warning, nil))
	}
	return out, n
}

// refusedShared says whether a node that every GPU needs is among the refused.
func refusedShared(refused []Evidence) bool {
	return slices.ContainsFunc(refused, func(e Evidence) bool {
		return strings.HasPrefix(e.Value, "/dev/nvidiactl:") || strings.HasPrefix(e.Value, "/dev/nvidia-uvm:")
	})
}

func noNodes(s *System, n nodes) Finding {
	f := costs("gpu.nodes", "there is no GPU device node", allModes, "load the NVIDIA driver on the host (nvidia-smi makes the nodes), or use a node with GPUs; --device sim shows the program without a GPU", failure.Administrator,
		Evidence{"no nvidia0, nvidia1, …", "/dev"})
	if n.host > 0 {
		f.What = fmt.Sprintf("there is no GPU device node here, although the host's driver has %s", count(n.host, "GPU"))
		f.Evidence = append(f.Evidence, Evidence{fmt.Sprint(n.host), "folders in /proc/driver/nvidia/gpus"})
		f.Do, f.By = s.withGPUs(", and ask the batch system for GPUs", "ask the batch system for GPUs; outside of one, nvidia-modprobe makes the nodes"), failure.User
	}
	return f
}

// refusedNodes tells a control group from file permissions by the error.
func refusedNodes(s *System, refused []Evidence, reasons []error, severity Severity, cost []string) Finding {
	f := Finding{ID: "gpu.nodes", Severity: severity, Outcome: No, What: "some GPU device nodes cannot be opened", Evidence: refused, Cost: cost}
	is := func(target error) bool {
		return slices.ContainsFunc(reasons, func(e error) bool { return errors.Is(e, target) })
	}
	switch {
	case is(unix.EPERM):
		// Neither file modes nor a missing driver give EPERM: the device controller
		// of a control group does.
		f.What = "some GPU device nodes are there but may not be opened (EPERM): a control group of the batch system or the container forbids them"
		f.Do, f.By = "ask for all GPUs of the node without binding: srun --gpus-per-node=N --gpu-bind=none", failure.User
	case is(unix.EACCES):
		f.What = "the permissions of some GPU device nodes forbid opening them, or they lie on a file system mounted nodev"
		f.Do, f.By = "give the user access to the nodes (group video or mode 0666)", failure.Administrator
	case is(fs.ErrNotExist):
		f.What = "some device nodes that CUDA needs are missing"
		f.Do, f.By = "load nvidia_uvm on the host (nvidia-modprobe -u -c 0), and start the container after that", failure.Administrator
	case is(unix.ENXIO), is(unix.ENODEV), is(unix.EIO):
		f.What = "some GPU device nodes are there, but no driver answers behind them"
		f.Do, f.By = "load the NVIDIA driver on the host, and look at dmesg for GPUs that fell off the bus", failure.Administrator
	}
	return f
}

var driverVersion = regexp.MustCompile(`\b(\d{3}\.\d+(?:\.\d+)?)\b`)

// kernelDriver reads the version of the driver in the host's kernel.
func kernelDriver(s *System) (Finding, string) {
	const id, file = "gpu.kernel-driver", "/proc/driver/nvidia/version"
	text, err := s.read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return costs(id, "the host's kernel has no NVIDIA driver loaded, or /proc is hidden here", allModes,
			"load the NVIDIA driver on the host, or use a node with GPUs; --device sim shows the program without a GPU", failure.Administrator, Evidence{"not there", file}), ""
	case err != nil:
		return unsure(id, "the version of the host's NVIDIA driver", err, file), ""
	}
	v := driverVersion.FindString(text)
	if v == "" {
		return Finding{ID: id, Severity: Warning, Outcome: Unknown, What: "the version of the host's NVIDIA driver", Evidence: evidence(firstLineWith(text, ""), file)}, ""
	}
	return Finding{ID: id, Severity: OK, What: "the host's NVIDIA driver is " + v, Evidence: evidence(v, file)}, v
}

// maskVariables are what may hide GPUs from a process, or show that something
// did.
var maskVariables = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_GPU_BIND",
	"SLURM_TRES_BIND", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL"}

// masked compares the GPUs that CUDA shows to those that are there, and says
// what hides the others. visible is CUDA's count.
func masked(s *System, n nodes, visible int) Finding {
	const id = "gpu.masked"
	there := max(len(n.present), n.host, n.nvml)
	e := evidence(fmt.Sprint(visible), "cuDeviceGetCount", fmt.Sprint(len(n.present)), "nodes /dev/nvidiaN")
	if n.host >= 0 {
		e = append(e, Evidence{fmt.Sprint(n.host), "folders in /proc/driver/nvidia/gpus"})
	}
	if n.nvml >= 0 {
		e = append(e, Evidence{fmt.Sprint(n.nvml), "nvmlDeviceGetCount"})
	}
	for _, name := range maskVariables {
		if v := s.getenv(name); v != "" {
			e = append(e, Evidence{name + "=" + v, "environment"})
		}
	}
	f := Finding{ID: id, Severity: OK, Outcome: Yes, What: fmt.Sprintf("all GPUs that are there are visible: %d", visible), Evidence: e}
	if there == 0 {
		f.Severity, f.Outcome, f.What = Info, Unknown, fmt.Sprintf("%s visible; how many there are cannot be told", count(visible, "GPU"))
		return f
	}
	if visible >= there {
		return f
	}
	f.Severity, f.Outcome, f.By = Warning, No, failure.User
	hidden := fmt.Sprintf("%d of %s visible: ", visible, count(there, "GPU"))
	switch v := s.getenv("CUDA_VISIBLE_DEVICES"); {
	case len(n.usable) < len(n.present):
		f.What = hidden + fmt.Sprintf("%d device nodes cannot be opened (gpu.nodes)", len(n.present)-len(n.usable))
		f.Do = "ask for all GPUs of the node without binding: srun --gpus-per-node=N --gpu-bind=none"
	case v != "" && len(n.usable) > visible:
		f.What = hidden + "CUDA_VISIBLE_DEVICES=" + v + " hides the others. NVLS and peer access need all GPUs visible to every rank"
		f.Do = "unset CUDA_VISIBLE_DEVICES; the program gives each rank a GPU of its own"
		if s.getenv("SLURM_STEP_ID") != "" {
			f.Do = "use srun --gpus-per-node=N --gpu-bind=none, with which Slurm does not set CUDA_VISIBLE_DEVICES for each task; if the job itself sets it, unset it"
		}
	case len(n.present) < n.host:
		f.What = hidden + "the container or the batch system has put only these device nodes here"
		const unbound = "ask for all GPUs of the node without binding: srun --gpus-per-node=N --gpu-bind=none"
		f.Do = s.withGPUs(", or "+unbound, unbound)
		if s.getenv("ENROOT_ROOTFS") != "" {
			f.Do += "; Enroot (pyxis) shows all of a job's with ENROOT_RESTRICT_DEV=n"
		}
	default:
		f.What = hidden + "nothing was found that hides the others"
		f.Do = "look at nvidia-smi -L, at MIG (gpu.mig) and at dmesg for GPUs that fell off the bus"
	}
	return f
}

// libraryFolders are where a container or a distribution puts the libraries of
// the driver, after those of the dynamic linker's variable.
func (s *System) libraryFolders() []string {
	dirs := filepath.SplitList(s.getenv("LD_LIBRARY_PATH"))
	return append(dirs, "/.singularity.d/libs", "/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64", "/lib/x86_64-linux-gnu")
}

// userLibraries compares the libcuda that was loaded with the kernel's driver,
// and looks for the PTX compiler that has to lie beside it. loaded is the path
// that the dynamic linker took, "" when libcuda could not be loaded.
func userLibraries(s *System, loaded, kernel string) []Finding {
	if loaded == "" {
		return nil // gpu.driver tells
	}
	real, err := filepath.EvalSymlinks(loaded)
	if err != nil {
		real = loaded
	}
	f := Finding{ID: "gpu.libcuda", Severity: Info, Outcome: Unknown, What: "whether libcuda fits the host's driver", Evidence: evidence(real, "/proc/self/maps")}
	if v := driverVersion.FindString(filepath.Base(real)); v != "" && kernel != "" {
		f.Evidence = append(f.Evidence, Evidence{kernel, "/proc/driver/nvidia/version"})
		f.Severity, f.Outcome, f.What = OK, Yes, "libcuda and the host's driver are of the same version"
		if v != kernel {
			f.Severity, f.Outcome = Warning, No
			f.What = fmt.Sprintf("libcuda is %s and the host's driver %s: a CUDA compatibility library, or one of the image", v, kernel)
			f.Do, f.By = s.withGPUs(", which brings the host's libcuda, and keep other ones off LD_LIBRARY_PATH; if CUDA works all the same, it may stay", "keep other libcudas than the driver's off LD_LIBRARY_PATH; if CUDA works all the same, it may stay"), failure.User
		}
	}
	return []Finding{f, compiler(s, filepath.Dir(real))}
}

// compiler looks for the library by which libcuda compiles PTX. That a kernel was
// compiled is what counts: the peer probe tells.
func compiler(s *System, beside string) Finding {
	const id, name = "gpu.ptx-compiler", "libnvidia-ptxjitcompiler.so.1"
	for _, dir := range append([]string{beside}, s.libraryFolders()...) {
		if there, _ := s.exists(filepath.Join(dir, name)); there {
			return Finding{ID: id, Severity: OK, Outcome: Yes, What: "the driver's PTX compiler is there", Evidence: evidence(filepath.Join(dir, name), "file system")}
		}
	}
	return Finding{ID: id, Severity: Info, Outcome: Unknown, What: "the driver's PTX compiler was not found in the usual folders; whether a kernel compiles is seen by the peer probe",
		Evidence: evidence("no "+name, "folder of libcuda, LD_LIBRARY_PATH, usual folders"), Do: s.withGPUs(", which brings it along, or bind it", "install the driver's "+name), By: failure.User}
}

// loadedLibrary finds where the dynamic linker took a library of this process
// from.
func loadedLibrary(name string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) >= 6 && strings.HasPrefix(filepath.Base(fields[5]), name) {
			return fields[5]
		}
	}
	return ""
}

// fabricHandles explains why IMEX channels, which other programs ask for, are
// not needed here. supported is attribute 128 of the devices.
func fabricHandles(s *System, supported, known bool) Finding {
	const dir = "/dev/nvidia-caps-imex-channels"
	f := Finding{ID: "gpu.fabric-handles", Severity: Info,
		What: "FABRIC handles and IMEX channels are not needed: this program shares memory, also behind a multicast object, by file descriptor"}
	if known {
		f.Evidence = evidence(fmt.Sprintf("attribute 128 = %d", map[bool]int{true: 1}[supported]), "cuDeviceGetAttribute")
	}
	if v := s.getenv("NVIDIA_IMEX_CHANNELS"); v != "" {
		f.Evidence = append(f.Evidence, Evidence{"NVIDIA_IMEX_CHANNELS=" + v + " asks the container's runtime for channels, which this program does not need", "environment"})
	}
	channels, err := s.numbered(dir, "channel")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Evidence = append(f.Evidence, Evidence{"no IMEX channel", dir})
	case err != nil:
		f.Evidence = append(f.Evidence, Evidence{err.Error(), dir})
	default:
		f.Evidence = append(f.Evidence, Evidence{count(len(channels), "IMEX channel"), dir})
	}
	return f
}

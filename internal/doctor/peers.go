//go:build linux

package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// judgePeers tells from how the probe processes of peer memory ended whether memory
// is shared and data arrives, and if not, what to do.
func judgePeers(s *System, all []told, simulated bool) Finding {
	const id = askPeers
	if worked(all) {
		f := Finding{ID: id, Severity: OK, Outcome: Yes, What: "memory is shared and data arrives between all pairs of GPUs; ring and p2p reduce correctly", Evidence: steps(all)}
		if simulated {
			f.What += " (SIMULATED)"
		}
		return f
	}
	f := costs(id, "sharing memory between the GPUs failed", allModes, "", "", traces(all)...)
	spoke, silent := ended(all)
	var broken []string
	for _, t := range all {
		if t.End != nil {
			broken = append(broken, t.End.Broken...)
		}
	}
	switch {
	case len(broken) > 0:
		f.What = "peer access is offered, but data does not arrive between some GPUs; it will fail outside the container too"
		f.Evidence = nil
		for _, b := range broken {
			if !strings.HasPrefix(b, "another pair") {
				f.Evidence = append(f.Evidence, Evidence{b, "pattern of " + fmt.Sprint(patternBytes) + " bytes"})
			}
		}
		f.Do, f.By = "check IOMMU and ACS on the host (PCIe peer access), and NVLink (nvidia-smi nvlink -s)", failure.Administrator
	case silent != nil && silent.Late:
		f.What = fmt.Sprintf("sharing memory between the GPUs did not end in time, at stage %q of rank %d", cmp.Or(silent.Stage, "start"), silent.Rank)
		f.Do, f.By = "look at dmesg for Xid messages, and check IOMMU and ACS on the host", failure.Administrator
	case silent != nil:
		f.What = fmt.Sprintf("a probe process broke while sharing memory between the GPUs, at stage %q of rank %d", cmp.Or(silent.Stage, "start"), silent.Rank)
		f.Do, f.By = "look at dmesg on the host for the process and for Xid messages", failure.Administrator
	case spoke != nil && spoke.Code == failure.WrongData:
		f.What = "data arrives between the GPUs, but an all-reduce by their kernels gives wrong data"
		f.Do, f.By = "look at dmesg on the host for Xid messages, and check IOMMU and ACS", failure.Administrator
	case spoke != nil:
		f.Do, f.By = spoke.Do, spoke.By
		what, _, _ := apart(spoke.Text)
		f.What += ": " + what
		if code := codeIn(spoke.Text); code != 0 {
			f.What = fmt.Sprintf("sharing memory between the GPUs failed with error %d", code)
			f.Do, f.By = peerRemedy(s, code)
		}
	}
	f.Exit = exitOf(spoke, silent)
	if f.Do == "" {
		f.Do, f.By = "see the evidence; what the other findings say comes first", failure.User
	}
	return f
}

// peerRemedy is what to do about a driver's code where memory is shared without
// multicast.
func peerRemedy(s *System, code device.Code) (string, failure.Who) {
	switch code {
	case device.OutOfMemory:
		return "end other programs on these GPUs", failure.User
	case device.InvalidDevice:
		return "give every rank all GPUs: srun --gpus-per-node=N --gpu-bind=none, and no CUDA_VISIBLE_DEVICES per rank", failure.User
	case device.OperatingSystem:
		return "raise the limit on open files (ulimit -n), and look at the container's seccomp profile", failure.User
	case device.NotPermitted, device.NotSupported:
		return "use a newer driver; under a hypervisor or vGPU ask for full GPUs", failure.Administrator
	case jitCompilerNotFound:
		return s.withGPUs(", which brings libnvidia-ptxjitcompiler along, or bind it (gpu.ptx-compiler)", "install the driver's libnvidia-ptxjitcompiler.so.1 (gpu.ptx-compiler)"), failure.User
	case device.UnsupportedPTX, device.InvalidPTX, device.NoBinaryForGPU:
		return "install a newer driver", failure.Administrator
	case device.SystemNotReady:
		return "start Fabric Manager on the host, at exactly the driver's version (systemctl status nvidia-fabricmanager)", failure.Administrator
	case device.Unknown:
		return "look at dmesg on the host for Xid messages", failure.Administrator
	}
	return "see the evidence; what the other findings say comes first", failure.User
}

// jitCompilerNotFound is CUDA_ERROR_JIT_COMPILER_NOT_FOUND.
const jitCompilerNotFound device.Code = 221

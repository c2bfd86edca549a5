package nvls

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Reason is why NVLS cannot run, and what can be done. Runs and the doctor take
// their words from here, so that both say the same.
type Reason struct {
	// ID is that of the doctor's finding: "nvls.switched-off".
	ID  string
	Why string // "" when the driver's error says it all
	Do  string
	By  failure.Who
}

// Reasons lists what speaks against NVLS on a device as far as that is known
// without touching the multicast interface of the driver, the most decisive
// first. shared says that several ranks use one GPU.
func Reasons(d device.Info, shared bool) []Reason {
	var out []Reason
	add := func(id, why, do string, by failure.Who) { out = append(out, Reason{"nvls." + id, why, do, by}) }
	if d.MulticastOff != "" {
		add("switched-off", "multicast is switched off at this site: "+d.MulticastOff,
			"use --mode ring or p2p; remove the switch only if whoever runs this host says that multicast is safe here", failure.User)
	}
	if !d.AtLeast(9, 0) {
		add("compute-capability", fmt.Sprintf("multimem instructions need compute capability 9.0, this GPU has %s", d.ComputeCapability()),
			"use --mode ring or p2p", failure.User)
	}
	if shared {
		add("shared-gpu", "several ranks share one GPU, and a multicast object takes each GPU once",
			"start one rank a GPU, or use --mode ring or p2p", failure.User)
	}
	if !d.VMM || !d.PosixFD {
		add("descriptors", "the driver cannot share memory by file descriptor (attributes 102 and 103)",
			"use a newer driver; under a hypervisor or vGPU ask for a full GPU", failure.Administrator)
	}
	// With the switch on, or before 9.0, nobody asked the driver.
	if !d.Multicast && d.MulticastOff == "" && d.AtLeast(9, 0) {
		add("not-offered", "the driver offers no multicast here (attribute 132 is 0): no NVSwitch, MIG or confidential computing mode, a virtual machine without its NVSwitch partition, or Fabric Manager not running",
			"run \"nvls-allreduce doctor\", which looks at each of these; use --mode ring or p2p meanwhile", failure.Administrator)
	}
	return out
}

// Refused explains a driver's refusal of a multicast call by its code. What the
// code means is in the error's own text (device.Meaning).
func Refused(err error) Reason {
	const meanwhile = "; use --mode ring or p2p meanwhile"
	r := Reason{ID: "nvls.refused", Do: "use --mode ring or p2p, or --fallback allow", By: failure.User}
	var e *device.Error
	if !errors.As(err, &e) {
		return r
	}
	switch e.Code {
	case device.InvalidValue:
		r.ID = "nvls.unhealthy"
		r.Do, r.By = "restart Fabric Manager on the host (systemctl restart nvidia-fabricmanager) and reset all GPUs (nvidia-smi -r), or reboot; /var/log/fabricmanager.log tells more"+meanwhile, failure.Administrator
	case device.OutOfMemory:
		r.ID = "nvls.slots"
		r.Do, r.By = "end other jobs on this node that use NVLS (NCCL makes multicast objects too)"+meanwhile, failure.User
	case device.InvalidDevice:
		r.ID = "nvls.not-visible"
		r.Do = "give every rank all GPUs: srun --gpus-per-node=N --gpu-bind=none, and no CUDA_VISIBLE_DEVICES per rank"
	case device.OperatingSystem:
		r.ID = "nvls.system-call"
		r.Do = "raise the limit on open files (ulimit -n), and look at the container's seccomp profile" + meanwhile
	case device.IllegalState:
		r.ID = "nvls.fabric-manager"
		r.Do, r.By = "check Fabric Manager on the host (systemctl status nvidia-fabricmanager, /var/log/fabricmanager.log), restart it and reset all GPUs"+meanwhile, failure.Administrator
	case device.NotPermitted, device.NotSupported:
		r.ID = "nvls.not-supported"
		r.Do, r.By = "use a driver of CUDA 12.1 or newer; under a hypervisor or vGPU ask for full GPUs with their NVSwitch partition"+meanwhile, failure.Administrator
	case device.SystemNotReady:
		r.ID = "nvls.not-ready"
		r.Do, r.By = "check Fabric Manager on the host (systemctl status nvidia-fabricmanager)"+meanwhile, failure.Administrator
	case device.Unknown:
		r.ID = "nvls.xid"
		r.Do, r.By = "look for Xid messages in dmesg on the host, and reset the GPU"+meanwhile, failure.Administrator
	}
	return r
}

// BindLate is the reason when the driver does not return from binding.
var BindLate = Reason{ID: "nvls.bind-hangs",
	Do: "check Fabric Manager on the host (systemctl status nvidia-fabricmanager); use --mode ring or p2p meanwhile", By: failure.Administrator}

// failure makes the error of a run. what starts with "NVLS cannot run".
func (r Reason) failure(what, where string, err error) *failure.Error {
	return &failure.Error{Code: failure.Unavailable, What: what + " [" + r.ID + "]", Where: where, Why: r.Why, Err: err, Do: r.Do, By: r.By}
}

package nvls

import (
	"fmt"
	"regexp"

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

const meanwhile = "; use --mode ring or p2p meanwhile"

// refusals are what a driver's code means for a multicast call. The code's own
// meaning is in the error's text (device.Meaning).
var refusals = map[device.Code]Reason{
	device.InvalidValue: {ID: "nvls.unhealthy", By: failure.Administrator,
		Do: "restart Fabric Manager on the host (systemctl restart nvidia-fabricmanager) and reset all GPUs (nvidia-smi -r), or reboot; /var/log/fabricmanager.log tells more" + meanwhile},
	device.OutOfMemory: {ID: "nvls.slots", By: failure.User,
		Do: "end other jobs on this node that use NVLS (NCCL makes multicast objects too)" + meanwhile},
	device.InvalidDevice: {ID: "nvls.not-visible", By: failure.User,
		Do: "give every rank all GPUs: srun --gpus-per-node=N --gpu-bind=none, and no CUDA_VISIBLE_DEVICES per rank"},
	device.OperatingSystem: {ID: "nvls.system-call", By: failure.User,
		Do: "raise the limit on open files (ulimit -n), and look at the container's seccomp profile" + meanwhile},
	device.IllegalState: {ID: "nvls.fabric-manager", By: failure.Administrator,
		Do: "check Fabric Manager on the host (systemctl status nvidia-fabricmanager, /var/log/fabricmanager.log), restart it and reset all GPUs" + meanwhile},
	device.NotPermitted: {ID: "nvls.not-permitted", By: failure.Administrator,
		Do: "ask whoever runs this host what may create multicast objects here" + meanwhile},
	device.NotSupported: {ID: "nvls.not-supported", By: failure.Administrator,
		Do: "use a driver of CUDA 12.1 or newer; under a hypervisor or vGPU ask for full GPUs with their NVSwitch partition" + meanwhile},
	device.SystemNotReady: {ID: "nvls.not-ready", By: failure.Administrator,
		Do: "check Fabric Manager on the host (systemctl status nvidia-fabricmanager)" + meanwhile},
	device.Unknown: {ID: "nvls.xid", By: failure.Administrator,
		Do: "look for Xid messages in dmesg on the host, and reset the GPU" + meanwhile},
}

var (
	// bindLate is the reason when the driver does not return from binding.
	bindLate = Reason{ID: "nvls.bind-hangs", By: failure.Administrator,
		Do: "check Fabric Manager on the host (systemctl status nvidia-fabricmanager)" + meanwhile}
	// refused is the reason for a code without a row above.
	refused = Reason{ID: "nvls.refused", By: failure.User, Do: "use --mode ring or p2p, or --fallback allow"}
)

// Refused explains a driver's refusal of a multicast call by its code.
func Refused(err error) Reason {
	if code, ok := device.CodeOf(err); ok {
		if r, ok := refusals[code]; ok {
			return r
		}
	}
	return refused
}

// named finds the id that an error's text carries.
var named = regexp.MustCompile(`\[(nvls\.[a-z-]+)\]`)

// ReasonIn finds the reason of a refused multicast call by the id in the text of
// an error: votes pass errors on as text.
func ReasonIn(text string) (Reason, bool) {
	m := named.FindStringSubmatch(text)
	if m == nil {
		return Reason{}, false
	}
	for _, r := range refusals {
		if r.ID == m[1] {
			return r, true
		}
	}
	for _, r := range []Reason{bindLate, refused} {
		if r.ID == m[1] {
			return r, true
		}
	}
	return Reason{}, false
}

// failure makes the error of a run. what starts with "NVLS cannot run".
func (r Reason) failure(what, where string, err error) *failure.Error {
	return &failure.Error{Code: failure.Unavailable, What: what + " [" + r.ID + "]", Where: where, Why: r.Why, Err: err, Do: r.Do, By: r.By}
}

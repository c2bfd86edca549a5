//go:build linux

package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// askNVML reads driver version, MIG, confidential computing, virtualisation and
// the state of the NVLink fabric, none of which libcuda tells where cuInit fails.
// gpus is the number of GPUs that NVML sees, -1 when it cannot tell. An entry point that the library lacks is not
// called: the dynamic linker would end the process.
func askNVML(s *System) (out []Finding, gpus int) {
	started := nvml.ERROR_UNKNOWN
	if err := sigguard.GuardSignals(func() error { started = s.NVML.Init(); return nil }); err != nil {
		return []Finding{unsure("gpu.nvml", "whether NVML works", err, "nvmlInit")}, -1
	}
	if started != nvml.SUCCESS {
		return []Finding{noNVML(s, started)}, -1
	}
	defer s.NVML.Shutdown()
	e := evidence()
	if v, ret := s.NVML.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		e = append(e, Evidence{v, "nvmlSystemGetDriverVersion"})
	}
	n, ret := s.NVML.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return []Finding{unsure("gpu.nvml", "how many GPUs NVML sees", errors.New(word(ret)), "nvmlDeviceGetCount")}, -1
	}
	e = append(e, Evidence{fmt.Sprint(n), "nvmlDeviceGetCount"})
	out = append(out, Finding{ID: "gpu.nvml", Severity: OK, Outcome: Yes, What: "NVML works and sees " + count(n, "GPU"), Evidence: e})
	out = append(out, confidential(s))
	var mig, virtual, fabric, links answers
	for i := range n {
		d, ret := s.NVML.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			mig.add("could not tell: " + word(ret))
			virtual.add("could not tell: " + word(ret))
			fabric.add("could not tell: " + word(ret))
			links.add("could not tell: " + word(ret))
			continue
		}
		mig.add(migMode(s, d))
		virtual.add(virtualisation(s, d))
		fabric.add(fabricState(s, d))
		links.add(linkStates(s, d))
	}
	if n == 0 {
		return out, 0
	}
	return append(out, judgeMIG(mig), judgeVirtual(virtual), judgeFabric(fabric), judgeLinks(links)), n
}

func noNVML(s *System, ret nvml.Return) Finding {
	f := unsure("gpu.nvml", "MIG, confidential computing and the state of the NVLink fabric", errors.New(word(ret)), "nvmlInit")
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		f.What = "libnvidia-ml was not found, so that MIG, confidential computing and the state of the NVLink fabric are not known"
		f.Do, f.By = s.withGPUs(", which brings the library along", "install the driver's libnvidia-ml.so.1"), failure.User
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		f.What = "libnvidia-ml here does not fit the driver in the host's kernel"
		f.Do, f.By = s.withGPUs(" and without a libnvidia-ml of the image; ", "keep other libnvidia-mls than the driver's off LD_LIBRARY_PATH; ")+"after an update of the driver, reboot the host", failure.Administrator
	case nvml.ERROR_DRIVER_NOT_LOADED:
		f.What = "NVML finds no NVIDIA driver in the host's kernel"
		f.Do, f.By = "load the NVIDIA driver on the host, or use a node with GPUs", failure.Administrator
	case nvml.ERROR_NO_PERMISSION:
		f.What = "NVML may not talk to the driver"
		f.Do, f.By = "look at the permissions of /dev/nvidiactl (gpu.nodes)", failure.Administrator
	}
	return f
}

// word is NVML's own word for a result. The library may be missing.
func word(ret nvml.Return) string {
	return fmt.Sprintf("%s (NVML error %d)", nvml.ErrorString(ret), int(ret))
}

func (s *System) hasNVML(symbol string) bool {
	return s.NVML.Extensions().LookupSymbol(symbol) == nil
}

// answers counts equal answers of the devices, in order of appearance.
type answers struct {
	words []string
	count map[string]int
}

func (a *answers) add(word string) {
	if a.count == nil {
		a.count = map[string]int{}
	}
	if a.count[word] == 0 {
		a.words = append(a.words, word)
	}
	a.count[word]++
}

func (a *answers) evidence(from string) []Evidence {
	var out []Evidence
	for _, w := range a.words {
		out = append(out, Evidence{count(a.count[w], "GPU") + ": " + w, from})
	}
	return out
}

// only says whether every device gave the answer.
func (a *answers) only(word string) bool { return len(a.words) == 1 && a.words[0] == word }

const (
	migOff  = "MIG is off"
	migOn   = "MIG is on"
	noMIG   = "no MIG on this GPU"
	missing = "could not tell: the library has no such call"
)

func migMode(s *System, d nvml.Device) string {
	if !s.hasNVML("nvmlDeviceGetMigMode") {
		return missing
	}
	current, _, ret := d.GetMigMode()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return noMIG
	case ret != nvml.SUCCESS:
		return "could not tell: " + word(ret)
	case current == nvml.DEVICE_MIG_ENABLE:
		return migOn
	}
	return migOff
}

func judgeMIG(a answers) Finding {
	const from = "nvmlDeviceGetMigMode"
	switch {
	case a.count[migOn] > 0 && !a.only(migOn):
		return Finding{ID: "gpu.mig", Severity: Warning, Outcome: Yes, What: "MIG is on for some GPUs: their parts have no NVLink, so neither peer access nor NVLS; ranks must use the others",
			Evidence: a.evidence(from), Do: "nvidia-smi -i GPU -mig 0 on the host, or use a node without MIG", By: failure.Administrator}
	case a.only(migOn):
		return costs("gpu.mig", "MIG is on: parts of a GPU have no NVLink, so neither peer access nor NVLS", allModes,
			"nvidia-smi -i GPU -mig 0 on the host, or use a node without MIG", failure.Administrator, a.evidence(from)...)
	case a.count[migOff]+a.count[noMIG] == total(a):
		return Finding{ID: "gpu.mig", Severity: OK, Outcome: No, What: "no GPU is divided by MIG", Evidence: a.evidence(from)}
	}
	return Finding{ID: "gpu.mig", Severity: Warning, Outcome: Unknown, What: "whether GPUs are divided by MIG", Evidence: a.evidence(from)}
}

func total(a answers) (n int) {
	for _, c := range a.count {
		n += c
	}
	return n
}

// confidential asks for confidential computing, in which the driver offers no
// multicast.
func confidential(s *System) Finding {
	const id, call = "gpu.confidential", "nvmlSystemGetConfComputeState"
	if !s.hasNVML(call) {
		return Finding{ID: id, Severity: Info, Outcome: Unknown, What: "whether confidential computing is on", Evidence: evidence(missing, call)}
	}
	state, ret := s.NVML.SystemGetConfComputeState()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return Finding{ID: id, Severity: OK, Outcome: No, What: "confidential computing is off", Evidence: evidence("not supported", call)}
	case ret != nvml.SUCCESS:
		return Finding{ID: id, Severity: Info, Outcome: Unknown, What: "whether confidential computing is on", Evidence: evidence(word(ret), call)}
	case state.CcFeature == nvml.CC_SYSTEM_FEATURE_DISABLED:
		return Finding{ID: id, Severity: OK, Outcome: No, What: "confidential computing is off", Evidence: evidence("ccFeature 0", call)}
	}
	// Newer systems may have both, so the attribute and the probe decide.
	return Finding{ID: id, Severity: Warning, Outcome: Yes, What: "confidential computing is on, in which drivers have been seen to offer no multicast, or to refuse to bind memory",
		Evidence: evidence(fmt.Sprintf("ccFeature %d", state.CcFeature), call), Do: "use --mode ring or p2p, or ask for a node without confidential computing", By: failure.Administrator}
}

func virtualisation(s *System, d nvml.Device) string {
	if !s.hasNVML("nvmlDeviceGetVirtualizationMode") {
		return missing
	}
	mode, ret := d.GetVirtualizationMode()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return "not virtual"
	case ret != nvml.SUCCESS:
		return "could not tell: " + word(ret)
	}
	switch mode {
	case nvml.GPU_VIRTUALIZATION_MODE_NONE:
		return "not virtual"
	case nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH:
		return "passed through to a virtual machine"
	case nvml.GPU_VIRTUALIZATION_MODE_VGPU:
		return "a vGPU"
	}
	return fmt.Sprintf("virtualisation mode %d", mode)
}

func judgeVirtual(a answers) Finding {
	const id, from = "gpu.virtual", "nvmlDeviceGetVirtualizationMode"
	switch {
	case a.count["a vGPU"] > 0:
		return Finding{ID: id, Severity: Warning, Outcome: Yes, What: "this is a vGPU: sharing memory between GPUs may not be offered; the attributes and probes below decide",
			Evidence: a.evidence(from), Do: "ask for full GPUs", By: failure.Administrator}
	case a.only("not virtual"):
		return Finding{ID: id, Severity: OK, Outcome: No, What: "the GPUs are not virtual", Evidence: a.evidence(from)}
	case a.count["passed through to a virtual machine"] > 0:
		return Finding{ID: id, Severity: Info, Outcome: Yes, What: "the GPUs are passed through to a virtual machine: NVLink among them needs their NVSwitch partition active on the host",
			Evidence: a.evidence(from)}
	}
	return Finding{ID: id, Severity: Info, Outcome: Unknown, What: "whether the GPUs are virtual", Evidence: a.evidence(from)}
}

const (
	fabricDone    = "registration completed with success"
	fabricNone    = "the GPU takes part in no fabric"
	fabricPending = "registration in progress"
	fabricNever   = "registration not started"
)

func fabricState(s *System, d nvml.Device) string {
	if !s.hasNVML("nvmlDeviceGetGpuFabricInfo") {
		return missing
	}
	info, ret := d.GetGpuFabricInfo()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED:
		return fabricNone
	case ret != nvml.SUCCESS:
		return "could not tell: " + word(ret)
	}
	switch info.State {
	case nvml.GPU_FABRIC_STATE_NOT_SUPPORTED:
		return fabricNone
	case nvml.GPU_FABRIC_STATE_NOT_STARTED:
		return fabricNever
	case nvml.GPU_FABRIC_STATE_IN_PROGRESS:
		return fabricPending
	case nvml.GPU_FABRIC_STATE_COMPLETED:
		if status := nvml.Return(info.Status); status != nvml.SUCCESS {
			return "registration completed with " + word(status)
		}
		if info.ClusterUuid != [16]uint8{} {
			return fabricDone + ", member of a cluster of several nodes (MNNVL)"
		}
		return fabricDone
	}
	return fmt.Sprintf("fabric state %d", info.State)
}

// judgeFabric: Fabric Manager on the host registers every GPU with the NVSwitch
// fabric, and multicast needs that.
func judgeFabric(a answers) Finding {
	const id, from = "gpu.fabric", "nvmlDeviceGetGpuFabricInfo"
	good := a.count[fabricDone] + a.count[fabricDone+", member of a cluster of several nodes (MNNVL)"]
	f := Finding{ID: id, Severity: OK, Outcome: Yes, What: "Fabric Manager has registered every GPU with the NVLink fabric", Evidence: a.evidence(from)}
	switch n := total(a); {
	case good == n && a.count[fabricDone] == n:
	case good == n:
		f.What = "every GPU is registered with the NVLink fabric of a cluster of several nodes (MNNVL); this program stays on one node and shares memory by file descriptor, so that it needs no IMEX channel"
	case a.count[fabricNone] == n:
		f.Severity, f.Outcome, f.What = Info, No, "the GPUs take part in no NVLink fabric: Hopper and newer GPUs behind NVSwitches do, older and directly linked ones do not"
	case a.count[fabricNever]+a.count[fabricPending] == n:
		return costs(id, "Fabric Manager has not registered the GPUs with the NVLink fabric", nvlsModes,
			"start Fabric Manager on the host, at exactly the driver's version: systemctl status nvidia-fabricmanager; nothing inside a container can do this", failure.Administrator, a.evidence(from)...)
	case a.count[missing] == n:
		f.Severity, f.Outcome, f.What = Info, Unknown, "the state of the NVLink fabric"
	default:
		f.Severity, f.Outcome, f.What = Warning, Unknown, "the state of the NVLink fabric of every GPU"
		f.Do, f.By = "look at Fabric in nvidia-smi -q, and at Fabric Manager on the host", failure.Administrator
		for _, w := range a.words {
			if w != fabricDone && !strings.HasPrefix(w, "could not tell") {
				f.What = "not every GPU is registered with the NVLink fabric"
				f.Outcome = No
			}
		}
	}
	return f
}

const noLinks = "no NVLink"

// linkStates counts the NVLinks of a GPU: "18 of 18 NVLinks are up".
func linkStates(s *System, d nvml.Device) string {
	if !s.hasNVML("nvmlDeviceGetNvLinkState") {
		return missing
	}
	up, all := 0, 0
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.GetNvLinkState(link)
		switch ret {
		case nvml.SUCCESS:
			all++
			if state == nvml.FEATURE_ENABLED {
				up++
			}
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT: // the GPU has no such link
		default:
			return "could not tell: " + word(ret)
		}
	}
	if all == 0 {
		return noLinks
	}
	return fmt.Sprintf("%d of %d NVLinks are up", up, all)
}

// judgeLinks: links that are down cost bandwidth, or peer access; the probe of peer
// memory tells.
func judgeLinks(a answers) Finding {
	const id, from = "gpu.links", "nvmlDeviceGetNvLinkState"
	f := Finding{ID: id, Severity: OK, Outcome: Yes, What: "every NVLink is up", Evidence: a.evidence(from)}
	down, unknown := false, false
	for _, w := range a.words {
		var up, all int
		switch _, err := fmt.Sscanf(w, "%d of %d", &up, &all); {
		case strings.HasPrefix(w, "could not tell"):
			unknown = true
		case err == nil && up < all:
			down = true
		}
	}
	switch {
	case down:
		f.Severity, f.Outcome, f.What = Warning, No, "some NVLinks are down: all-reduces are slower, or peer access is missing"
		f.Do, f.By = "look at nvidia-smi nvlink -s and at dmesg on the host", failure.Administrator
	case a.count[noLinks] > 0 && a.only(noLinks):
		f.Severity, f.Outcome, f.What = Info, No, "the GPUs have no NVLink: peer access goes over PCIe, and NVLS is not to be had"
	case unknown:
		f.Severity, f.Outcome, f.What = Info, Unknown, "whether every NVLink is up"
	case a.count[noLinks] > 0:
		f.Severity, f.Outcome, f.What = Warning, No, "some GPUs have no NVLink"
		f.Do, f.By = "look at nvidia-smi nvlink -s, and use GPUs that are linked", failure.User
	}
	return f
}

//go:build linux

package doctor

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// fakeGPU is what NVML says of one GPU.
type fakeGPU struct {
	mig     int
	migRet  nvml.Return
	virtual nvml.GpuVirtualizationMode
	fabric  nvml.GpuFabricInfo
	fabRet  nvml.Return
	handle  nvml.Return
	down    int         // links that are down
	linkRet nvml.Return // of every link
}

// healthy is a Hopper GPU on a host where all is well.
var healthy = fakeGPU{fabric: nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_COMPLETED}}

// fakeNVML knows some GPUs. lacks is an entry point that the library has not;
// calling it fails the test.
func fakeNVML(t *testing.T, lacks string, cc nvml.ConfComputeSystemState, ccRet nvml.Return, gpus ...fakeGPU) nvml.Interface {
	check := func(name string) {
		if name == lacks {
			t.Errorf("%s was called, which the library lacks", name)
		}
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.159.04", nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return len(gpus), nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				if name == lacks {
					return errors.New("missing")
				}
				return nil
			}}
		},
		SystemGetConfComputeStateFunc: func() (nvml.ConfComputeSystemState, nvml.Return) {
			check("nvmlSystemGetConfComputeState")
			return cc, ccRet
		},
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			g := gpus[i]
			return &mock.Device{
				GetMigModeFunc: func() (int, int, nvml.Return) {
					check("nvmlDeviceGetMigMode")
					return g.mig, g.mig, g.migRet
				},
				GetVirtualizationModeFunc: func() (nvml.GpuVirtualizationMode, nvml.Return) {
					check("nvmlDeviceGetVirtualizationMode")
					return g.virtual, nvml.SUCCESS
				},
				GetNvLinkStateFunc: func(link int) (nvml.EnableState, nvml.Return) {
					check("nvmlDeviceGetNvLinkState")
					switch {
					case g.linkRet != nvml.SUCCESS:
						return nvml.FEATURE_DISABLED, g.linkRet
					case link >= 4: // the fake has four
						return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
					case link < g.down:
						return nvml.FEATURE_DISABLED, nvml.SUCCESS
					}
					return nvml.FEATURE_ENABLED, nvml.SUCCESS
				},
				GetGpuFabricInfoFunc: func() (nvml.GpuFabricInfo, nvml.Return) {
					check("nvmlDeviceGetGpuFabricInfo")
					return g.fabric, g.fabRet
				},
			}, g.handle
		},
	}
}

func TestNVML(t *testing.T) {
	with := func(change func(*fakeGPU)) fakeGPU {
		g := healthy
		change(&g)
		return g
	}
	mig := with(func(g *fakeGPU) { g.mig = nvml.DEVICE_MIG_ENABLE })
	noMIG := with(func(g *fakeGPU) { g.migRet = nvml.ERROR_NOT_SUPPORTED })
	state := func(s uint8) fakeGPU { return with(func(g *fakeGPU) { g.fabric.State = s }) }
	broken := with(func(g *fakeGPU) { g.fabric.Status = uint32(nvml.ERROR_UNKNOWN) })
	cluster := with(func(g *fakeGPU) { g.fabric.ClusterUuid[0] = 7 })
	guest := with(func(g *fakeGPU) { g.virtual = nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH })
	vgpu := with(func(g *fakeGPU) { g.virtual = nvml.GPU_VIRTUALIZATION_MODE_VGPU })
	lost := with(func(g *fakeGPU) { g.handle = nvml.ERROR_GPU_IS_LOST })
	denied := with(func(g *fakeGPU) { g.migRet = nvml.ERROR_NO_PERMISSION })
	oneDown := with(func(g *fakeGPU) { g.down = 1 })
	unlinked := with(func(g *fakeGPU) { g.linkRet = nvml.ERROR_NOT_SUPPORTED })
	unread := with(func(g *fakeGPU) { g.linkRet = nvml.ERROR_NO_PERMISSION })
	on := nvml.ConfComputeSystemState{CcFeature: nvml.CC_SYSTEM_FEATURE_ENABLED}
	for _, tt := range []struct {
		name, lacks string
		cc          nvml.ConfComputeSystemState
		ccRet       nvml.Return
		gpus        []fakeGPU
		id          string
		sev         Severity
		outcome     Outcome
		words       []string
	}{
		{name: "count", gpus: []fakeGPU{healthy, healthy}, id: "gpu.nvml", sev: OK, outcome: Yes, words: []string{"2 GPUs", "580.159.04"}},
		{name: "no MIG", gpus: []fakeGPU{healthy, noMIG}, id: "gpu.mig", sev: OK, outcome: No},
		{name: "MIG", gpus: []fakeGPU{mig, mig}, id: "gpu.mig", sev: Failed, outcome: No, words: []string{"MIG is on", "-mig 0"}},
		{name: "some MIG", gpus: []fakeGPU{healthy, mig}, id: "gpu.mig", sev: Warning, outcome: Yes, words: []string{"1 GPU: MIG is on"}},
		{name: "MIG unknown", gpus: []fakeGPU{healthy, denied}, id: "gpu.mig", sev: Warning, outcome: Unknown},
		{name: "no MIG call", lacks: "nvmlDeviceGetMigMode", gpus: []fakeGPU{healthy}, id: "gpu.mig", sev: Warning, outcome: Unknown},
		{name: "no confidential computing", gpus: []fakeGPU{healthy}, id: "gpu.confidential", sev: OK, outcome: No},
		{name: "confidential computing", cc: on, gpus: []fakeGPU{healthy}, id: "gpu.confidential", sev: Warning, outcome: Yes, words: []string{"ccFeature 1"}},
		{name: "cannot do confidential computing", ccRet: nvml.ERROR_NOT_SUPPORTED, gpus: []fakeGPU{healthy}, id: "gpu.confidential", sev: OK, outcome: No},
		{name: "confidential computing unknown", ccRet: nvml.ERROR_UNKNOWN, gpus: []fakeGPU{healthy}, id: "gpu.confidential", sev: Info, outcome: Unknown},
		{name: "old library", lacks: "nvmlSystemGetConfComputeState", gpus: []fakeGPU{healthy}, id: "gpu.confidential", sev: Info, outcome: Unknown},
		{name: "bare metal", gpus: []fakeGPU{healthy}, id: "gpu.virtual", sev: OK, outcome: No},
		{name: "virtual machine", gpus: []fakeGPU{guest}, id: "gpu.virtual", sev: Info, outcome: Yes, words: []string{"NVSwitch partition"}},
		{name: "vGPU", gpus: []fakeGPU{vgpu}, id: "gpu.virtual", sev: Warning, outcome: Yes},
		{name: "fabric", gpus: []fakeGPU{healthy, healthy}, id: "gpu.fabric", sev: OK, outcome: Yes},
		{name: "cluster", gpus: []fakeGPU{cluster}, id: "gpu.fabric", sev: OK, outcome: Yes, words: []string{"MNNVL", "no IMEX"}},
		{name: "no Fabric Manager", gpus: []fakeGPU{state(nvml.GPU_FABRIC_STATE_NOT_STARTED), state(nvml.GPU_FABRIC_STATE_NOT_STARTED)}, id: "gpu.fabric", sev: Failed, outcome: No, words: []string{"nvidia-fabricmanager", "not started"}},
		{name: "in progress", gpus: []fakeGPU{state(nvml.GPU_FABRIC_STATE_IN_PROGRESS)}, id: "gpu.fabric", sev: Failed, outcome: No, words: []string{"in progress"}},
		{name: "one is behind", gpus: []fakeGPU{healthy, state(nvml.GPU_FABRIC_STATE_IN_PROGRESS)}, id: "gpu.fabric", sev: Warning, outcome: No, words: []string{"not every GPU"}},
		{name: "no fabric", gpus: []fakeGPU{state(nvml.GPU_FABRIC_STATE_NOT_SUPPORTED)}, id: "gpu.fabric", sev: Info, outcome: No},
		{name: "failed registration", gpus: []fakeGPU{broken}, id: "gpu.fabric", sev: Warning, outcome: No, words: []string{"completed with"}},
		{name: "lost GPU", gpus: []fakeGPU{healthy, lost}, id: "gpu.fabric", sev: Warning, outcome: Unknown, words: []string{"1 GPU: could not tell"}},
		{name: "links", gpus: []fakeGPU{healthy, healthy}, id: "gpu.links", sev: OK, outcome: Yes, words: []string{"2 GPUs: 4 of 4"}},
		{name: "a link is down", gpus: []fakeGPU{healthy, oneDown}, id: "gpu.links", sev: Warning, outcome: No, words: []string{"1 GPU: 3 of 4", "nvlink -s"}},
		{name: "all links are down", gpus: []fakeGPU{with(func(g *fakeGPU) { g.down = 4 })}, id: "gpu.links", sev: Warning, outcome: No, words: []string{"0 of 4"}},
		{name: "no links", gpus: []fakeGPU{unlinked, unlinked}, id: "gpu.links", sev: Info, outcome: No, words: []string{"PCIe"}},
		{name: "some without links", gpus: []fakeGPU{healthy, unlinked}, id: "gpu.links", sev: Warning, outcome: No, words: []string{"1 GPU: no NVLink"}},
		{name: "links unknown", gpus: []fakeGPU{healthy, unread}, id: "gpu.links", sev: Info, outcome: Unknown},
		{name: "no call for links", lacks: "nvmlDeviceGetNvLinkState", gpus: []fakeGPU{healthy}, id: "gpu.links", sev: Info, outcome: Unknown},
		{name: "no fabric call", lacks: "nvmlDeviceGetGpuFabricInfo", gpus: []fakeGPU{healthy}, id: "gpu.fabric", sev: Info, outcome: Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeSystem(t, nil)
			s.NVML = fakeNVML(t, tt.lacks, tt.cc, tt.ccRet, tt.gpus...)
			f, _ := askNVML(s)
			want(t, find(t, f, tt.id), tt.sev, tt.outcome, tt.words...)
			for _, other := range f {
				sound(t, other)
			}
		})
	}
}

func TestNoNVML(t *testing.T) {
	for ret, words := range map[nvml.Return][]string{
		nvml.ERROR_LIBRARY_NOT_FOUND:       {"not found", "install the driver's libnvidia-ml"},
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: {"does not fit", "reboot"},
		nvml.ERROR_DRIVER_NOT_LOADED:       {"no NVIDIA driver"},
		nvml.ERROR_NO_PERMISSION:           {"/dev/nvidiactl"},
		nvml.ERROR_UNKNOWN:                 {"NVML error 999"},
	} {
		s := fakeSystem(t, nil)
		s.NVML = &mock.Interface{InitFunc: func() nvml.Return { return ret }}
		f, _ := askNVML(s)
		if len(f) != 1 {
			t.Errorf("%v: %+v", ret, f)
		}
		want(t, f[0], Warning, Unknown, words...)
	}
	// For real: this machine, or a machine without the library.
	f, _ := askNVML(Host(nil))
	for _, x := range f {
		sound(t, x)
	}
}

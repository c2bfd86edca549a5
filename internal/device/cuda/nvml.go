package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// Fabric is the state of a GPU's registration with the NVSwitch fabric, which
// Fabric Manager completes. Multicast needs it completed with success.
type Fabric struct {
	State       string // "completed", "in progress", "not started", "not supported"
	Status      string // NVML's word on a completed registration, "Success"
	ClusterUUID [16]byte
	Clique      uint32
}

// facts are what only NVML knows.
type facts struct {
	driverVersion string
	devices       map[device.UUID]nvmlFacts
}

type nvmlFacts struct {
	link   device.Link
	fabric Fabric
}

// readNVML asks NVML about the devices. Nothing that NVML cannot tell is an
// error: it stays unknown.
func readNVML(lib nvml.Interface, devices []device.Info) facts {
	f := facts{devices: map[device.UUID]nvmlFacts{}}
	if lib == nil {
		lib = nvml.New()
	}
	started := false
	err := sigguard.GuardSignals(func() error {
		started = lib.Init() == nvml.SUCCESS
		return nil
	})
	if err != nil || !started {
		return f
	}
	defer lib.Shutdown()
	if v, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		f.driverVersion = v
	}
	// An entry point that the library lacks must not be called: the dynamic
	// linker would end the process.
	hasFabric := lib.Extensions().LookupSymbol("nvmlDeviceGetGpuFabricInfo") == nil
	for _, info := range devices {
		handle, ret := lib.DeviceGetHandleByUUID(info.UUID.String())
		if ret != nvml.SUCCESS {
			continue // a MIG instance, for which NVML has another name
		}
		d := nvmlFacts{link: readLink(handle)}
		if hasFabric {
			d.fabric = readFabric(handle)
		}
		f.devices[info.UUID] = d
	}
	return f
}

// nvmlDevice is what is asked of an NVML device.
type nvmlDevice interface {
	GetNvLinkState(link int) (nvml.EnableState, nvml.Return)
	GetFieldValues([]nvml.FieldValue) nvml.Return
	GetGpuFabricInfo() (nvml.GpuFabricInfo, nvml.Return)
}

// readLink counts the active links and looks up their nominal rate.
func readLink(d nvmlDevice) device.Link {
	var link device.Link
	active := 0
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.GetNvLinkState(i)
		if ret != nvml.SUCCESS {
			break // past the last link, or no NVLink at all
		}
		if state == nvml.FEATURE_ENABLED {
			link.Links++
			active = i
		}
	}
	if link.Links == 0 {
		return device.Link{}
	}
	link.PeakBytesPerSecond = float64(link.Links) * nominalLinkRate(linkSpeed(d, active))
	return link
}

// linkSpeed gives NVML's speed of the links in MB/s: the one common to all, or
// else that of an active link; 0 when NVML does not tell.
func linkSpeed(d nvmlDevice, active int) uint64 {
	for _, field := range []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON},
		{FieldId: nvml.FI_DEV_NVLINK_GET_SPEED, ScopeId: uint32(active)},
	} {
		values := []nvml.FieldValue{field}
		if d.GetFieldValues(values) != nvml.SUCCESS || values[0].NvmlReturn != uint32(nvml.SUCCESS) {
			continue
		}
		if mbps := fieldUint(values[0]); mbps > 0 {
			return mbps
		}
	}
	return 0
}

// nominalLinkRate gives the rate of one link in one direction in bytes/s, from
// NVML's speed of a link in MB/s. That speed is the line rate with its
// coding overhead (26562 for NVLink 4); the nominal rates are those of NVIDIA's
// data sheets, for instance 900 GB/s for the 18 links of an H100 or H200 in both
// directions together, so 25 GB/s per link and direction. A speed that fits no
// generation is taken as it is.
func nominalLinkRate(mbps uint64) float64 {
	const overhead = 1.10 // a line rate lies above its nominal rate by less
	for _, nominal := range []float64{
		50e9, // NVLink 5: 53125 MB/s
		25e9, // NVLink 2, 3 and 4: 25781 to 26562 MB/s
		20e9, // NVLink 1
	} {
		line := float64(mbps) * 1e6
		if line >= nominal*0.97 && line <= nominal*overhead {
			return nominal
		}
	}
	return float64(mbps) * 1e6
}

// fieldUint reads the value of a field of any of NVML's unsigned types.
func fieldUint(v nvml.FieldValue) uint64 {
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(v.Value[:])
	}
	return uint64(binary.NativeEndian.Uint32(v.Value[:]))
}

func readFabric(d nvmlDevice) Fabric {
	info, ret := d.GetGpuFabricInfo()
	if ret != nvml.SUCCESS {
		return Fabric{}
	}
	states := map[uint8]string{
		nvml.GPU_FABRIC_STATE_NOT_SUPPORTED: "not supported",
		nvml.GPU_FABRIC_STATE_NOT_STARTED:   "not started",
		nvml.GPU_FABRIC_STATE_IN_PROGRESS:   "in progress",
		nvml.GPU_FABRIC_STATE_COMPLETED:     "completed",
	}
	f := Fabric{State: states[info.State], ClusterUUID: info.ClusterUuid, Clique: info.CliqueId}
	if f.State == "" {
		f.State = fmt.Sprintf("state %d", info.State)
	}
	if info.State == nvml.GPU_FABRIC_STATE_COMPLETED {
		f.Status = nvml.Return(info.Status).String()
	}
	return f
}

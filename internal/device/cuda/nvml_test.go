package cuda

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// noNVML is a machine without NVML.
func noNVML() nvml.Interface {
	return &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}
}

// fakeNVML knows one GPU.
func fakeNVML(uuid device.UUID, links int, mbps uint32, missing error) nvml.Interface {
	gpu := &mock.Device{
		GetNvLinkStateFunc: func(link int) (nvml.EnableState, nvml.Return) {
			switch {
			case link < links:
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			case link < 18:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return 0, nvml.ERROR_INVALID_ARGUMENT
		},
		// As newer GPUs, it has no common speed, only that of a link.
		GetFieldValuesFunc: func(v []nvml.FieldValue) nvml.Return {
			if v[0].FieldId != nvml.FI_DEV_NVLINK_GET_SPEED || v[0].ScopeId != uint32(links-1) {
				v[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
				return nvml.SUCCESS
			}
			v[0].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
			binary.NativeEndian.PutUint32(v[0].Value[:], mbps)
			return nvml.SUCCESS
		},
		GetGpuFabricInfoFunc: func() (nvml.GpuFabricInfo, nvml.Return) {
			return nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_COMPLETED, CliqueId: 7}, nvml.SUCCESS
		},
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.159.04", nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return missing }}
		},
		DeviceGetHandleByUUIDFunc: func(s string) (nvml.Device, nvml.Return) {
			if s != uuid.String() {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return gpu, nvml.SUCCESS
		},
	}
}

func TestNVMLFacts(t *testing.T) {
	f := newFake(t, "")
	uuid := device.UUID{0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f}
	opened := must(Open(Options{Library: f.path, NVML: fakeNVML(uuid, 18, 26562, nil)}))
	if got, want := opened.Version(), "CUDA 13.0, driver 580.159.04"; got != want {
		t.Errorf("version %q, want %q", got, want)
	}
	// Only the second device is known to NVML.
	devices := opened.Devices()
	if diff := cmp.Diff(device.Link{Links: 18, PeakBytesPerSecond: 450e9}, devices[1].Link); diff != "" {
		t.Error(diff)
	}
	if devices[0].Link != (device.Link{}) {
		t.Errorf("device 0 has the link %+v", devices[0].Link)
	}
	drv := opened.(*Driver)
	if got, ok := drv.Fabric(1); !ok || got.State != "completed" || got.Clique != 7 || got.Status == "" {
		t.Errorf("fabric %+v, %v", got, ok)
	}
	if _, ok := drv.Fabric(0); ok {
		t.Error("device 0 has a fabric")
	}

	// An entry point that the library lacks is not called.
	old := must(Open(Options{Library: f.path, NVML: fakeNVML(uuid, 18, 26562, errors.New("missing"))})).(*Driver)
	if _, ok := old.Fabric(1); ok {
		t.Error("the fabric was asked for")
	}
}

func TestNominalLinkRate(t *testing.T) {
	for mbps, want := range map[uint64]float64{
		19531: 20e9,
		25000: 25e9,
		25781: 25e9,
		26562: 25e9,
		53125: 50e9,
		99999: 99999e6, // an unknown generation
	} {
		if got := nominalLinkRate(mbps); got != want {
			t.Errorf("%d MB/s: %g, want %g", mbps, got, want)
		}
	}
}

// Without libnvidia-ml nothing is known, and nothing crashes.
func TestNVMLMissing(t *testing.T) {
	got := readNVML(nvml.New(nvml.WithLibraryPath("/nonexistent/libnvidia-ml.so.1")), []device.Info{{}})
	if got.driverVersion != "" || len(got.devices) != 0 {
		t.Errorf("got %+v", got)
	}
}

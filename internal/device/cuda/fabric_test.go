package cuda

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// A refused FABRIC handle is told with the driver's code, and leaves nothing
// behind.
func TestProbeFabric(t *testing.T) {
	f := newFake(t, "")
	t.Setenv("FAKECUDA_FABRIC", "800")
	drv := must(Open(Options{Library: f.path, NVML: noNVML()})).(*Driver)
	if !drv.Devices()[0].Fabric {
		t.Error("attribute 128 is not reported")
	}
	if err := drv.ProbeFabric(0); !isCode(err, device.NotPermitted) {
		t.Errorf("got %v, want code %d", err, device.NotPermitted)
	}
	if err := drv.Close(); err != nil {
		t.Error(err)
	}
}

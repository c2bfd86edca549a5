package sim

import (
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// noMulticast is the error of a multicast call on a device without multicast.
// It unwraps to a *device.Error with the code NotSupported, but does not speak
// of drivers that are too old.
type noMulticast struct {
	why   string
	cause device.Error
}

func (e *noMulticast) Error() string {
	return fmt.Sprintf("%s is refused on %s: %s", e.cause.Call, e.cause.Device, e.why)
}

func (e *noMulticast) Unwrap() error { return &e.cause }

// ExitCode makes this the failure of a mode that cannot run here.
func (e *noMulticast) ExitCode() failure.Code { return failure.Unavailable }

// mayMulticast says why there is no multicast here.
func (d *gpu) mayMulticast(call string) error {
	why := ""
	switch {
	case d.info.MulticastOff != "":
		why = "multicast is switched off by " + d.info.MulticastOff
	case !d.info.Multicast:
		why = "multicast needs compute capability 9.0, the device has " + d.info.ComputeCapability()
	default:
		return nil
	}
	return &noMulticast{why: why, cause: device.Error{
		Call: call, Code: device.NotSupported, Name: nameOf(device.NotSupported), Text: why, Device: d.info.UUID}}
}

// Package cuda implements the device contract on the CUDA driver API.
//
// libcuda is opened at run time, so the program builds without NVIDIA's toolkit
// and runs, as far as it can, where there is no GPU. Facts that libcuda does
// not know (driver version, NVLink) come from NVML; without NVML they stay
// unknown.
//
// Rules of the package:
//
//   - Multicast entry points have a table of their own. It is resolved by the
//     first multicast call, and never while a site switch is on (see package
//     site): then every multicast method fails and names the switch.
//   - Memory is exported only as POSIX file descriptors.
//   - Every call makes its device's primary context current on whatever thread
//     the goroutine has, and none leaves anything behind that is tied to a
//     thread.
//   - Streams do not synchronise with the legacy default stream, so that other
//     libraries of the process do not order this package's work.
//   - Teardown in the wrong order is refused by this package, not left to the
//     driver: mapped memory is not closed, nor is memory that is still bound to
//     a multicast object.
package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
)

// Options of Open. The zero value is what an ordinary run without a site switch
// wants.
type Options struct {
	// MulticastOff names the site switch that forbids multicast, as package site
	// gives it; "" permits it unless the environment forbids it.
	MulticastOff string
	// Library is the path of libcuda; "" searches the usual places.
	Library string
	// NVML is used instead of the host's libnvidia-ml when it is not nil.
	NVML nvml.Interface
}

// Driver is the opened CUDA driver.
type Driver struct {
	lib     *library
	version string
	devices []device.Info
	nvml    map[device.UUID]nvmlFacts
	opened  atomic.Int32
}

var _ device.Driver = (*Driver)(nil)

// Open opens libcuda and lists the devices. Without a library or a device its
// error is a failure.Unavailable; errors of the driver hold a *device.Error.
func Open(o Options) (device.Driver, error) {
	if o.MulticastOff == "" {
		// The environment's switches hold whoever calls.
		off, err := site.MulticastOff("", os.Getenv, false)
		if err != nil {
			return nil, err
		}
		o.MulticastOff = off
	}
	lib, err := openLibrary(o.Library, o.MulticastOff)
	if err != nil {
		return nil, err
	}
	d := &Driver{lib: lib}
	if d.devices, err = lib.devices(); err != nil {
		return nil, failure.Wrap(failure.Device, err, "the CUDA devices could not be listed")
	}
	if len(d.devices) == 0 {
		return nil, initFailure(lib.check("cuDeviceGetCount", C.int(device.NoDevice), device.UUID{}), device.NoDevice)
	}
	version, err := lib.version()
	if err != nil {
		return nil, failure.Wrap(failure.Device, err, "the CUDA version could not be read")
	}
	d.version = "CUDA " + version
	facts := readNVML(o.NVML, d.devices)
	d.nvml = facts.devices
	if facts.driverVersion != "" {
		d.version += ", driver " + facts.driverVersion
	}
	for i := range d.devices {
		d.devices[i].Link = d.nvml[d.devices[i].UUID].link
	}
	return d, nil
}

// Name is "cuda".
func (d *Driver) Name() string { return "cuda" }

// Version is "CUDA 13.0, driver 580.159.04", without the second half when NVML
// is missing.
func (d *Driver) Version() string { return d.version }

// Library is the path or name under which libcuda was opened.
func (d *Driver) Library() string { return d.lib.path }

// Devices lists the visible devices in ordinal order.
func (d *Driver) Devices() []device.Info { return slices.Clone(d.devices) }

// Fabric gives what NVML knows about the device's place in the NVLink fabric,
// and false when NVML does not tell.
func (d *Driver) Fabric(ordinal int) (Fabric, bool) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return Fabric{}, false
	}
	f := d.nvml[d.devices[ordinal].UUID].fabric
	return f, f.State != ""
}

// Open retains the device's primary context.
func (d *Driver) Open(ordinal int) (device.Device, error) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return nil, &device.Error{Call: "cuDeviceGet", Code: device.InvalidDevice, Name: errorName(d.lib, device.InvalidDevice),
			Text: fmt.Sprintf("there is no device %d, this process sees %d", ordinal, len(d.devices))}
	}
	dev, err := openDevice(d, d.devices[ordinal])
	if err != nil {
		return nil, err
	}
	d.opened.Add(1)
	return dev, nil
}

// Close ends the use of the driver. libcuda itself stays loaded.
func (d *Driver) Close() error {
	if n := d.opened.Load(); n != 0 {
		return errors.New("the CUDA driver cannot be closed: devices are still open")
	}
	return nil
}

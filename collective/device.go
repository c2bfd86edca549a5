package collective

import (
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Names of what a group hands out of the layers below, for programs outside of this
// module. A program copies by Device, launches on Stream and passes Ptr on; it needs
// nothing else of them.
type (
	// Ptr is an address on a device.
	Ptr = device.Ptr
	// Device is one GPU as this process uses it: copies, streams, events, graphs.
	Device = device.Device
	// DeviceInfo describes a GPU.
	DeviceInfo = device.Info
	// Driver is libcuda, or the software device in its place.
	Driver = device.Driver
	// Stream is a queue of a device's work.
	Stream = device.Stream
	// DeviceMemory is memory of one device that other processes can map.
	DeviceMemory = device.Memory
	// SimOptions describe the software device.
	SimOptions = sim.Options
)

// Names of what the packages nvls and fallback launch.
type (
	// Kernels are loaded kernels.
	Kernels = kernels.Library
	// KernelFamily is a kernel in all its data types and operations.
	KernelFamily = kernels.Family
	// KernelArgs are a kernel's arguments.
	KernelArgs = kernels.Args
)

package device

import "fmt"

// UUID identifies a GPU across processes, containers and reboots.
type UUID [16]byte

// String writes the UUID as nvidia-smi does: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Info describes one visible device.
type Info struct {
	UUID    UUID
	Ordinal int    // in this process; means nothing in another one
	Name    string // "NVIDIA H200"
	PCI     string // domain:bus:device, "0000:1b:00"; empty for a software device
	// Major and Minor are the compute capability, for instance 9 and 0.
	Major, Minor int
	SMs          int
	MemoryBytes  uint64
	L2Bytes      uint64

	// What the driver says the device can do. A driver that has no such
	// attribute leaves it false.
	VMM                bool   // virtual memory management (attribute 102)
	PosixFD            bool   // memory can be exported as a file descriptor (103)
	Fabric             bool   // FABRIC handles exist (128); says nothing of permission
	Multicast          bool   // multicast objects (132); false while the site switch is on, see MulticastOff
	MulticastOff       string // the site switch that forbids asking, "" when none
	CooperativeLaunch  bool
	MaxThreadsPerBlock int
	MaxBlocksPerSM     int

	// Link is what is known about the device's NVLink, zero when nothing is.
	Link Link

	// Simulated is true for the software device. Every output carries it.
	Simulated bool
}

// Link is the NVLink of one device, all lanes together.
type Link struct {
	Links int // active links
	// PeakBytesPerSecond is the nominal rate of all active links in one
	// direction.
	PeakBytesPerSecond float64
}

// ComputeCapability writes Major.Minor.
func (i Info) ComputeCapability() string { return fmt.Sprintf("%d.%d", i.Major, i.Minor) }

// AtLeast reports whether the compute capability is major.minor or newer.
func (i Info) AtLeast(major, minor int) bool {
	return i.Major > major || i.Major == major && i.Minor >= minor
}

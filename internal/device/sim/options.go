package sim

import (
	"fmt"
	"io"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Options describe a new session. Zero fields take the default.
type Options struct {
	Name        string // for /proc/PID/maps; default "session"
	Devices     int    // software GPUs; default 8, at most 64
	MemoryBytes uint64 // of each device, sparse; default 16 GiB
	SMs         int    // of each device; default 4
	BlocksPerSM int    // resident at one time; default 8
	Major       int    // compute capability; default 9.0
	Minor       int    // used when Major is set

	// The multicast granularities in bytes, multiples of Granule; default 2 MiB
	// both. They can be set so that no caller can get away with a constant.
	MulticastMinimum     uint64
	MulticastRecommended uint64

	// Weak turns on the weak memory model (see package exec); Seed chooses how
	// it behaves.
	Weak bool
	Seed uint64

	Process // of the creating process
}

// Process is what holds for one process's calls only.
type Process struct {
	// MulticastOff names the site switch that forbids multicast, "" when none
	// does.
	MulticastOff string
	// Trace receives one line per driver call. Create and Attach set it from
	// the environment.
	Trace io.Writer

	// What follows is for tests.

	// Fail is asked before every driver call, with the call's name and how
	// often it was made in this session, this time included. A code other than
	// 0 is returned instead of making the call.
	Fail func(call string, n int) device.Code
	// Conductor, when not nil, lets the launches and graphs of this and other
	// sessions of the same process take turns, each device one at a time, as its
	// seed and not the session's says. It needs the weak memory model.
	Conductor *exec.Conductor
	// Reached, when not nil, is told the lines of PTX that the weak memory model
	// executes.
	Reached func(kernel string, line int)
	// DropEdge, when not nil, is asked of each edge between two branches of a graph,
	// in the order in which they were recorded, and may have it left out. from and to
	// name the work: "copy on branch 1", or a kernel.
	DropEdge func(from, to string) bool
}

// Use has this process's calls follow p, but for a Trace of nil, which leaves where
// the lines go. It comes before Driver.
func (s *Session) Use(p Process) {
	if p.Trace == nil {
		p.Trace = s.Trace
	}
	s.Process = p
}

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "session"
	}
	if o.Devices == 0 {
		o.Devices = 8
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 16 << 30
	}
	if o.SMs == 0 {
		o.SMs = 4
	}
	if o.BlocksPerSM == 0 {
		o.BlocksPerSM = 8
	}
	if o.Major == 0 {
		o.Major, o.Minor = 9, 0
	}
	if o.MulticastMinimum == 0 {
		o.MulticastMinimum = Granule
	}
	if o.MulticastRecommended == 0 {
		o.MulticastRecommended = o.MulticastMinimum
	}
	var why string
	switch {
	case o.Devices < 1 || o.Devices > maxDevices:
		why = fmt.Sprintf("%d devices: 1 to %d are possible", o.Devices, maxDevices)
	case o.MemoryBytes%Granule != 0 || o.MemoryBytes > maxMemory:
		why = fmt.Sprintf("%d bytes of memory: a multiple of %d up to %d is possible", o.MemoryBytes, Granule, uint64(maxMemory))
	case o.SMs < 1 || o.BlocksPerSM < 1:
		why = fmt.Sprintf("%d SMs of %d blocks: both must be 1 or more", o.SMs, o.BlocksPerSM)
	case o.MulticastMinimum%Granule != 0 || o.MulticastRecommended%o.MulticastMinimum != 0:
		why = fmt.Sprintf("multicast granularities %d and %d: the first must be a multiple of %d, the second of the first",
			o.MulticastMinimum, o.MulticastRecommended, Granule)
	default:
		return o, nil
	}
	return o, &failure.Error{Code: failure.Usage, What: "cannot create software GPUs", Why: why}
}

package device

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Code is a driver's result number (CUresult). The software device uses the
// same numbers.
type Code int

// The codes that this project reacts to. Numbers and names are those of cuda.h.
const (
	InvalidValue     Code = 1
	OutOfMemory      Code = 2
	NotInitialized   Code = 3
	NoDevice         Code = 100
	InvalidDevice    Code = 101
	InvalidImage     Code = 200
	InvalidPTX       Code = 218
	UnsupportedPTX   Code = 222
	NoBinaryForGPU   Code = 209
	OperatingSystem  Code = 304
	InvalidHandle    Code = 400
	IllegalState     Code = 401
	NotFound         Code = 500
	NotReady         Code = 600
	IllegalAddress   Code = 700
	LaunchTimeout    Code = 702
	MisalignedAddr   Code = 716
	InvalidAddrSpace Code = 717
	LaunchFailed     Code = 719
	NotPermitted     Code = 800
	NotSupported     Code = 801
	SystemNotReady   Code = 802
	CaptureMerge     Code = 902
	CaptureUnmatched Code = 903
	CaptureUnjoined  Code = 904
	CaptureIsolation Code = 905
	CapturedEvent    Code = 907
	Unknown          Code = 999
)

// Error is a failed call of a driver.
type Error struct {
	Call   string // the driver's entry point, "cuMulticastBindMem"
	Code   Code
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text   string // the driver's own words, or the software device's detail
	Device UUID   // zero when no device was chosen yet
	// Log is the JIT's log or another long text; shown only by %+v.
	Log string
}

// Error gives call, number, name, what the driver says and what it means here.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: error %d (%s)", e.Call, int(e.Code), e.Name)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Device != (UUID{}) {
		s += " on " + e.Device.String()
	}
	if m := Meaning(e.Call, e.Code); m != "" {
		s += "; " + m
	}
	return s
}

// ExitCode is that of a failed driver.
func (e *Error) ExitCode() failure.Code { return failure.Device }

// Format adds the log under %+v.
func (e *Error) Format(f fmt.State, verb rune) {
	fmt.Fprint(f, e.Error())
	if verb == 'v' && f.Flag('+') && e.Log != "" {
		fmt.Fprintf(f, "\n%s", e.Log)
	}
}

// CodeOf returns the driver code in err's chain, and false if there is none.
func CodeOf(err error) (Code, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}

// Meaning says what a driver's code means when it comes from this call, in the
// context of shared and multicast memory on one node; "" when the driver's own
// text says it all. Each row is taken from public problem reports (see
// docs/architecture.md).
func Meaning(call string, code Code) string {
	switch code {
	case InvalidValue:
		switch call {
		case "cuMulticastCreate", "cuMulticastBindMem", "cuMulticastBindAddr":
			return "the size or offset is no multiple of the granularity, or Fabric Manager's multicast state is unhealthy (administrator: restart nvidia-fabricmanager and reset all GPUs, or reboot)"
		}
	case OutOfMemory:
		switch call {
		case "cuMulticastCreate", "cuMulticastBindMem", "cuMulticastBindAddr":
			return "if GPU memory is free, the multicast slots of the NVSwitches are used up (128 per system): other jobs or objects hold them"
		}
	case InvalidDevice:
		if call == "cuMemImportFromShareableHandle" {
			return "the peer's GPU is not visible to this process: give every rank all GPUs (srun --gpus-per-node=N --gpu-bind=none)"
		}
	case OperatingSystem:
		return "an operating system call failed inside the driver: look at the limit on open files (ulimit -n) and at seccomp"
	case IllegalState:
		switch call {
		case "cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem", "cuMulticastBindAddr", "cuMemMap":
			return "Fabric Manager is not in a state to set up multicast (administrator: systemctl status nvidia-fabricmanager on the host)"
		}
	case NotSupported:
		return "the driver is too old, or the GPU is virtualised"
	case SystemNotReady:
		if call == "cuInit" {
			return "Fabric Manager must run on the host at exactly the driver's version; nothing inside a container can fix this (administrator)"
		}
		return "Fabric Manager is not ready yet; all ranks may try again together"
	case NoDevice:
		return "no GPU is visible: start a container with GPUs, under Slurm ask for them, and look at CUDA_VISIBLE_DEVICES"
	case UnsupportedPTX, InvalidPTX, NoBinaryForGPU:
		return "the driver cannot compile this PTX: it is older than the PTX ISA in use, or the GPU is older than the target"
	case Unknown:
		return "look for an Xid message in the host's kernel log (dmesg)"
	}
	return ""
}

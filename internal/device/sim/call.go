package sim

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// refusal is a driver error before the call and the device are known.
type refusal struct {
	code device.Code
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s", nameOf(r.code), r.text) }

func refuse(code device.Code, format string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

// asDriverError gives err the shape of the contract.
func asDriverError(call string, uuid device.UUID, err error) error {
	if err == nil {
		return nil
	}
	var done *device.Error
	if errors.As(err, &done) {
		return err
	}
	e := &device.Error{Call: call, Code: device.Unknown, Text: err.Error(), Device: uuid}
	var r *refusal
	if errors.As(err, &r) {
		e.Code, e.Text = r.code, r.text
	}
	e.Name = nameOf(e.Code)
	return e
}

// inject asks the test's hook whether this call fails.
func (s *Session) inject(call string) error {
	if s.Fail == nil {
		return nil
	}
	s.mu.Lock()
	s.calls[call]++
	n := s.calls[call]
	s.mu.Unlock()
	if code := s.Fail(call, n); code != 0 {
		return refuse(code, "injected by a test into call %d of this name", n)
	}
	return nil
}

// trace writes one line. Callers on a hot path ask s.Trace first, so that
// nothing is formatted for nobody.
func (s *Session) trace(where, call, args string, err error) {
	if s.Trace == nil {
		return
	}
	result := "CUDA_SUCCESS"
	if err != nil {
		result = err.Error()
		var e *device.Error
		if errors.As(err, &e) {
			result = e.Name
			if e.Text != "" {
				result += ": " + e.Text
			}
		}
	}
	s.traceMu.Lock()
	defer s.traceMu.Unlock()
	// A trace that cannot be written must not change what the program does.
	_, _ = fmt.Fprintf(s.Trace, "p%d %s %s(%s) = %s\n", s.slot, where, call, args, result)
}

// do runs one driver call: sticky error, injected error, the call, the trace.
func (d *gpu) do(call, args string, f func() error) error {
	err := d.enter(call)
	if err == nil {
		err = asDriverError(call, d.info.UUID, f())
	}
	d.s.trace(d.where, call, args, err)
	return err
}

// enter is the beginning of a call. An error that a kernel ran into is returned
// by every later call: the context is lost, as on a GPU.
func (d *gpu) enter(call string) error {
	if e := d.sticky.Load(); e != nil {
		return e
	}
	if d.shutting.Load() {
		return asDriverError(call, d.info.UUID, refuse(device.InvalidHandle, "the device was closed"))
	}
	if d.s.Fail == nil {
		return nil
	}
	return asDriverError(call, d.info.UUID, d.s.inject(call))
}

// nameOf gives the name of a code as in cuda.h.
func nameOf(c device.Code) string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("CUDA_ERROR_%d", int(c))
}

var codeNames = map[device.Code]string{
	0:                       "CUDA_SUCCESS",
	device.InvalidValue:     "CUDA_ERROR_INVALID_VALUE",
	device.OutOfMemory:      "CUDA_ERROR_OUT_OF_MEMORY",
	device.NotInitialized:   "CUDA_ERROR_NOT_INITIALIZED",
	device.NoDevice:         "CUDA_ERROR_NO_DEVICE",
	device.InvalidDevice:    "CUDA_ERROR_INVALID_DEVICE",
	device.InvalidImage:     "CUDA_ERROR_INVALID_IMAGE",
	device.InvalidPTX:       "CUDA_ERROR_INVALID_PTX",
	device.UnsupportedPTX:   "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
	device.NoBinaryForGPU:   "CUDA_ERROR_NO_BINARY_FOR_GPU",
	device.OperatingSystem:  "CUDA_ERROR_OPERATING_SYSTEM",
	device.InvalidHandle:    "CUDA_ERROR_INVALID_HANDLE",
	device.IllegalState:     "CUDA_ERROR_ILLEGAL_STATE",
	device.NotFound:         "CUDA_ERROR_NOT_FOUND",
	device.NotReady:         "CUDA_ERROR_NOT_READY",
	device.IllegalAddress:   "CUDA_ERROR_ILLEGAL_ADDRESS",
	device.LaunchTimeout:    "CUDA_ERROR_LAUNCH_TIMEOUT",
	device.MisalignedAddr:   "CUDA_ERROR_MISALIGNED_ADDRESS",
	device.InvalidAddrSpace: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	device.LaunchFailed:     "CUDA_ERROR_LAUNCH_FAILED",
	device.NotPermitted:     "CUDA_ERROR_NOT_PERMITTED",
	device.NotSupported:     "CUDA_ERROR_NOT_SUPPORTED",
	device.SystemNotReady:   "CUDA_ERROR_SYSTEM_NOT_READY",
	device.CaptureMerge:     "CUDA_ERROR_STREAM_CAPTURE_MERGE",
	device.CaptureUnmatched: "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	device.CaptureUnjoined:  "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	device.CaptureIsolation: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
	device.CapturedEvent:    "CUDA_ERROR_CAPTURED_EVENT",
	device.Unknown:          "CUDA_ERROR_UNKNOWN",
}

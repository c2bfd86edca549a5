package cuda

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/container"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// candidates are the names tried for libcuda: first as the dynamic linker finds
// it, then where Kubernetes' device plugin, Singularity's --nv and Debian's
// driver package put it.
var candidates = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/.singularity.d/libs/libcuda.so.1",
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
}

// library is an opened libcuda with its entry points. It is never unloaded:
// libcuda starts threads of its own and does not support it.
type library struct {
	path   string
	handle unsafe.Pointer
	api    *C.cuda_api // in C memory, as long-lived as the library

	// multicastOff names the site switch that is on, "" when none is.
	multicastOff string
	mu           sync.Mutex
	mc           *C.multicast_api // nil until the first multicast call
}

// openLibrary opens and initialises libcuda: the one at path, or else the first
// candidate that can be opened.
func openLibrary(path, multicastOff string) (*library, error) {
	l := &library{multicastOff: multicastOff}
	var code C.int
	err := sigguard.GuardSignals(func() error {
		if err := l.load(path); err != nil {
			return err
		}
		code = C.cuda_init(l.api)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := l.check("cuInit", code, device.UUID{}); err != nil {
		return nil, initFailure(err, device.Code(code))
	}
	return l, nil
}

func (l *library) load(path string) error {
	paths := candidates
	if path != "" {
		paths = []string{path}
	}
	var reasons []string
	for _, p := range paths {
		var why [512]C.char
		name := C.CString(p)
		l.handle = C.cuda_open(name, &why[0], C.size_t(len(why)))
		C.free(unsafe.Pointer(name))
		if l.handle != nil {
			l.path = p
			break
		}
		if reason := C.GoString(&why[0]); !strings.Contains(reason, "No such file or directory") {
			reasons = append(reasons, reason)
		}
	}
	if l.handle == nil {
		return missing(paths, reasons)
	}
	l.api = (*C.cuda_api)(C.calloc(1, C.sizeof_cuda_api))
	if name := C.cuda_resolve(l.handle, l.api); name != nil {
		return &failure.Error{Code: failure.Unavailable,
			What: "the CUDA driver is too old", Where: l.path,
			Why: "it has no " + C.GoString(name),
			Do:  "install a driver of CUDA 12.0 or newer", By: failure.Administrator}
	}
	return nil
}

// missing explains that there is no libcuda. reasons are those of the linker
// that say more than that a file is not there.
func missing(paths, reasons []string) error {
	f := &failure.Error{Code: failure.Unavailable,
		What: "CUDA cannot run here",
		Why:  "libcuda could not be opened (tried " + strings.Join(paths, ", ") + ")",
		Do:   "install the NVIDIA driver, or use --device sim to run on the software device", By: failure.User}
	if len(reasons) > 0 {
		f.Err = errors.New(strings.Join(reasons, "; "))
	}
	if do := container.Here().WithGPUs(); do != "" {
		f.Do = do + " so that it gets the host's driver, or use --device sim to run on the software device"
	}
	return f
}

// initFailure explains an error of cuInit.
func initFailure(err error, code device.Code) error {
	f := &failure.Error{Code: failure.Device, What: "the CUDA driver did not start", Err: err}
	switch code {
	case device.NoDevice:
		f.Code = failure.Unavailable
		f.What = "CUDA cannot run here"
		f.Do, f.By = "ask for GPUs from the batch system, or use --device sim to run on the software device", failure.User
		if do := container.Here().WithGPUs(); do != "" {
			f.Do = do + ", or use --device sim to run on the software device"
		}
	case device.SystemNotReady:
		f.Do, f.By = "systemctl restart nvidia-fabricmanager on the host, at the driver's version", failure.Administrator
	case driverMismatch, compatNotSupported:
		f.Why = "libcuda in use here does not fit the driver in the host's kernel"
		f.Do, f.By = "take a CUDA compatibility library off LD_LIBRARY_PATH, or use the host's libcuda", failure.User
		if do := container.Here().WithGPUs(); do != "" {
			f.Do = do + ", and keep a CUDA compatibility library, or another libcuda of the image, off LD_LIBRARY_PATH"
		}
	case device.Unknown:
		f.Do, f.By = "look for Xid messages in dmesg on the host; reset the GPU or reboot", failure.Administrator
	}
	return f
}

// Results of cuInit when the halves of the driver do not match
// (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ..._COMPAT_NOT_SUPPORTED_ON_DEVICE).
const (
	driverMismatch     device.Code = 803
	compatNotSupported device.Code = 804
)

// check makes the error of a driver call; nil when code is 0. A negative code
// is that of making the context current (see shim.h).
func (l *library) check(call string, code C.int, uuid device.UUID) error {
	if code == C.CU_SUCCESS {
		return nil
	}
	if code < 0 {
		call, code = "cuCtxSetCurrent", -code
	}
	e := &device.Error{Call: call, Code: device.Code(code), Device: uuid}
	if s := C.cuda_error_name(l.api, code); s != nil {
		e.Name = C.GoString(s)
	} else {
		e.Name = "unknown to this driver"
	}
	if s := C.cuda_error_text(l.api, code); s != nil {
		e.Text = C.GoString(s)
	}
	return e
}

// version gives the driver's CUDA version as "13.0".
func (l *library) version() (string, error) {
	var v C.int
	if err := l.check("cuDriverGetVersion", C.cuda_driver_version(l.api, &v), device.UUID{}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), nil
}

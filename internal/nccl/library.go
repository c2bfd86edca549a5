package nccl

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

const soname = "libnccl.so.2"

// Versions of NCCL, as ncclGetVersion codes them.
const (
	oldest  = 21000 // 2.10: bfloat16 and avg
	windows = 22700 // 2.27: symmetric windows
)

// library is an opened libnccl with its entry points. It is never unloaded: NCCL
// keeps threads of its own.
type library struct {
	path    string
	api     *C.nccl_api // in C memory, as long-lived as the library
	version int
	off     string // the site switch that was on when it was opened, "" for none
}

// loaded is the process's one library: NCCL reads its environment once.
var loaded struct {
	sync.Mutex
	*library
}

// openLibrary opens libnccl: the file or name given, or else the first of
// Candidates that can be opened. off is the site switch that forbids NVLS.
func openLibrary(path, off string) (*library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	off = switchOff(off)
	if l := loaded.library; l != nil {
		switch {
		case off != "" && l.off == "":
			return nil, &failure.Error{Code: failure.Unavailable, What: "NCCL is not used", Why: off + " forbids NVLS, and NCCL was opened before without knowing it"}
		case path != "" && path != l.path:
			return nil, failure.New(failure.Unavailable, "NCCL cannot be opened from %s: this process has opened %s", path, l.path)
		}
		return l, nil
	}
	paths := Candidates(os.Getenv)
	if path != "" {
		paths = []string{path}
	}
	if off != "" {
		present := slices.ContainsFunc(append([]string{soname}, paths...), isPresent)
		if err := forbidNVLS(off, present); err != nil {
			return nil, err
		}
	}
	l := &library{off: off}
	if err := sigguard.GuardSignals(func() error { return l.load(paths) }); err != nil {
		return nil, err
	}
	loaded.library = l
	return l, nil
}

// Candidates lists where libnccl.so.2 is looked for when no file is configured:
// as the dynamic linker finds it, where Singularity binds libraries, and in the
// wheels of Python environments, which PyTorch brings along. Those are the
// environment that is active, the ones whose python3 is on the path, and the
// user's own.
func Candidates(getenv func(string) string) []string {
	out := []string{soname, "/.singularity.d/libs/" + soname}
	prefixes := []string{getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX")}
	for _, dir := range filepath.SplitList(getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "python3")); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Clean(dir)))
		}
	}
	if home := getenv("HOME"); home != "" {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	for _, prefix := range prefixes {
		if prefix == "" {
			continue
		}
		// site-packages, and Debian's dist-packages
		found, err := filepath.Glob(filepath.Join(prefix, "lib*/python3*/*-packages/nvidia/nccl/lib", soname))
		if err != nil {
			continue // a prefix that is no pattern
		}
		for _, f := range found {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

func isPresent(name string) bool {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.nccl_present(c) != 0
}

func (l *library) load(paths []string) error {
	var handle unsafe.Pointer
	var reasons []string
	for _, p := range paths {
		var why [512]C.char
		name := C.CString(p)
		handle = C.nccl_open(name, &why[0], C.size_t(len(why)))
		C.free(unsafe.Pointer(name))
		if handle != nil {
			l.path = p
			break
		}
		if reason := C.GoString(&why[0]); !strings.Contains(reason, "No such file or directory") {
			reasons = append(reasons, reason)
		}
	}
	if handle == nil {
		return missing(paths, reasons)
	}
	if err := l.begin(handle); err != nil {
		C.free(unsafe.Pointer(l.api))
		C.nccl_close(handle)
		return err
	}
	return nil
}

// begin judges a library that was opened.
func (l *library) begin(handle unsafe.Pointer) error {
	if l.off != "" {
		// Its constructors may have changed the environment.
		if err := checkForbidden(l.off); err != nil {
			return err
		}
	}
	l.api = (*C.nccl_api)(C.calloc(1, C.sizeof_nccl_api))
	if name := C.nccl_resolve(handle, l.api); name != nil {
		return l.tooOld("it has no " + C.GoString(name))
	}
	var v C.int
	if code := C.nccl_version(l.api, &v); code != C.NCCL_SUCCESS {
		return &failure.Error{Code: failure.Unavailable, What: "NCCL cannot run here", Where: l.path, Err: l.check("ncclGetVersion", code)}
	}
	l.version = int(v)
	if l.version < oldest {
		return l.tooOld("its version is " + versionName(l.version))
	}
	return nil
}

func (l *library) tooOld(why string) error {
	return &failure.Error{Code: failure.Unavailable, What: "NCCL is too old", Where: l.path, Why: why,
		Do: "give NCCL " + versionName(oldest) + " or newer by library under [nccl]", By: failure.User}
}

// missing explains that there is no libnccl. reasons are those of the linker
// that say more than that a file is not there.
func missing(paths, reasons []string) error {
	f := &failure.Error{Code: failure.Unavailable,
		What: "NCCL cannot run here",
		Why:  soname + " could not be opened (tried " + strings.Join(paths, ", ") + "; wheels in Python environments)",
		Do:   "set library under [nccl] to the file (in an environment of PyTorch it is nvidia/nccl/lib/" + soname + "), or its folder in LD_LIBRARY_PATH", By: failure.User}
	if len(paths) == 1 {
		f.Why = paths[0] + " could not be opened"
		f.Do = "set library under [nccl] to a " + soname + ", or leave it out to search"
	}
	if len(reasons) > 0 {
		f.Err = errors.New(strings.Join(reasons, "; "))
	}
	return f
}

// needWindows refuses a library without symmetric windows.
func (l *library) needWindows() error {
	if l.version >= windows && C.nccl_has_windows(l.api) != 0 {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: "nccl-symmetric cannot run here", Where: l.path,
		Why: fmt.Sprintf("NCCL %s has no symmetric windows, they came with %s", versionName(l.version), versionName(windows)),
		Do:  "give a newer NCCL by library under [nccl], or leave nccl-symmetric out", By: failure.User}
}

// versionName writes a version as NCCL codes it since 2.9: 22809 is 2.28.9.
func versionName(v int) string {
	if v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}

// Error is a failed call of NCCL.
type Error struct {
	Call string // "ncclCommInitRank"
	Code int    // ncclResult_t
	Text string // NCCL's words for the code
	Last string // its last warning, which often names the cause; "" when unknown
}

// Error gives call, number and NCCL's words.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: error %d (%s)", e.Call, e.Code, e.Text)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// check makes the error of a call; nil when code is 0. A negative code is that
// of making the context current (see shim.h).
func (l *library) check(call string, code C.int) error {
	if code == C.NCCL_SUCCESS {
		return nil
	}
	if code < 0 {
		return fmt.Errorf("%s: cuCtxSetCurrent: error %d", call, -code)
	}
	e := &Error{Call: call, Code: int(code), Text: C.GoString(C.nccl_error_text(l.api, code))}
	if last := C.nccl_last_error(l.api); last != nil {
		e.Last = strings.Join(strings.Fields(C.GoString(last)), " ")
	}
	return e
}

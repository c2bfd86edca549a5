package nccl

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
)

// envPlugin names the plugin from which NCCL 2.29 and newer read their
// environment. Another one than NCCL's own could answer what it likes.
const envPlugin = "NCCL_ENV_PLUGIN"

// forbidding is the environment in which no NCCL uses NVLS. Files that NCCL
// reads (nccl.conf) do not overwrite what is set.
var forbidding = []struct{ name, value string }{{site.EnvNCCL, "0"}, {envPlugin, "none"}}

// switchOff names the site switch that forbids NVLS here, "" when none does.
// given is what the caller knows, for instance from the configuration; the
// environment is asked again in any case.
func switchOff(given string) string {
	if given != "" {
		return given
	}
	// A value that means nothing is an error and also gives a name: then NVLS is
	// off too.
	off, _ := site.MulticastOff("auto", os.Getenv, false)
	return off
}

// forbidNVLS makes the environment forbid NVLS before NCCL is loaded. present
// tells whether an NCCL of another part of the process is there already: it may
// have read its environment, so that only a switch that it cannot have missed
// counts.
func forbidNVLS(off string, present bool) error {
	if v, _ := cEnv(site.EnvNCCL); present && v != "0" {
		return &failure.Error{Code: failure.Unavailable, What: "NCCL is not used", Why: off + " forbids NVLS, and an NCCL that was in this process before may not know it",
			Do: "set " + site.EnvNCCL + "=0 before the program starts, or take NCCL out of LD_PRELOAD and MPI's plugins", By: failure.User}
	}
	for _, f := range forbidding {
		if err := os.Setenv(f.name, f.value); err != nil {
			return failure.Wrap(failure.Unavailable, err, "NCCL is not used: %s forbids NVLS, and %s could not be set", off, f.name)
		}
	}
	return checkForbidden(off)
}

// checkForbidden reads back from the C environment what forbids NVLS.
func checkForbidden(off string) error {
	for _, f := range forbidding {
		if v, set := cEnv(f.name); v != f.value {
			what := fmt.Sprintf("it is %q", v)
			if !set {
				what = "it is not set"
			}
			return &failure.Error{Code: failure.Unavailable, What: "NCCL is not used", Why: fmt.Sprintf("%s forbids NVLS, and %s=%s did not reach NCCL's environment: %s", off, f.name, f.value, what),
				Do: "set " + f.name + "=" + f.value + " before the program starts", By: failure.User}
		}
	}
	return nil
}

// cEnv reads a variable as C code sees it.
func cEnv(name string) (value string, set bool) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	v := C.nccl_environment(c)
	if v == nil {
		return "", false
	}
	return C.GoString(v), true
}

package nccl

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/importer"
)

// logging is the environment with which NCCL writes down its choices, and no
// more; the file is added to it.
const (
	envDebug  = "NCCL_DEBUG"
	envSubsys = "NCCL_DEBUG_SUBSYS"
	envFile   = "NCCL_DEBUG_FILE"
)

// Listen runs work, in which calls of a are enqueued, with NCCL's log turned on,
// and gives what NCCL says it chose, in the words of result rows: "ring simple",
// "symmetric AllReduce_RSxLD_AGxST". It is "" when that cannot be known: NCCL tells
// it to rank 0 only, and the log is left alone when the user has set NCCL_DEBUG.
// Writing the log takes time, so work is not to be timed; the first call after
// it still takes a little longer.
func (a *AllReduce) Listen(work func() error) (string, error) {
	if _, set := cEnv(envDebug); set || a.comm.group.Rank() != 0 {
		return "", work()
	}
	fd, err := unix.MemfdCreate("nccl-log", unix.MFD_CLOEXEC)
	if err != nil {
		return "", work()
	}
	log := os.NewFile(uintptr(fd), "nccl-log")
	defer log.Close()
	restore, err := setAll(map[string]string{envDebug: "INFO", envSubsys: "TUNING", envFile: fmt.Sprintf("/proc/self/fd/%d", fd)})
	if err == nil {
		C.nccl_reset_log(a.comm.lib.api)
		err = work()
	}
	err = errors.Join(err, restore())
	C.nccl_reset_log(a.comm.lib.api)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
	if err != nil {
		return "", nil // not known
	}
	return choices(string(text)), nil
}

// choices reads the algorithms of all-reduces from NCCL's log, each once.
func choices(log string) string {
	var all []string
	for line := range strings.Lines(log) {
		_, message, ok := strings.Cut(strings.TrimSpace(line), "NCCL INFO ")
		if !ok {
			continue
		}
		if c, ok := importer.Choice(message); ok && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return strings.Join(all, " + ")
}

// setAll sets variables and gives the way back.
func setAll(values map[string]string) (restore func() error, err error) {
	type old struct {
		value string
		set   bool
	}
	before := map[string]old{}
	restore = func() error {
		var errs []error
		for name, o := range before {
			if o.set {
				errs = append(errs, os.Setenv(name, o.value))
			} else {
				errs = append(errs, os.Unsetenv(name))
			}
		}
		return errors.Join(errs...)
	}
	for name, v := range values {
		o, set := os.LookupEnv(name)
		before[name] = old{o, set}
		err = errors.Join(err, os.Setenv(name, v))
	}
	return restore, err
}

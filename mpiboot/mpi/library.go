//go:build linux

package mpi

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "shim.h"

// file_of gives the path of the shared object in which an address lies.
static const char *file_of(void *addr)
{
	Dl_info info;
	return dladdr(addr, &info) ? info.dli_fname : NULL;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/sigguard"
)

// Library is an MPI library that has been loaded, not yet initialized.
type Library struct {
	c       C.nvls_mpi
	consts  constants
	abi     ABI
	file    string
	version string
	ops     map[Op]C.uintptr_t
	thread  *thread
}

// Open finds and loads a library. Signal dispositions are as before when it
// returns (package sigguard).
func Open(s Search) (*Library, error) {
	var lib *Library
	err := sigguard.GuardSignals(func() error {
		im, abi, err := choose(s, openShared)
		if err != nil {
			return err
		}
		lib, err = bind(im.(*shared), abi)
		return err
	})
	if err != nil {
		return nil, err
	}
	return lib, nil
}

// File is the path of the library, symbolic links resolved.
func (l *Library) File() string { return l.file }

// ABI is the family by which it is called.
func (l *Library) ABI() ABI { return l.abi }

// Version is the first line of MPI_Get_library_version.
func (l *Library) Version() string { return l.version }

// shared is a shared object opened by dlopen.
type shared struct{ handle unsafe.Pointer }

func openShared(name string) (image, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	C.dlerror()
	// LOCAL, so that two MPI libraries looked at in turn cannot take each
	// other's symbols. Open MPI before 3 needed GLOBAL for its plug-ins.
	h := C.dlopen(cname, C.RTLD_LAZY|C.RTLD_LOCAL)
	if h == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	return &shared{h}, nil
}

func (s *shared) symbol(name string) unsafe.Pointer {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return C.dlsym(s.handle, cname)
}

func (s *shared) has(name string) bool { return s.symbol(name) != nil }

func (s *shared) abiMajor() int {
	return int(C.nvls_mpi_abi_major(s.symbol("MPI_Abi_get_version")))
}

func (s *shared) close() { C.dlclose(s.handle) }

// bind looks up every entry point and every handle.
func bind(im *shared, abi ABI) (*Library, error) {
	lib := &Library{abi: abi, consts: constantsOf(abi), ops: map[Op]C.uintptr_t{}}
	var missing []string
	for _, fn := range []struct {
		to   *unsafe.Pointer
		name string
	}{
		{&lib.c.init_thread, "MPI_Init_thread"},
		{&lib.c.finalize, "MPI_Finalize"},
		{&lib.c.abort, "MPI_Abort"},
		{&lib.c.comm_rank, "MPI_Comm_rank"},
		{&lib.c.comm_size, "MPI_Comm_size"},
		{&lib.c.barrier, "MPI_Barrier"},
		{&lib.c.bcast, "MPI_Bcast"},
		{&lib.c.allgather, "MPI_Allgather"},
		{&lib.c.allreduce, "MPI_Allreduce"},
		{&lib.c.error_string, "MPI_Error_string"},
		{&lib.c.comm_set_errhandler, "MPI_Comm_set_errhandler"},
		{&lib.c.get_library_version, "MPI_Get_library_version"},
	} {
		if *fn.to = im.symbol(fn.name); *fn.to == nil {
			missing = append(missing, fn.name)
		}
	}
	k := lib.consts
	value := func(h handle) C.uintptr_t {
		if h.symbol == "" {
			return C.uintptr_t(h.value)
		}
		p := im.symbol(h.symbol)
		if p == nil {
			missing = append(missing, h.symbol)
		}
		return C.uintptr_t(uintptr(p))
	}
	if k.pointerHandles {
		lib.c.pointer_handles = 1
	}
	lib.c.comm_world = value(k.commWorld)
	lib.c.byte = value(k.byteType)
	lib.c.int64 = value(k.int64)
	lib.c.float64 = value(k.float64)
	lib.c.errors_return = value(k.errorsReturn)
	lib.ops[Max], lib.ops[Min], lib.ops[Sum] = value(k.max), value(k.min), value(k.sum)

	lib.file = C.GoString(C.file_of(lib.c.init_thread))
	if real, err := filepath.EvalSymlinks(lib.file); err == nil {
		lib.file = real
	}
	if len(missing) > 0 {
		im.close()
		return nil, fmt.Errorf("%s (%v) lacks %s", lib.file, abi, strings.Join(missing, ", "))
	}
	lib.version = lib.libraryVersion()
	return lib, nil
}

// libraryVersion may be called before MPI_Init. 8192 is the largest
// MPI_MAX_LIBRARY_VERSION_STRING of the three families.
func (l *Library) libraryVersion() string {
	text := (*C.char)(C.calloc(1, 8192))
	defer C.free(unsafe.Pointer(text))
	var n C.int
	if rc := C.nvls_mpi_library_version(&l.c, text, &n); rc != 0 {
		return fmt.Sprintf("unknown version (MPI_Get_library_version returned %d)", int(rc))
	}
	return firstLine(C.GoString(text))
}

// firstLine is the part of a version text that fits a message. MPICH writes its
// name and number as "MPICH Version:\t4.0.2".
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line, _, _ = strings.Cut(line, ", package:")
	return strings.Join(strings.Fields(line), " ")
}

// errorOf turns a return code into an error with the library's own words.
func (l *Library) errorOf(call, stage string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	e := &Error{Call: call, Stage: stage, Code: int(rc)}
	text := (*C.char)(C.calloc(1, 1024)) // MPI_MAX_ERROR_STRING is at most 512
	defer C.free(unsafe.Pointer(text))
	var n C.int
	if C.nvls_mpi_error_string(&l.c, rc, text, &n) == 0 {
		e.Text = strings.Join(strings.Fields(C.GoString(text)), " ")
	}
	return e
}

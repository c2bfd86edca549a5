package cuda

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// jitLogBytes is the room for each of the JIT's two logs.
const jitLogBytes = 16 << 10

// module is PTX compiled by the driver's JIT.
type module struct {
	gpu    *gpu
	handle C.cu_handle
}

func (g *gpu) LoadModule(ptx string) (device.Module, error) {
	text := C.CString(ptx) // ends in NUL, as the driver wants
	defer C.free(unsafe.Pointer(text))
	logs := C.calloc(2, jitLogBytes)
	defer C.free(logs)
	info, jitError := (*C.char)(logs), (*C.char)(unsafe.Add(logs, jitLogBytes))

	m := &module{gpu: g}
	err := g.check("cuModuleLoadData", C.cuda_module_load(g.lib.api, g.ctx, text, info, jitError, jitLogBytes, &m.handle))
	if err == nil {
		return m, nil
	}
	var e *device.Error
	if errors.As(err, &e) {
		e.Log = strings.TrimSpace(C.GoString(jitError) + "\n" + C.GoString(info))
	}
	return nil, err
}

func (m *module) Function(name string) (device.Function, error) {
	g := m.gpu
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	f := &function{name: name}
	err := g.check("cuModuleGetFunction", C.cuda_module_function(g.lib.api, g.ctx, m.handle, text, &f.handle))
	if err != nil {
		var e *device.Error
		if errors.As(err, &e) {
			e.Text += ": " + name
		}
		return nil, err
	}
	// The driver loads kernels lazily, and loading can wait for the device to be
	// idle: at the first launch, behind a kernel that spins for a peer, that
	// would be a deadlock.
	if err := g.check("cuFuncLoad", C.cuda_function_load(g.lib.api, g.ctx, f.handle)); err != nil {
		return nil, err
	}
	for _, a := range []struct {
		attribute C.int
		to        *int
	}{
		{C.CU_FUNC_ATTRIBUTE_NUM_REGS, &f.attributes.Registers},
		{C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &f.attributes.SharedBytes},
		{C.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &f.attributes.LocalBytes},
		{C.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &f.attributes.MaxThreadsPerBlock},
	} {
		var v C.int
		if err := g.check("cuFuncGetAttribute", C.cuda_function_attribute(g.lib.api, g.ctx, f.handle, a.attribute, &v)); err != nil {
			return nil, err
		}
		*a.to = int(v)
	}
	f.dynamicShared = defaultSharedBytes - min(f.attributes.SharedBytes, defaultSharedBytes)
	return f, nil
}

func (m *module) Close() error {
	if m.handle == 0 {
		return nil
	}
	handle := m.handle
	m.handle = 0
	return m.gpu.check("cuModuleUnload", C.cuda_module_unload(m.gpu.lib.api, m.gpu.ctx, handle))
}

// defaultSharedBytes is the shared memory that a block may take without being
// allowed more, static and dynamic together, on every architecture.
const defaultSharedBytes = 48 << 10

// function is one kernel.
type function struct {
	name       string
	handle     C.cu_handle
	attributes device.FunctionAttributes
	// dynamicShared is how much dynamic shared memory the kernel is allowed now.
	dynamicShared int
}

func (f *function) Name() string                          { return f.name }
func (f *function) Attributes() device.FunctionAttributes { return f.attributes }

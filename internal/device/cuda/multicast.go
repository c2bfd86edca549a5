package cuda

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// multicast gives the table of the multicast entry points for a call that is
// about to be made, and resolves it the first time. Every use of multicast goes
// through here: with a site switch on, or on a device without multicast, nothing
// is resolved and call is refused.
func (g *gpu) multicast(call string) (*C.multicast_api, error) {
	l := g.lib
	if l.multicastOff != "" {
		return nil, &switchedOff{by: l.multicastOff, cause: device.Error{
			Call: call, Code: device.NotSupported, Name: errorName(l, device.NotSupported), Device: g.info.UUID}}
	}
	if !g.info.Multicast {
		return nil, g.refuse(call, device.NotSupported, "the driver says that this device has no multicast")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mc == nil {
		mc := (*C.multicast_api)(C.calloc(1, C.sizeof_multicast_api))
		if name := C.multicast_resolve(l.handle, mc); name != nil {
			C.free(unsafe.Pointer(mc))
			return nil, g.refuse(call, device.NotSupported, l.path+" has no "+C.GoString(name))
		}
		l.mc = mc
	}
	return l.mc, nil
}

// switchedOff is the error of a multicast call that a site switch forbids. It
// unwraps to a *device.Error with the code NotSupported.
type switchedOff struct {
	by    string
	cause device.Error
}

func (e *switchedOff) Error() string {
	return fmt.Sprintf("%s was not called on %s: multicast is switched off by %s", e.cause.Call, e.cause.Device, e.by)
}

func (e *switchedOff) Unwrap() error { return &e.cause }

// ExitCode makes this the failure of a mode that cannot run here.
func (e *switchedOff) ExitCode() failure.Code { return failure.Unavailable }

// team is a multicast object and what this device has bound to it.
type team struct {
	object
	bindings []binding
}

// binding is a range of the object behind which memory of this device stands.
type binding struct {
	offset, bytes uint64
	memory        *memory
}

func (g *gpu) MulticastGranularity(numDevices int, bytes uint64) (minimum, recommended uint64, err error) {
	const call = "cuMulticastGetGranularity"
	mc, err := g.multicast(call)
	if err != nil {
		return 0, 0, err
	}
	var min, rec C.size_t
	if err := g.check(call, C.multicast_granularity(g.lib.api, mc, g.ctx, C.uint(numDevices), C.size_t(bytes), C.CU_GRANULARITY_MINIMUM, &min)); err != nil {
		return 0, 0, err
	}
	if err := g.check(call, C.multicast_granularity(g.lib.api, mc, g.ctx, C.uint(numDevices), C.size_t(bytes), C.CU_GRANULARITY_RECOMMENDED, &rec)); err != nil {
		return 0, 0, err
	}
	return uint64(min), uint64(rec), nil
}

func (g *gpu) CreateMulticast(numDevices int, bytes uint64) (device.Multicast, error) {
	const call = "cuMulticastCreate"
	mc, err := g.multicast(call)
	if err != nil {
		return nil, err
	}
	t, err := g.newTeam(call, numDevices, bytes)
	if err != nil {
		return nil, err
	}
	if err := g.check(call, C.multicast_create(g.lib.api, mc, g.ctx, C.uint(numDevices), C.size_t(bytes), &t.handle)); err != nil {
		return nil, err
	}
	return t, nil
}

func (g *gpu) ImportMulticast(f *os.File, numDevices int, bytes uint64) (device.Multicast, error) {
	const call = "cuMemImportFromShareableHandle" // of a multicast object
	if _, err := g.multicast(call); err != nil {
		return nil, err
	}
	t, err := g.newTeam(call, numDevices, bytes)
	if err != nil {
		return nil, err
	}
	if t.handle, err = g.importHandle(f); err != nil {
		return nil, err
	}
	return t, nil
}

// newTeam checks the size of a multicast object before the driver is asked for
// it, because the driver's error does not say what was wrong.
func (g *gpu) newTeam(call string, numDevices int, bytes uint64) (*team, error) {
	minimum, _, err := g.MulticastGranularity(numDevices, bytes)
	if err != nil {
		return nil, err
	}
	if bytes == 0 || bytes%minimum != 0 {
		return nil, g.refuse(call, device.InvalidValue, fmt.Sprintf("%d bytes are no multiple of the multicast granularity of %d", bytes, minimum))
	}
	return &team{object: object{gpu: g, kind: "multicast object", bytes: bytes, alignment: minimum}}, nil
}

func (t *team) AddDevice() error {
	const call = "cuMulticastAddDevice"
	g := t.gpu
	mc, err := g.multicast(call)
	if err != nil {
		return err
	}
	return g.check(call, C.multicast_add_device(g.lib.api, mc, g.ctx, t.handle, g.dev))
}

func (t *team) Bind(mcOffset uint64, m device.Memory, memOffset, bytes uint64) error {
	const call = "cuMulticastBindMem"
	g := t.gpu
	mc, err := g.multicast(call)
	if err != nil {
		return err
	}
	mem, ok := m.(*memory)
	if !ok || mem.gpu.dev != g.dev {
		return g.refuse(call, device.InvalidValue, "the memory is not of this device")
	}
	if err := g.check(call, C.multicast_bind(g.lib.api, mc, g.ctx, t.handle, C.size_t(mcOffset), mem.handle, C.size_t(memOffset), C.size_t(bytes))); err != nil {
		return err
	}
	mem.bindings++
	t.bindings = append(t.bindings, binding{mcOffset, bytes, mem})
	return nil
}

func (t *team) Unbind(mcOffset, bytes uint64) error {
	const call = "cuMulticastUnbind"
	g := t.gpu
	mc, err := g.multicast(call)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(t.bindings, func(b binding) bool { return b.offset == mcOffset && b.bytes == bytes })
	if i < 0 {
		return g.refuse(call, device.InvalidValue, fmt.Sprintf("nothing is bound at offset %d with %d bytes", mcOffset, bytes))
	}
	if err := g.check(call, C.multicast_unbind(g.lib.api, mc, g.ctx, t.handle, g.dev, C.size_t(mcOffset), C.size_t(bytes))); err != nil {
		return err
	}
	t.bindings[i].memory.bindings--
	t.bindings = slices.Delete(t.bindings, i, i+1)
	return nil
}

func (t *team) Close() error {
	if len(t.bindings) > 0 {
		return t.gpu.refuse("cuMemRelease", device.IllegalState, "memory is still bound to the multicast object")
	}
	return t.release()
}

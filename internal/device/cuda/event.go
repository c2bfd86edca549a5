package cuda

// #include "shim.h"
import "C"

import (
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// event is a timed event.
type event struct {
	gpu    *gpu
	handle C.cu_handle
}

func (g *gpu) NewEvent() (device.Event, error) {
	e := &event{gpu: g}
	if err := g.check("cuEventCreate", C.cuda_event_create(g.lib.api, g.ctx, &e.handle)); err != nil {
		return nil, err
	}
	return e, nil
}

// Since has the driver's resolution of about half a microsecond.
func (e *event) Since(earlier device.Event) (time.Duration, error) {
	g := e.gpu
	first, ok := earlier.(*event)
	if !ok {
		return 0, g.refuse("cuEventElapsedTime", device.InvalidHandle, "the event is of another driver")
	}
	var ms C.float
	if err := g.check("cuEventElapsedTime", C.cuda_event_elapsed(g.lib.api, g.ctx, first.handle, e.handle, &ms)); err != nil {
		return 0, err
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

func (e *event) Close() error {
	if e.handle == 0 {
		return nil
	}
	handle := e.handle
	e.handle = 0
	return e.gpu.check("cuEventDestroy", C.cuda_event_destroy(e.gpu.lib.api, e.gpu.ctx, handle))
}

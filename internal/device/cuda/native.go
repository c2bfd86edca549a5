package cuda

// #include "shim.h"
import "C"

import "unsafe"

// Native is what another CUDA library of this process, such as NCCL, needs to put
// work on a stream: its handles as the driver has them, and the entry points by
// which that library's caller makes the context current on its own thread, in
// the same C call. The runtime API's cudaStream_t is the driver's CUstream.
type Native struct {
	Stream, Context              uintptr // CUstream, CUcontext
	CtxGetCurrent, CtxSetCurrent uintptr // addresses of libcuda's functions
}

// Native gives the stream's handles. They are good until the stream is closed.
func (s *stream) Native() Native {
	api := s.gpu.lib.api
	return Native{
		Stream: uintptr(s.handle), Context: uintptr(s.gpu.ctx),
		CtxGetCurrent: uintptr(unsafe.Pointer(api.cuCtxGetCurrent)), CtxSetCurrent: uintptr(unsafe.Pointer(api.cuCtxSetCurrent)),
	}
}

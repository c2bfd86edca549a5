package cuda

// #include "shim.h"
import "C"

import "errors"

// ProbeFabric asks the driver for memory with a FABRIC handle and gives it back
// at once. It serves explanations only: without an IMEX channel the driver
// answers 800 (NOT_PERMITTED), which stops programs that rely on such handles.
// Nothing here does, and no run calls this.
func (d *Driver) ProbeFabric(ordinal int) error {
	dev, err := d.Open(ordinal)
	if err != nil {
		return err
	}
	g := dev.(*gpu)
	bytes, err := g.Granularity()
	if err != nil {
		return errors.Join(err, g.Close())
	}
	var handle C.cu_mem
	err = g.check("cuMemCreate", C.cuda_mem_create_fabric(g.lib.api, g.ctx, g.dev, C.size_t(bytes), &handle))
	if err == nil {
		err = g.check("cuMemRelease", C.cuda_mem_release(g.lib.api, g.ctx, handle))
	}
	return errors.Join(err, g.Close())
}

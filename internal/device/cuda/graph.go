package cuda

// #include "shim.h"
import "C"

import (
	"errors"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// graph is an executable graph.
type graph struct {
	gpu  *gpu
	exec C.cu_handle
}

func (s *stream) BeginCapture() error {
	g := s.gpu
	if err := g.check("cuStreamBeginCapture", C.cuda_capture_begin(g.lib.api, g.ctx, s.handle)); err != nil {
		return err
	}
	s.capturing = true
	return nil
}

func (s *stream) Capturing() bool { return s.capturing }

// EndCapture instantiates the recorded graph and drops the recording.
func (s *stream) EndCapture() (device.Graph, error) {
	g := s.gpu
	s.capturing = false
	var recorded C.cu_handle
	if err := g.check("cuStreamEndCapture", C.cuda_capture_end(g.lib.api, g.ctx, s.handle, &recorded)); err != nil {
		return nil, err
	}
	made := &graph{gpu: g}
	err := g.check("cuGraphInstantiate", C.cuda_graph_instantiate(g.lib.api, g.ctx, recorded, &made.exec))
	err = errors.Join(err, g.check("cuGraphDestroy", C.cuda_graph_destroy(g.lib.api, g.ctx, recorded)))
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

func (s *stream) LaunchGraph(d device.Graph) error {
	g := s.gpu
	made, ok := d.(*graph)
	if !ok {
		return g.refuse("cuGraphLaunch", device.InvalidHandle, "the graph is of another driver")
	}
	return g.check("cuGraphLaunch", C.cuda_graph_launch(g.lib.api, g.ctx, made.exec, s.handle))
}

func (d *graph) Close() error {
	if d.exec == 0 {
		return nil
	}
	exec := d.exec
	d.exec = 0
	return d.gpu.check("cuGraphExecDestroy", C.cuda_graph_exec_destroy(d.gpu.lib.api, d.gpu.ctx, exec))
}

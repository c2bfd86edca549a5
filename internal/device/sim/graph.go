package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// graph is recorded work. It implements device.Graph. Arguments are copied when
// they are recorded; memory is looked at when the graph runs.
type graph struct {
	d      *gpu
	ops    []op
	next   op // being filled
	closed atomic.Bool
}

func (st *stream) BeginCapture() error {
	return st.d.do("cuStreamBeginCapture", "", func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if err := st.usable(); err != nil {
			return err
		}
		st.capturing = &graph{d: st.d}
		return nil
	})
}

func (st *stream) EndCapture() (device.Graph, error) {
	st.mu.Lock()
	n := 0
	if st.capturing != nil {
		n = len(st.capturing.ops)
	}
	st.mu.Unlock()
	var g *graph
	err := st.d.do("cuStreamEndCapture", fmt.Sprintf("%d nodes", n), func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.capturing == nil {
			return refuse(device.IllegalState, "the stream is not recording")
		}
		g, st.capturing = st.capturing, nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (g *graph) Close() error {
	return g.d.do("cuGraphExecDestroy", "", func() error {
		g.closed.Store(true)
		return nil
	})
}

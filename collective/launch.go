package collective

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Geometry is the grid and block of a launch.
type Geometry struct {
	Blocks, Threads uint32
}

// Launch is a prepared call that is one kernel. It is launched as a graph of one
// node, which costs the host less than half of what launching the kernel costs
// (docs/measurements/launch.md), or as a kernel into a graph that is captured.
type Launch struct {
	fn        device.Function
	geometry  Geometry
	args      kernels.Args
	shared    uint32 // bytes a block
	algorithm string
	graph     device.Graph
}

// NewLaunch loads the kernel of a family for a call and completes its arguments
// with what is the same for all kernels.
func (g *Group) NewLaunch(f KernelFamily, c Call, geo Geometry, args KernelArgs) (Prepared, error) {
	if err := geo.check(); err != nil {
		return nil, err
	}
	op := c.Op.String()
	if c.Op == Avg {
		op, args.Average = Sum.String(), kernels.AverageOver(g.Size())
	}
	fn, err := g.library.Function(f, c.DType.String(), op)
	if err != nil {
		return nil, g.at(err)
	}
	args.Self = uint64(g.space.Signals())
	args.In, args.Out = uint64(c.Send.Local()), uint64(c.Recv.Local())
	args.Count = c.Count
	args.Rank, args.Ranks = uint32(g.Rank()), uint32(g.Size())
	args.Timeout = uint64(g.Timeout().Nanoseconds())
	l := &Launch{fn: fn, geometry: geo, args: args, shared: f.SharedBytes(), algorithm: fmt.Sprintf("%s %dx%d", algorithmName(f), geo.Blocks, geo.Threads)}
	if g.stream.Capturing() {
		return l, nil
	}
	if err := l.record(g.stream); err != nil {
		return nil, g.at(err)
	}
	return l, nil
}

// record makes the graph of one node on a stream that is not capturing.
func (l *Launch) record(s device.Stream) error {
	if err := s.BeginCapture(); err != nil {
		return err
	}
	err := l.Enqueue(s)
	graph, endErr := s.EndCapture()
	if err := errors.Join(err, endErr); err != nil {
		if graph != nil {
			err = errors.Join(err, graph.Close())
		}
		return err
	}
	l.graph = graph
	return nil
}

// Enqueue implements Prepared.
func (l *Launch) Enqueue(s Stream) error {
	if l.graph != nil && !s.Capturing() {
		return s.LaunchGraph(l.graph)
	}
	return s.Launch(l.fn, l.geometry.Blocks, l.geometry.Threads, l.shared, l.args.Bytes())
}

// Algorithm implements Prepared.
func (l *Launch) Algorithm() string { return l.algorithm }

// Close implements Prepared.
func (l *Launch) Close() error {
	if l.graph == nil {
		return nil
	}
	return l.graph.Close()
}

// algorithmName is the shape of a family's data movement. Multicast or not is
// said by the mode.
func algorithmName(f kernels.Family) string {
	switch f {
	case kernels.OneShot:
		return "one-shot"
	case kernels.TwoShot, kernels.NVLSZeroCopy:
		return "two-shot"
	case kernels.CopyIn, kernels.NVLSCopyIn:
		return "copy-in"
	case kernels.PushBulk:
		return "push-bulk"
	}
	return string(f)
}

// Trivial prepares what needs no peers: an empty message, or a group of one,
// whose all-reduce is a copy. ok is false for any other call.
func (g *Group) Trivial(c Call) (p Prepared, ok bool) {
	if c.Count != 0 && g.Size() > 1 {
		return nil, false
	}
	return copyCall{c}, true
}

type copyCall struct{ c Call }

func (c copyCall) Enqueue(s device.Stream) error {
	if c.c.Count == 0 || c.c.InPlace() {
		return nil
	}
	return s.Copy(c.c.Recv.Local(), c.c.Send.Local(), c.c.Bytes())
}

func (c copyCall) Algorithm() string { return "copy" }

func (c copyCall) Close() error { return nil }

// Check refuses a call whose buffers are not what every mode needs: element
// alignment, inside their memory, equal or apart. It does no device work.
func (c Call) Check() error {
	size := uint64(c.DType.Size())
	for _, b := range []struct {
		name string
		Buffer
	}{{"send", c.Send}, {"receive", c.Recv}} {
		if uint64(b.Local())%size != 0 {
			return failure.New(failure.Usage, "the %s buffer at %#x is not aligned to its element of %d bytes", b.name, uint64(b.Local()), size)
		}
		if m := b.Memory; m != nil && (b.Offset > m.Bytes() || c.Count > (m.Bytes()-b.Offset)/size) {
			return failure.New(failure.Usage, "the %s buffer of %d bytes at offset %d does not fit its memory of %d bytes", b.name, c.Bytes(), b.Offset, m.Bytes())
		}
	}
	s, r := uint64(c.Send.Local()), uint64(c.Recv.Local())
	if s != r && s < r+c.Bytes() && r < s+c.Bytes() {
		return failure.New(failure.Usage, "send and receive buffer overlap without being the same")
	}
	return nil
}

// RequireSymmetric refuses a call whose buffers are not in symmetric memory,
// which modes that read or write peers' buffers need.
func (c Call) RequireSymmetric(mode string) error {
	if c.Send.Memory == nil || c.Recv.Memory == nil {
		return failure.New(failure.Usage, "%s needs buffers in symmetric memory (Group.Alloc); nvls-copy-in and p2p-copy-in take any buffer", mode)
	}
	return nil
}

package collective

import (
	"cmp"
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

// Kernel is a kernel with its arguments.
type Kernel struct {
	fn       device.Function
	geometry Geometry
	args     kernels.Args
	shared   uint32 // bytes a block
}

// NewKernel loads the kernel of a family for a call and completes its arguments
// with what is the same for all kernels.
func (g *Group) NewKernel(f KernelFamily, c Call, geo Geometry, args KernelArgs) (*Kernel, error) {
	op := c.Op.String()
	if c.Op == Avg {
		op, args.Average = Sum.String(), kernels.AverageOver(g.Size())
	}
	args.In, args.Out = uint64(c.Send.Local()), uint64(c.Recv.Local())
	args.Count = c.Count
	return g.newKernel(f, c.DType.String(), op, geo, args)
}

// NewRankBarrier loads the kernel that waits for the peers: for kernels.Scattered
// or kernels.Gathered.
func (g *Group) NewRankBarrier(what string) (*Kernel, error) {
	return g.newKernel(kernels.RankBarrier, "", what, Geometry{Blocks: 1, Threads: 32}, kernels.Args{})
}

func (g *Group) newKernel(f kernels.Family, element, op string, geo Geometry, args kernels.Args) (*Kernel, error) {
	if err := cmp.Or(geo.check(), g.checkAtOnce(geo, f.SharedBytes())); err != nil {
		return nil, err
	}
	fn, err := g.library.Function(f, element, op)
	if err != nil {
		return nil, g.at(err)
	}
	args.Self = uint64(g.space.Signals())
	args.Rank, args.Ranks = uint32(g.Rank()), uint32(g.Size())
	args.Timeout = uint64(g.Timeout().Nanoseconds())
	return &Kernel{fn: fn, geometry: geo, args: args, shared: f.SharedBytes()}, nil
}

// With is the kernel with some of its arguments changed.
func (k *Kernel) With(change func(*KernelArgs)) *Kernel {
	other := *k
	change(&other.args)
	return &other
}

// Enqueue launches the kernel on a stream.
func (k *Kernel) Enqueue(s Stream) error {
	return s.Launch(k.fn, k.geometry.Blocks, k.geometry.Threads, k.shared, k.args.Bytes())
}

// Work is what a prepared call puts on a stream, piece by piece.
type Work interface {
	Enqueue(Stream) error
}

// Recorded is a prepared call that is launched as a graph of its work. For a single
// kernel that costs the host less than half of what launching the kernel costs
// (docs/measurements/launch.md). Into a graph that is captured the work goes piece
// by piece.
type Recorded struct {
	work      Work
	algorithm string
	tuning    Tuning
	graph     device.Graph // nil when it was prepared while the group's stream was capturing
}

// NewLaunch prepares a call that is one kernel, of a family, with args completed as
// by NewKernel.
func (g *Group) NewLaunch(f KernelFamily, c Call, geo Geometry, args KernelArgs) (Prepared, error) {
	k, err := g.NewKernel(f, c, geo, args)
	if err != nil {
		return nil, err
	}
	return g.Record(k, fmt.Sprintf("%s %dx%d", algorithmName(f), geo.Blocks, geo.Threads), Tuning{Blocks: geo.Blocks, Threads: geo.Threads})
}

// Record prepares a call that is some work, and names it: Prepared.Algorithm, and
// Prepared.Tuning.
func (g *Group) Record(w Work, algorithm string, t Tuning) (Prepared, error) {
	r := &Recorded{work: w, algorithm: algorithm, tuning: t}
	if g.stream.Capturing() {
		return r, nil
	}
	if err := r.record(g.stream); err != nil {
		return nil, g.at(err)
	}
	return r, nil
}

// record makes the graph on a stream that is not capturing.
func (r *Recorded) record(s device.Stream) error {
	if err := s.BeginCapture(); err != nil {
		return err
	}
	err := r.work.Enqueue(s)
	graph, endErr := s.EndCapture()
	if err := errors.Join(err, endErr); err != nil {
		if graph != nil {
			err = errors.Join(err, graph.Close())
		}
		return err
	}
	r.graph = graph
	return nil
}

// Enqueue implements Prepared.
func (r *Recorded) Enqueue(s Stream) error {
	if r.graph != nil && !s.Capturing() {
		return s.LaunchGraph(r.graph)
	}
	return r.work.Enqueue(s)
}

// Algorithm implements Prepared.
func (r *Recorded) Algorithm() string { return r.algorithm }

// Tuning implements Prepared.
func (r *Recorded) Tuning() Tuning { return r.tuning }

// Close implements Prepared.
func (r *Recorded) Close() error {
	if r.graph == nil {
		return nil
	}
	return r.graph.Close()
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

func (c copyCall) Enqueue(s Stream) error {
	if c.c.Count == 0 || c.c.InPlace() {
		return nil
	}
	return s.Copy(c.c.Recv.Local(), c.c.Send.Local(), c.c.Bytes())
}

func (c copyCall) Algorithm() string { return "copy" }

func (c copyCall) Tuning() Tuning { return Tuning{} }

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

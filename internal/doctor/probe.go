//go:build linux

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/nccl"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// Probe is the whole life of a probe process: one rank of a group that the
// doctor started, which does what may hang or break a process. It tells its
// stages and its end on stdout, a line of JSON each, and gives the exit code.
// simOptions, unless nil, describes the software device; tests make it fail.
func Probe(ctx context.Context, argument string, environ []string, stdout, stderr io.Writer, simOptions *sim.Options) failure.Code {
	p := &prober{out: json.NewEncoder(stdout), environ: environ, end: ending{FabricCode: -1}}
	if err := json.Unmarshal([]byte(argument), &p.request); err != nil {
		fmt.Fprintf(stderr, "the doctor's request cannot be read: %v\n", err)
		return failure.Usage
	}
	if p.request.Ask == askWitness {
		return beWitness(os.Stdin, stdout)
	}
	if simOptions != nil {
		p.sim = *simOptions
	}
	p.sim.Devices = p.request.SimDevices
	p.stage("meet the other probe processes")
	world, err := mpiboot.Join(ctx, mpiboot.Options{Launcher: mpiboot.LauncherLocal, SocketDir: p.SocketDir, Timeout: p.Join, Stderr: io.Discard, Environ: environ})
	if err == nil {
		err = p.run(ctx, world)
	}
	p.end.OK = err == nil
	if err != nil {
		p.end.Text, p.end.Code = err.Error(), failure.CodeOf(err)
		var f *failure.Error
		if errors.As(err, &f) {
			p.end.Do, p.end.By = f.Do, f.By
		}
	}
	if e := p.out.Encode(answer{End: &p.end}); e != nil {
		fmt.Fprintf(stderr, "the doctor does not listen: %v\n", e)
		return failure.Internal
	}
	// Last, because it may wait for a rank that hangs.
	if world != nil {
		return world.Finish(failure.CodeOf(err))
	}
	return failure.CodeOf(err)
}

type prober struct {
	request
	environ []string
	sim     sim.Options
	out     *json.Encoder
	end     ending
	group   *collective.Group
}

func (p *prober) stage(format string, args ...any) {
	// Nobody may listen any more; the end will tell.
	_ = p.out.Encode(answer{Stage: fmt.Sprintf(format, args...)})
}

func (p *prober) done(format string, args ...any) {
	p.end.Done = append(p.end.Done, fmt.Sprintf(format, args...))
}

func (p *prober) run(ctx context.Context, world *mpiboot.World) error {
	p.stage("pass descriptors")
	if err := roundTrip(ctx, world.Node()); err != nil {
		return err
	}
	p.done("descriptors passed between all pairs")
	// The peer probe never touches multicast, whatever is allowed.
	off := "the doctor, which probes peer memory without multicast"
	if p.Ask != askPeers {
		getenv := (&System{Environ: p.environ}).getenv
		var err error
		if off, err = site.MulticastOff(p.Multicast, getenv, p.Device == "sim"); err != nil {
			return err
		}
		if off != "" && p.Ask == askMulticast {
			return failure.New(failure.Unavailable, "multicast is not probed: %s", off)
		}
	}
	p.stage("open the devices")
	g, err := collective.Open(ctx, world, collective.Options{Device: p.Device, MulticastOff: off, ShareGPU: p.ShareGPU, Sim: p.sim, Timeout: p.Kernel})
	if err != nil {
		return err
	}
	p.group = g
	// A run does not depend on it.
	if p.end.FreeBytes, p.end.TotalBytes, err = g.Device().MemInfo(); err != nil {
		p.end.MemoryText = err.Error()
	}
	switch p.Ask {
	case askMulticast:
		err = p.multicast(ctx)
	case askNCCL, askNCCLSymmetric:
		err = p.nccl(ctx)
	default:
		p.fabric()
		err = p.peers(ctx)
	}
	if err != nil {
		return err
	}
	p.stage("close the devices")
	return g.Close(ctx)
}

// fabric tries a FABRIC handle, where the driver has them, to explain what other
// programs report. It is a fact and no failure.
func (p *prober) fabric() {
	d, ok := p.group.Driver().(interface{ ProbeFabric(ordinal int) error })
	info := p.group.Devices()[p.group.Rank()]
	if !ok || !info.Fabric {
		return
	}
	p.stage("ask for a FABRIC handle")
	err := d.ProbeFabric(info.Ordinal)
	p.end.FabricCode = 0
	if err != nil {
		code, known := device.CodeOf(err)
		if !known {
			code = device.Unknown
		}
		p.end.FabricCode, p.end.FabricText = int(code), err.Error()
	}
}

// wait waits for the group's stream, not longer than a kernel may wait twice.
func (p *prober) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*p.Kernel, fmt.Errorf("not done within %v", 2*p.Kernel))
	defer cancel()
	return p.group.Wait(ctx)
}

// reduce runs one all-reduce (sum) of n elements on buffers in m and compares
// every element. Rank r brings r + i mod 7 + 1 as element i, so that sums are
// exact in every type used.
func (p *prober) reduce(ctx context.Context, r collective.AllReducer, m *collective.Memory, dtype collective.DType, n int) error {
	g := p.group
	p.stage("all-reduce with %s, %s", r.Mode(), dtype)
	half := m.Bytes() / 2
	call := collective.Call{Send: m.At(0), Recv: m.At(half), Count: uint64(n), DType: dtype, Op: collective.Sum}
	if err := g.Device().CopyToDevice(call.Send.Local(), elements(dtype, n, func(i int) int { return g.Rank() + i%7 + 1 })); err != nil {
		return err
	}
	poison := make([]byte, call.Bytes())
	for i := range poison {
		poison[i] = 0xa5
	}
	if err := g.Device().CopyToDevice(call.Recv.Local(), poison); err != nil {
		return err
	}
	prepared, err := r.Prepare(call)
	if err := g.Node().Vote(ctx, "prepare "+r.Mode(), err); err != nil {
		return err
	}
	err = prepared.Enqueue(g.Stream())
	if err == nil {
		err = p.wait(ctx)
	}
	if err == nil {
		got := make([]byte, call.Bytes())
		want := elements(dtype, n, func(i int) int { return g.Size()*(g.Size()-1)/2 + g.Size()*(i%7+1) })
		if err = g.Device().CopyToHost(got, call.Recv.Local()); err == nil && !slices.Equal(got, want) {
			err = failure.New(failure.WrongData, "%s of %s gave wrong data on rank %d", r.Mode(), dtype, g.Rank())
		}
	}
	return g.Node().Vote(ctx, "all-reduce with "+r.Mode(), err)
}

// elements writes small whole numbers as a type.
func elements(dtype collective.DType, n int, value func(i int) int) []byte {
	var out []byte
	for i := range n {
		v := value(i)
		switch dtype {
		case collective.Float:
			out = append(out, words(math.Float32bits(float32(v)))...)
		case collective.BFloat16: // the upper half of a float
			out = append(out, words(math.Float32bits(float32(v)))[2:]...)
		default:
			out = append(out, words(uint32(v))...)
		}
	}
	return out
}

// peers lets every rank read from and write into every other's memory, and then
// reduce with the modes that need just that.
func (p *prober) peers(ctx context.Context) error {
	g := p.group
	p.stage("share memory between peers")
	m, err := g.Alloc(ctx, "the doctor's pattern", probeBytes)
	if err != nil {
		return err
	}
	broken, err := p.pattern(ctx, m)
	if err != nil {
		return err
	}
	p.done("pattern read and written between all pairs")
	if p.end.Broken = broken; len(broken) > 0 {
		return &failure.Error{Code: failure.WrongData, What: "peer access is offered but data does not arrive", Why: fmt.Sprint(broken),
			Do: "check IOMMU and ACS on the host (PCIe peer access), and NVLink (nvidia-smi nvlink -s); outside the container it will fail too", By: failure.Administrator}
	}
	for _, r := range []collective.AllReducer{fallback.NewP2P(g, fallback.TwoShot, collective.Tuning{}), fallback.NewRing(g, collective.Tuning{})} {
		if err := p.reduce(ctx, r, m, collective.Uint32, probeCount); err != nil {
			return err
		}
		p.done("all-reduce with %s", r.Mode())
	}
	return m.Close(ctx)
}

const (
	// probeBytes is the memory of each rank that the probes share.
	probeBytes = 2 << 20
	// probeCount is the number of elements of their all-reduces.
	probeCount = 4099
)

// multicast sets NVLS up, reduces through the switch, and takes it down, twice:
// what stays behind the first time shows in the second.
func (p *prober) multicast(ctx context.Context) error {
	g := p.group
	var free [2]uint64
	for round := range free {
		p.stage("allocate memory, round %d", round+1)
		m, err := g.Alloc(ctx, "the doctor's pattern", probeBytes)
		if err != nil {
			return err
		}
		p.stage("create, add, bind and map a multicast object, round %d", round+1)
		z := nvls.NewZeroCopy(g, collective.Tuning{})
		if err := z.Register(ctx, m); err != nil {
			return err
		}
		for _, dtype := range []collective.DType{collective.Float, collective.BFloat16} {
			if err := p.reduce(ctx, z, m, dtype, probeCount); err != nil {
				return err
			}
		}
		p.stage("take the multicast object down, round %d", round+1)
		if err := g.Node().Vote(ctx, "take down", errors.Join(z.Close(ctx), m.Close(ctx))); err != nil {
			return err
		}
		if free[round], _, err = g.Device().MemInfo(); err != nil {
			free[round] = 0 // unknown
		}
		p.done("round %d: create, add, bind, map, multimem reduce and store of float and bfloat16, unmap, unbind", round+1)
	}
	if free[1] > 0 && free[1] < free[0] {
		p.done("%d bytes of device memory were not given back by the second round", free[0]-free[1])
	}
	return nil
}

// nccl sets NCCL up and, where it takes buffers of any origin, reduces.
func (p *prober) nccl(ctx context.Context) error {
	g := p.group
	p.stage("set NCCL up")
	o := nccl.Options{Library: p.NCCL, Setup: p.Join * 2 / 3}
	if p.Ask == askNCCLSymmetric {
		s, err := nccl.OpenSymmetric(ctx, g, probeBytes, o)
		if err != nil {
			return err
		}
		p.done("NCCL %s of %s set up with a symmetric window", s.Version(), s.Library())
		return s.Close(ctx)
	}
	m, err := g.Alloc(ctx, "the doctor's pattern", probeBytes)
	if err != nil {
		return err
	}
	a, err := nccl.Open(ctx, g, o)
	if err != nil {
		return errors.Join(err, m.Close(ctx))
	}
	if err := p.reduce(ctx, a, m, collective.Float, probeCount); err != nil {
		return err
	}
	p.done("all-reduce with NCCL %s of %s", a.Version(), a.Library())
	return errors.Join(a.Close(ctx), m.Close(ctx))
}

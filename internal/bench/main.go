package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// Process is what a run knows of its process.
type Process struct {
	Version string // of the program
	Args    []string
	Environ []string
	Stdout  io.Writer
	Stderr  io.Writer
}

// Main makes one rank's part of a run and gives the exit code on which all ranks
// agreed. The configuration must be valid. After it the process can only end.
func Main(ctx context.Context, cfg *configs.Config, p Process) failure.Code {
	stage := stageFault(p.Stderr)
	world, err := mpiboot.Join(ctx, mpiboot.Options{
		Launcher: cfg.Bootstrap.Launcher, MPILibrary: cfg.Bootstrap.MPILibrary, SocketDir: cfg.Bootstrap.SocketDir,
		Timeout: cfg.Bootstrap.Timeout, Stderr: p.Stderr, Build: build(), Stage: stage,
	})
	if err != nil {
		world.Abort(failure.CodeOf(err), err)
	}
	b := &bench{cfg: cfg, process: p, world: world, node: world.Node(), stage: stage}
	b.record = newRecord(b)
	// A reader of standard output that goes away must not take the files with it.
	signal.Ignore(syscall.SIGPIPE)
	stop := b.record.watchSignals()
	defer stop()

	err = b.run(ctx)
	code := failure.CodeOf(err)
	if e := b.record.finish(err); err == nil {
		code = failure.CodeOf(e)
	}
	if err != nil && !agreed(err) {
		// When a launcher ends a job, a rank may see another go before it gets the
		// signal itself. The signal is the better reason.
		time.Sleep(signalGrace)
		world.Abort(code, err)
	}
	if err != nil && world.Rank() == 0 {
		for line := range strings.Lines(fmt.Sprintf("%+v", err)) {
			fmt.Fprintf(p.Stderr, "nvls-allreduce: %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return world.Finish(code)
}

// agreed reports whether err is known to be the same on every rank: the outcome
// of a vote, or a judgement that all ranks make of the same facts.
func agreed(err error) bool {
	var vote *mpiboot.VoteError
	if errors.As(err, &vote) {
		return true
	}
	switch failure.CodeOf(err) {
	case failure.Usage, failure.Unavailable, failure.WrongData:
		return true
	}
	return false
}

// bench is one rank's part of a run.
type bench struct {
	cfg     *configs.Config
	process Process
	world   *mpiboot.World
	node    *mpiboot.Node
	group   *collective.Group
	buffers *buffers
	modes   []*mode
	refused []error // modes that were asked for and cannot run
	record  *record
	tuning  *tuning.File // what auto follows; nil to measure
	learned *tuning.File // what auto found, to be saved; nil when it is not
	checks  uint32       // verified calls so far: the seed of the next
	told    []string     // what tellCut has told
	unfreed []error      // what could not be freed in the middle of the run

	stage func(rank int, stage string) // as mpiboot.Options.Stage
}

// enter tells of a stage that has no operation among the ranks.
func (b *bench) enter(stage string) {
	if b.stage != nil {
		b.stage(b.world.Rank(), stage)
	}
}

func (b *bench) run(ctx context.Context) error {
	if err := b.world.RequireOneNode(); err != nil {
		return err
	}
	if err := b.compareConfigs(ctx); err != nil {
		return err
	}
	if err := b.node.Vote(ctx, "try the output files", b.record.tryOutputs()); err != nil {
		return err
	}
	if err := b.readTuning(ctx); err != nil {
		return err
	}
	simulated := b.cfg.Run.Device == configs.DeviceSim
	off, err := site.MulticastOff(b.cfg.NVLS.Multicast, os.Getenv, simulated)
	if err := b.node.Vote(ctx, "read the site switch", err); err != nil {
		return err
	}
	if simulated && off == "" {
		if vendor, _ := site.MulticastOff("", os.Getenv, false); vendor != "" {
			b.record.note("The software device has multicast: %s is for hardware, and multicast = \"off\" switches it off here", vendor)
		}
	}
	name := "cuda"
	if simulated {
		name = "sim"
	}
	b.tellFaults()
	b.record.footprint(b.plannedMemory())
	b.group, err = collective.Open(ctx, b.world, collective.Options{
		Device: name, MulticastOff: off, ShareGPU: b.cfg.Run.ShareGPU, Timeout: b.cfg.Timing.Timeout, ScratchBytes: scratchBytes(b.cfg),
		Sim: sim.Options{Devices: b.cfg.Sim.Devices, Weak: b.cfg.Sim.WeakMemory(), Seed: uint64(b.cfg.Sim.Seed), Process: sim.Process{Fail: b.simFaults()}},
	})
	if err != nil {
		return err
	}
	if simulated && b.cfg.Sim.WeakMemory() {
		b.record.note("The software device has the weak memory model, seed %d: sim.weak or sim.seed is set", b.cfg.Sim.Seed)
	}
	b.injectFaults()
	b.trapKernels()
	if err := b.allocate(ctx); err != nil {
		return err
	}
	if err := b.setUpModes(ctx); err != nil {
		return err
	}
	if err := b.startTuning(); err != nil {
		return err
	}
	if err := b.record.begin(ctx); err != nil {
		return err
	}
	if err := b.measureLinks(ctx); err != nil {
		return err
	}
	if err := b.sweep(ctx); err != nil {
		return err
	}
	if err := b.tearDown(ctx); err != nil {
		return err
	}
	return b.verdict()
}

// compareConfigs refuses ranks that were given different configurations.
func (b *bench) compareConfigs(ctx context.Context) error {
	all, err := b.node.Allgather(ctx, "compare configurations", []byte(b.cfg.Canonical()))
	if err != nil {
		return err
	}
	for r, text := range all {
		if d := configs.Diff(string(all[0]), string(text)); len(d) > 0 {
			var words []string
			for _, x := range d {
				words = append(words, x.String())
			}
			return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("ranks 0 and %d have different configurations", r), Why: strings.Join(words, "; "),
				Do: "give every rank the same flags and the same file", By: failure.User}
		}
	}
	return nil
}

// sweep measures every table: for each data type and operation, each mode. It keeps
// its thread: on another one the first call of CUDA and NCCL took up to 130 µs.
func (b *bench) sweep(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := b.cfg.Timing
	for cycle := 0; t.Cycles == 0 || cycle < t.Cycles; cycle++ {
		for _, d := range b.cfg.DTypes() {
			for _, op := range b.cfg.Ops() {
				if err := b.tables(ctx, cycle, d, op); err != nil {
					return err
				}
			}
		}
		b.record.change(func() { b.record.swept = true })
	}
	return nil
}

// verdict turns what was measured into the end of the run.
func (b *bench) verdict() error {
	// Only rank 0 has the rows, but wrong data was counted over all ranks on each.
	if err := b.record.wrongData(); err != nil {
		return err
	}
	if err := b.record.tooSlow(); err != nil {
		return err
	}
	return errors.Join(b.refused...)
}

// free frees what the run needs no more. An error is told when all is taken down:
// the ranks are not at a vote, and nothing that is measured depends on it.
func (b *bench) free(c io.Closer) {
	if err := c.Close(); err != nil {
		b.unfreed = append(b.unfreed, err)
	}
}

// tearDown frees everything in the reverse order of its making. A rank that is
// missing ends it: each further step would wait for that rank once more.
func (b *bench) tearDown(ctx context.Context) error {
	var steps []func(context.Context) error
	for i := len(b.modes) - 1; i >= 0; i-- {
		steps = append(steps, b.modes[i].reducer.Close)
	}
	steps = append(steps, b.buffers.memory.Close, b.group.Close)
	errs := b.unfreed
	for _, step := range steps {
		err := step(ctx)
		if errors.As(err, new(*mpiboot.PeersError)) {
			return err
		}
		errs = append(errs, err)
	}
	return b.node.Vote(ctx, "take down", errors.Join(errs...))
}

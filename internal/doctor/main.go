//go:build linux

package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// Options say what to look at.
type Options struct {
	// Config is that of the run which is to be foretold.
	Config *configs.Config
	JSON   bool // instead of text
	// Probe is the command that starts a probe process, without its last argument:
	// this program and the name of the hidden command that calls Probe.
	Probe   []string
	System  *System
	Version string // of the program
	Stdout  io.Writer
	Stderr  io.Writer
}

// doctor is one rank's part.
type doctor struct {
	Options
	system   *System
	world    *mpiboot.World
	findings []Finding // of this rank
	size     int       // of the world as the launcher tells it, where the ranks could not meet
	teamSize int       // probe processes
	driver   device.Driver
	tuning   *tuning.File // what the run would follow, nil for none
	onEnd    []func() error
}

// Main is one rank's part. It prints the report on rank 0 and gives the code to
// exit with, that of the run as it is foretold: 0 when every wanted mode will run
// here, 3 when one will not or it could not be told, another where the run would end
// with that. After it the process can only end.
func Main(ctx context.Context, o Options) failure.Code {
	d := &doctor{Options: o, system: o.System}
	// A reader that goes away is told as a report that could not be written.
	signal.Ignore(syscall.SIGPIPE)
	d.surroundings()
	b := o.Config.Bootstrap
	ev, err := mpiboot.DetectAs(d.system.Environ, b.Launcher)
	if err != nil {
		d.add(fromError("launcher", "the launcher's variables contradict each other", err, allModes, "environment"))
	}
	d.atOnce(ev)
	well := d.witness(ev)
	late := time.AfterFunc(patience, func() {
		fmt.Fprintf(o.Stderr, "nvls-allreduce: rank %d: the doctor has not met the other ranks after %v, and waits at most %v\n", ev.Rank, patience, 2*d.timeout())
	})
	world, err := mpiboot.Join(ctx, mpiboot.Options{Launcher: b.Launcher, MPILibrary: b.MPILibrary, SocketDir: b.SocketDir,
		Timeout: 2 * d.timeout(), Stderr: o.Stderr, Environ: d.system.Environ})
	late.Stop()
	well()
	if err != nil {
		return d.notJoined(ev, world, err)
	}
	d.world = world
	code, err := d.examine(ctx)
	for _, end := range slices.Backward(d.onEnd) {
		err = errors.Join(err, end())
	}
	if err != nil {
		code = d.broken(err)
	}
	return d.world.Finish(code)
}

// patience is after how long a wait for the other ranks is told. A variable for the
// tests only.
var patience = 10 * time.Second

// atOnce tells what may keep the doctor itself from coming to a report.
func (d *doctor) atOnce(ev mpiboot.Evidence) {
	for _, f := range d.findings {
		if (f.ID == "limits.files" || f.ID == "limits.processes") && f.Severity == Warning && f.Outcome != Unknown && ev.Rank <= 0 {
			fmt.Fprintf(d.Stderr, "nvls-allreduce: %s. To do (%s): %s\n", f.What, f.By, f.Do)
		}
	}
}

func (d *doctor) add(f ...Finding) { d.findings = append(d.findings, f...) }

func (d *doctor) simulated() bool { return d.Config.Run.Device == configs.DeviceSim }

// deadline bounds a probe process from outside; request gives what bounds its
// parts from inside. All follow from bootstrap.timeout.
func (d *doctor) deadline() time.Duration { return d.timeout() * 3 / 2 }

// timeout is that of the configuration, but no shorter than what it takes to start a
// process and compile a kernel: a run may do with less.
func (d *doctor) timeout() time.Duration { return max(d.Config.Bootstrap.Timeout, time.Second) }

func (d *doctor) request(ask string) request {
	dev := "cuda"
	if d.simulated() {
		dev = "sim"
	}
	t := d.timeout()
	return request{Ask: ask, Device: dev, SimDevices: d.Config.Sim.Devices, ShareGPU: d.Config.Run.ShareGPU, Multicast: d.Config.NVLS.Multicast,
		SocketDir: d.Config.Bootstrap.SocketDir, NCCL: d.Config.NCCL.Library, Join: t, Kernel: t / 3}
}

// surroundings is what can be seen without the other ranks and without a driver.
func (d *doctor) surroundings() {
	s := d.system
	d.add(inContainer(s))
	d.add(confinement(s)...)
	d.add(network())
	d.add(limits(s)...)
}

// notJoined reports where the ranks could not meet. Only what rank 0 found is
// known there; the other ranks say their part in a line.
func (d *doctor) notJoined(ev mpiboot.Evidence, world *mpiboot.World, err error) failure.Code {
	f := fromError("ranks", "the ranks could not meet", err, allModes, "joining the other ranks")
	code := cmp.Or(f.Exit, failure.Unavailable)
	for _, kind := range []string{"net", "user"} {
		if id := d.system.namespaces()[kind]; id != "" {
			f.Evidence = append(f.Evidence, Evidence{"own: " + id, "/proc/self/ns/" + kind})
		}
	}
	d.add(d.launcher(ev)...)
	d.add(f)
	d.size = max(ev.Size, 1)
	if ev.Rank > 0 {
		fmt.Fprintf(d.Stderr, "nvls-allreduce: rank %d: the doctor could not meet the other ranks: %v\n", ev.Rank, err)
		// The launcher ends all ranks when the first one leaves: rank 0's report goes
		// first. This rank leaves by itself then, with the code that it has.
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Second)
	} else {
		code = d.print(d.report(merge([]int{0}, [][]Finding{d.findings})))
	}
	if world != nil {
		world.Abort(code, err) // MPI runs, and others may wait for this rank
	}
	return code
}

// broken ends an examination that the ranks could not finish together. What rank
// 0 found until then is told.
func (d *doctor) broken(err error) failure.Code {
	if failure.CodeOf(err) == failure.Usage {
		if d.world.Rank() == 0 {
			fmt.Fprintf(d.Stderr, "nvls-allreduce: %v\n", err)
		}
		return failure.Usage
	}
	if d.world.Rank() == 0 {
		f := unsure("ranks", "the ranks could not finish the examination together", err, "rank 0")
		if tooManyFiles(err) {
			f.What = "the examination ended early, because no more files can be opened"
		}
		if f.Do == "" {
			f.Do, f.By = "see what the other ranks printed", failure.User
		}
		return d.print(d.report(merge([]int{0}, [][]Finding{append(d.findings, f)})))
	} else {
		fmt.Fprintf(d.Stderr, "nvls-allreduce: rank %d: the doctor could not finish: %v\n", d.world.Rank(), err)
	}
	return failure.Unavailable
}

// examine makes all probes with the other ranks and reports on rank 0.
func (d *doctor) examine(ctx context.Context) (failure.Code, error) {
	world, node := d.world, d.world.Node()
	d.add(d.launcher(world.Evidence())...)
	if err := world.RequireOneNode(); err != nil {
		// All ranks know this alike.
		f := fromError("ranks", "the ranks are on several hosts", err, allModes, "host names and boot ids")
		f, err := d.oneKernel(ctx, f)
		if err != nil {
			return 0, err
		}
		d.add(f)
		return d.conclude(ctx, world.Comm().Allgather)
	}
	goOn, err := d.beforehand(ctx)
	if err != nil {
		return 0, err
	}
	if !goOn {
		return d.conclude(ctx, node.Allgather)
	}
	namespaces, err := gather(ctx, node, "compare namespaces", []map[string]string{d.system.namespaces()})
	if err != nil {
		return 0, err
	}
	if node.Size() > 1 {
		d.add(compareNamespaces(node.WorldRanks(), namespaces)...)
		d.add(descriptors(ctx, node, d.Config.Bootstrap.SocketDir))
	}
	off, err := site.MulticastOff(d.Config.NVLS.Multicast, d.system.getenv, d.simulated())
	if err := node.Vote(ctx, "read the site switch", err); err != nil {
		return 0, err
	}
	if d.simulated() && off == "" {
		if vendor, _ := site.MulticastOff("", d.system.getenv, false); vendor != "" {
			d.add(Finding{ID: "nvls.switched-off", Severity: Info, Outcome: No, What: "a switch for hardware is on, and does not bind the software device; multicast = \"off\" or " + site.EnvMulticast + "=off does",
				Evidence: evidence(vendor, "site switches")})
		}
	}
	if err := d.devices(ctx, off); err != nil {
		return 0, err
	}
	return d.conclude(ctx, node.Allgather)
}

// oneKernel tells hosts that are one from hosts that are several.
func (d *doctor) oneKernel(ctx context.Context, f Finding) (Finding, error) {
	const file = "/proc/sys/kernel/random/boot_id"
	id, err := d.system.read(file)
	if err != nil {
		id = ""
	}
	all, err := d.world.Comm().Allgather(ctx, "compare boot ids", []byte(id))
	if err != nil {
		return f, err
	}
	same := id != ""
	for _, other := range all {
		same = same && string(other) == id
	}
	if same {
		f.What = "the ranks seem to be on several hosts, but share one kernel: their containers have host names of their own"
		f.Evidence = append(f.Evidence, Evidence{id + " on every rank", file})
		f.Do, f.By = "give all containers one host name, or set "+mpiboot.EnvHostID+" to the same text on all ranks of the node", failure.User
	}
	return f, nil
}

// conclude gathers all findings, prints on rank 0 and gives the code of this
// rank: rank 0's decides.
func (d *doctor) conclude(ctx context.Context, allgather func(context.Context, string, []byte) ([][]byte, error)) (failure.Code, error) {
	reconcile(d.findings)
	body, err := json.Marshal(d.findings)
	if err != nil {
		return 0, err
	}
	all, err := allgather(ctx, "gather findings", body)
	if err != nil {
		return 0, err
	}
	if d.world.Rank() != 0 {
		return failure.OK, nil
	}
	ranks := make([]int, len(all))
	lists := make([][]Finding, len(all))
	for i, b := range all {
		ranks[i] = i
		if err := json.Unmarshal(b, &lists[i]); err != nil {
			return 0, failure.Wrap(failure.Internal, err, "the findings of rank %d cannot be read", i)
		}
	}
	return d.print(d.report(merge(ranks, lists))), nil
}

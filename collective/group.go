package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// MaxRanks is the largest group.
const MaxRanks = kernels.MaxRanks

// Options say how a group is opened.
type Options struct {
	// Device is "cuda" or "sim".
	Device string
	// MulticastOff names the site switch that forbids multicast; "" when none
	// does. See internal/site.
	MulticastOff string
	// ShareGPU lets several ranks use one GPU: it shows function, not speed.
	ShareGPU bool
	// Sim describes the software GPUs: rank 0's decide, but for Process, which
	// holds for each rank's own calls. Devices 0 means one a rank. MulticastOff above is
	// used and not its own.
	Sim SimOptions
	// ScratchBytes is the scratch memory of ring, push and copy engines on each
	// device, the same on every rank; 0 means the constant ScratchBytes. All
	// of them move large messages faster with more, some 64 MiB.
	ScratchBytes uint64
	// Timeout bounds every wait of a kernel for its peers. 0 means 30 s.
	Timeout time.Duration
}

// Group is the ranks of one node, each with its device, and the signal and
// scratch memory that all-reduces share.
type Group struct {
	node    *mpiboot.Node
	driver  device.Driver
	dev     device.Device
	stream  device.Stream
	library *kernels.Library
	space   *Workspace
	infos   []device.Info // of every rank's device, in node rank order
	options Options
	onClose []func() error
}

// Open makes a group of all ranks of the node, each with a device of its own.
// It is collective. Its own memory is WorkspaceBytes on each device. Where the
// environment forbids multicast (see the README), it is off even if
// Options.MulticastOff says nothing.
func Open(ctx context.Context, world *mpiboot.World, o Options) (*Group, error) {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if err := world.RequireOneNode(); err != nil {
		return nil, err
	}
	if err := o.readSwitches(ctx, world.Node()); err != nil {
		return nil, err
	}
	g := &Group{node: world.Node(), options: o}
	if err := CheckRanks(g.Size()); err != nil {
		return nil, err
	}
	if err := g.open(ctx); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// CheckRanks refuses more ranks than a group can have.
func CheckRanks(n int) error {
	if n <= MaxRanks {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("%d ranks on one node, at most %d are supported", n, MaxRanks),
		Do: fmt.Sprintf("start at most %d ranks", MaxRanks), By: failure.User}
}

// readSwitches finds the site switch of any rank: one that is set for one rank
// forbids multicast on all, for the driver below them is the same.
func (o *Options) readSwitches(ctx context.Context, node *mpiboot.Node) error {
	off, err := o.MulticastOff, error(nil)
	if off == "" {
		off, err = site.MulticastOff("", os.Getenv, o.Device == "sim")
	}
	if err := node.Vote(ctx, "read the site switch", err); err != nil {
		return err
	}
	all, err := node.Allgather(ctx, "compare site switches", []byte(off))
	if err != nil {
		return err
	}
	for r, name := range all {
		if o.MulticastOff == "" && len(name) > 0 {
			o.MulticastOff = string(name)
			if off == "" {
				o.MulticastOff += fmt.Sprintf(" (of rank %d)", r)
			}
		}
	}
	return nil
}

func (g *Group) open(ctx context.Context) error {
	if err := g.openDriver(ctx); err != nil {
		return err
	}
	if err := g.openDevice(ctx); err != nil {
		return err
	}
	err := func() (err error) {
		g.library = kernels.NewLibrary(g.dev)
		g.stream, err = g.dev.NewStream()
		return err
	}()
	if err := g.node.Vote(ctx, "make a stream", g.at(err)); err != nil {
		return err
	}
	var err2 error
	g.space, err2 = newWorkspace(ctx, g)
	return err2
}

// Rank is this rank's number in the group, from 0.
func (g *Group) Rank() int { return g.node.Rank() }

// Size is the number of ranks.
func (g *Group) Size() int { return g.node.Size() }

// Node is the group's bootstrap: barriers and votes.
func (g *Group) Node() *mpiboot.Node { return g.node }

// Device is this rank's device.
func (g *Group) Device() Device { return g.dev }

// Driver is the driver of all devices.
func (g *Group) Driver() Driver { return g.driver }

// Devices describes every rank's device, by rank.
func (g *Group) Devices() []DeviceInfo { return g.infos }

// Stream is the group's own stream.
func (g *Group) Stream() Stream { return g.stream }

// Library loads kernels onto this rank's device.
func (g *Group) Library() *Kernels { return g.library }

// Workspace is the group's signal and scratch memory.
func (g *Group) Workspace() *Workspace { return g.space }

// Timeout bounds every wait of a kernel for its peers.
func (g *Group) Timeout() time.Duration { return g.options.Timeout }

// SharesGPU reports whether two ranks use one device.
func (g *Group) SharesGPU() bool {
	seen := map[device.UUID]bool{}
	for _, i := range g.infos {
		if seen[i.UUID] {
			return true
		}
		seen[i.UUID] = true
	}
	return false
}

// Where names this rank for an error: rank, host, device.
func (g *Group) Where() string {
	host, _ := os.Hostname()
	s := fmt.Sprintf("rank %d on %s", g.Rank(), host)
	if g.Rank() < len(g.infos) {
		s += ", " + g.infos[g.Rank()].UUID.String()
	}
	return s
}

// at adds to a driver's error where it happened; nil stays nil.
func (g *Group) at(err error) error {
	if err == nil {
		return nil
	}
	var f *failure.Error
	if errors.As(err, &f) {
		return err
	}
	return &failure.Error{Code: failure.Device, What: "the device failed", Where: g.Where(), Err: err}
}

// Wait returns when all work on the group's stream is done. A kernel that gave
// up waiting for a peer is an error with code Timeout that names rank, block
// and stage; after it the group is unusable.
func (g *Group) Wait(ctx context.Context) error {
	if err := g.Drain(ctx); err != nil {
		return err
	}
	return g.Check()
}

// Drain is the first half of Wait, for whoever stops a clock between them: it
// returns when the stream is empty, and does not ask how the kernels ended.
func (g *Group) Drain(ctx context.Context) error {
	err := g.stream.Wait(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		// A kernel may have given up and said why, while those behind it still wait.
		if said := g.checkSoon(); said != nil {
			return said
		}
		return failure.Wrap(failure.Timeout, cause, "the device did not finish (%s)", g.Where())
	}
	return g.at(err)
}

// checkTime is how long a device that is late may take to copy its status.
const checkTime = time.Second

// checkSoon is Check, or nil when the device does not answer in checkTime.
func (g *Group) checkSoon() error {
	said := make(chan error, 1)
	go func() { said <- g.Check() }()
	select {
	case err := <-said:
		return err
	case <-time.After(checkTime):
		return nil
	}
}

// Check is the second half of Wait: the error of a kernel that gave up waiting.
// It copies from the device, which takes some microseconds.
func (g *Group) Check() error { return g.space.check() }

// Close is collective: it frees the group's memory and device. Every Memory and
// AllReducer must have been closed.
func (g *Group) Close(ctx context.Context) error {
	err := g.space.close(ctx)
	return errors.Join(err, g.release())
}

// release frees what this rank holds, without asking the others.
func (g *Group) release() error {
	var errs []error
	if g.library != nil {
		errs = append(errs, g.library.Close())
	}
	if g.stream != nil {
		errs = append(errs, g.stream.Close())
	}
	if g.dev != nil {
		errs = append(errs, g.dev.Close())
	}
	if g.driver != nil {
		errs = append(errs, g.driver.Close())
	}
	for _, f := range g.onClose {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

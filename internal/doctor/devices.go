//go:build linux

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// devices looks at GPUs from the device nodes to the probes in processes of
// their own.
func (d *doctor) devices(ctx context.Context, off string) error {
	node := d.world.Node()
	s := d.system
	var n nodes
	if d.simulated() {
		d.teamSize = node.Size()
		if node.Size() == 1 && !d.single() {
			if d.teamSize = min(d.Config.Sim.Devices, collective.MaxRanks); d.teamSize == 0 {
				d.teamSize = simTeam
			}
		}
		driver, err := d.openSim(ctx, off)
		var vote *mpiboot.VoteError
		switch {
		case errors.As(err, &vote) && !tooManyFiles(err): // of which a doctor needs more than a run
			f := fromError("gpu.driver", "the software device cannot be made", err, allModes, "--device sim")
			f.Exit = failure.CodeOf(err)
			d.add(f)
		case err != nil:
			return err
		default:
			d.driver = driver
			d.add(Finding{ID: "gpu.driver", Severity: OK, Outcome: Yes, What: fmt.Sprintf("the software device runs with %s (SIMULATED: nothing here says anything about a GPU)", count(len(d.driver.Devices()), "software GPU")),
				Evidence: evidence(d.driver.Version(), "--device sim")})
		}
	} else {
		var f []Finding
		f, n = deviceNodes(s)
		d.add(f...)
		kernel, version := kernelDriver(s)
		d.add(kernel)
		f, n.nvml = askNVML(s)
		d.add(f...)
		var shown int
		d.driver, shown, f = openCUDA(s, off, d.deadline())
		loaded := ""
		if d.driver != nil {
			loaded = loadedLibrary("libcuda.so")
			if named, ok := d.driver.(interface{ Library() string }); ok && loaded == "" {
				loaded = named.Library()
			}
		}
		d.add(userLibraries(s, loaded, version)...)
		d.add(f...)
		if shown >= 0 {
			d.add(masked(s, n, shown))
		}
	}
	var mine []device.Info
	if d.driver != nil {
		mine = d.driver.Devices()
	}
	visible, err := gather(ctx, node, "compare visible devices", [][]device.Info{mine})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(visible, func(v []device.Info) bool { return len(v) == 0 }) {
		// Each rank that sees none has said why; no probe of memory is possible.
		d.add(Finding{ID: "peers", Severity: Skipped, Outcome: Unknown, What: "peer memory was not probed: not every rank sees a GPU"},
			Finding{ID: "multicast", Severity: Skipped, Outcome: Unknown, What: "multicast was not probed: not every rank sees a GPU"})
		if !d.simulated() {
			d.add(fabricHandles(s, false, false))
		}
		d.asked(nil, node.Size())
		return nil
	}
	return d.probes(ctx, visible)
}

// simTeam is how many software GPUs the doctor makes where nobody says how many.
const simTeam = 2

// probes judges what the ranks see, and runs the probe processes where nothing
// speaks against it. All ranks judge alike.
func (d *doctor) probes(ctx context.Context, visible [][]device.Info) error {
	node := d.world.Node()
	if node.Size() > 1 || d.single() {
		d.teamSize = node.Size()
	} else if !d.simulated() {
		// Alone, the doctor looks at all GPUs that it sees.
		d.teamSize = min(len(visible[0]), collective.MaxRanks)
	}
	team := visible
	if node.Size() == 1 {
		team = slices.Repeat(visible, d.teamSize)
	}
	d.add(attributes(slices.Concat(visible...)))
	switch {
	case d.single():
		d.add(Finding{ID: "gpu.single", Severity: Info, What: "one rank, as asked: its all-reduce is a copy, which says nothing about NVLS or peer access", Evidence: evidence("1 rank", "--np")})
	case d.teamSize == 1:
		d.add(alone(visible[0][0]))
	}
	chosen, seen := compareDevices(team, d.Config.Run.ShareGPU)
	if d.teamSize > 1 || chosen == nil {
		if node.Size() == 1 && len(visible[0]) > d.teamSize {
			seen.Evidence = append(seen.Evidence, Evidence{fmt.Sprintf("the first %d GPUs are probed", d.teamSize), "the largest group of ranks"})
		}
		d.add(seen)
	}
	judged := chosen
	if judged == nil {
		judged = slices.Concat(visible...)
	}
	d.add(portable(judged)...)
	reasons := against(judged, shares(chosen))
	d.add(reasons...)

	peers, told, err := d.askTeam(ctx, askPeers, chosen, nil)
	if err != nil {
		return err
	}
	if !d.simulated() {
		d.add(d.fabric(judged, told))
	}
	d.add(d.deviceMemory(told, chosen)...)
	d.add(peers)
	multicast, _, err := d.askTeam(ctx, askMulticast, chosen, reasons)
	if err != nil {
		return err
	}
	if multicast.Severity != Skipped && peers.Outcome != Yes {
		multicast.Evidence = append(multicast.Evidence, Evidence{peers.What, "the probe of peer memory before it"})
	}
	d.add(multicast)
	for _, mode := range ncclModes(d.Config.Modes()) {
		f, _, err := d.askTeam(ctx, mode, chosen, nil)
		if err != nil {
			return err
		}
		d.add(f)
	}
	d.asked(chosen, d.teamSize)
	return nil
}

// single says whether a run of one rank is what was asked for, by --np 1. A process
// that nobody started as a rank looks at all GPUs instead.
func (d *doctor) single() bool {
	return d.world.Size() == 1 && d.world.Launcher() == mpiboot.LauncherLocal
}

// alone is the finding of a single GPU without others.
func alone(info device.Info) Finding {
	return costs("gpu.single", "one GPU is visible: neither NVLS nor peer access can be had with one", allModes,
		"make all GPUs of the node visible (gpu.masked tells what hides them), or use a node with several", failure.User,
		Evidence{info.Name + " " + info.UUID.String(), "cuDeviceGetCount = 1"})
}

//go:build linux

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// nvlsMajor and nvlsMinor are the CUDA version whose drivers read the PTX of the
// NVLS kernels (ISA 8.3). Multicast objects need 12.1.
const nvlsMajor, nvlsMinor = 12, 3

// openCUDA opens the driver under a watchdog, for cuInit may hang with a GPU
// that is in trouble. visible is the number of GPUs that it shows, -1 when that
// cannot be told.
func openCUDA(s *System, off string, deadline time.Duration) (d device.Driver, visible int, f []Finding) {
	type opened struct {
		driver device.Driver
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		d, err := s.CUDA(off)
		done <- opened{d, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			visible = -1
			if code, _ := device.CodeOf(o.err); code == device.NoDevice {
				visible = 0
			}
			return nil, visible, []Finding{fromError("gpu.driver", "CUDA does not start", o.err, allModes, "cuInit")}
		}
		return o.driver, len(o.driver.Devices()), describeCUDA(o.driver)
	case <-time.After(deadline):
		f := unsure("gpu.driver", "whether CUDA starts", fmt.Errorf("cuInit has not returned within %v", deadline), "cuInit")
		f.Do, f.By = "look for Xid messages in dmesg on the host, and at nvidia-smi, which may hang too", failure.Administrator
		return nil, -1, []Finding{f}
	}
}

func describeCUDA(d device.Driver) []Finding {
	devices := d.Devices()
	out := []Finding{{ID: "gpu.driver", Severity: OK, Outcome: Yes, What: "CUDA starts and shows " + count(len(devices), "GPU"), Evidence: evidence(d.Version(), "cuDriverGetVersion, NVML")}}
	var major, minor int
	if n, _ := fmt.Sscanf(d.Version(), "CUDA %d.%d", &major, &minor); n != 2 {
		out = append(out, Finding{ID: "gpu.cuda-version", Severity: Warning, Outcome: Unknown, What: "whether the driver is new enough for NVLS", Evidence: evidence(d.Version(), "cuDriverGetVersion")})
	} else if major < nvlsMajor || major == nvlsMajor && minor < nvlsMinor {
		out = append(out, costs("gpu.cuda-version", fmt.Sprintf("the driver is of CUDA %d.%d: multicast objects need 12.1, the PTX of the NVLS kernels %d.%d", major, minor, nvlsMajor, nvlsMinor), nvlsModes,
			"install a newer driver", failure.Administrator, Evidence{d.Version(), "cuDriverGetVersion"}))
	} else {
		out = append(out, Finding{ID: "gpu.cuda-version", Severity: OK, Outcome: Yes, What: "the driver is new enough for NVLS", Evidence: evidence(d.Version(), "cuDriverGetVersion")})
	}
	return out
}

// openSim makes the software device on rank 0 and attaches it on the others, as
// a run does.
func (d *doctor) openSim(ctx context.Context, off string) (device.Driver, error) {
	node := d.world.Node()
	var session *sim.Session
	var err error
	if node.Rank() == 0 {
		devices := d.Config.Sim.Devices
		if devices == 0 {
			devices = d.teamSize
		}
		session, err = sim.Create(sim.Options{Devices: devices})
	}
	if err := node.Vote(ctx, "make the software device", err); err != nil {
		return nil, err
	}
	if node.Rank() == 0 {
		_, err = node.BcastFiles(ctx, "share the software device", 0, session.Files())
	} else if files, e := node.BcastFiles(ctx, "share the software device", 0, nil); e != nil {
		err = e
	} else {
		session, err = sim.Attach(files)
		for _, f := range files {
			f.Close()
		}
	}
	if err := node.Vote(ctx, "open the software device", err); err != nil {
		return nil, err
	}
	session.MulticastOff = off
	d.onEnd = append(d.onEnd, session.Close)
	return session.Driver(), nil
}

// compareDevices asks, as a run does, which device each rank takes and whether
// each sees all. visible is by local rank.
func compareDevices(visible [][]device.Info, share bool) (chosen []device.Info, f Finding) {
	const id = "gpu.visible"
	chosen, err := collective.ChooseDevices(visible, share)
	var e []Evidence
	for _, v := range visible {
		var names []string
		for _, d := range v {
			names = append(names, d.UUID.String())
		}
		seen := Evidence{count(len(v), "GPU") + ": " + strings.Join(names, " "), "visible"}
		if !slices.Contains(e, seen) {
			e = append(e, seen)
		}
	}
	if err != nil {
		f = fromError(id, "no device for every rank", err, allModes, "comparing UUIDs")
		f.Evidence = append(f.Evidence, e...)
		return nil, f
	}
	what := "each rank has a GPU of its own and sees those of the others"
	if len(visible) == 1 || shares(chosen) {
		what = "ranks share GPUs, as --share-gpu allows: for function and not for speed"
	}
	return chosen, Finding{ID: id, Severity: OK, Outcome: Yes, What: what, Evidence: e}
}

// shares says whether two ranks take one device.
func shares(chosen []device.Info) bool {
	for i, d := range chosen {
		if slices.ContainsFunc(chosen[:i], func(o device.Info) bool { return o.UUID == d.UUID }) {
			return true
		}
	}
	return false
}

// attributes reports what the driver says that a device can do.
func attributes(infos []device.Info) Finding {
	f := Finding{ID: "gpu.attributes", Severity: OK, What: "what the driver says the GPUs can do"}
	flag := map[bool]int{true: 1}
	for _, d := range infos {
		multicast := fmt.Sprint(flag[d.Multicast])
		if d.MulticastOff != "" {
			multicast = "not asked (" + d.MulticastOff + ")"
		}
		v := fmt.Sprintf("%s: compute capability %s, VMM (102) %d, POSIX file descriptors (103) %d, FABRIC handles (128) %d, multicast (132) %s",
			d.Name, d.ComputeCapability(), flag[d.VMM], flag[d.PosixFD], flag[d.Fabric], multicast)
		if e := (Evidence{v, "cuDeviceGetAttribute"}); !slices.Contains(f.Evidence, e) {
			f.Evidence = append(f.Evidence, e)
		}
		if d.Simulated {
			f.What = "what the software device can do (SIMULATED)"
		}
	}
	return f
}

// portable says what speaks against the modes without multicast.
func portable(infos []device.Info) []Finding {
	var out []Finding
	add := func(f Finding) {
		if !slices.ContainsFunc(out, func(o Finding) bool { return o.What == f.What }) {
			out = append(out, f)
		}
	}
	for _, d := range infos {
		if !d.AtLeast(8, 0) {
			add(costs("gpu.compute-capability", fmt.Sprintf("the kernels need compute capability 8.0, %s has %s", d.Name, d.ComputeCapability()), allModes,
				"use A100 or newer GPUs", failure.User, Evidence{d.ComputeCapability(), "cuDeviceGetAttribute"}))
		}
		if !d.VMM || !d.PosixFD {
			add(costs("gpu.descriptors", "the driver cannot share memory by file descriptor", peerModes,
				"use a newer driver; under a hypervisor or vGPU ask for a full GPU", failure.Administrator,
				Evidence{fmt.Sprintf("attributes 102 and 103: %v and %v", d.VMM, d.PosixFD), "cuDeviceGetAttribute"}))
		}
	}
	return out
}

// against turns package nvls's reasons into findings. They are the words that a
// run prints.
func against(infos []device.Info, shared bool) []Finding {
	var out []Finding
	for _, d := range infos {
		for _, r := range nvls.Reasons(d, shared) {
			f := Finding{ID: r.ID, Severity: Failed, Outcome: No, What: r.Why, Cost: nvlsModes, Do: r.Do, By: r.By}
			switch r.ID {
			case "nvls.switched-off":
				// It is somebody's will, and no fault.
				f.Severity = Warning
				f.Evidence = evidence(d.MulticastOff, "site switches")
			case "nvls.not-offered":
				f.Evidence = evidence("attribute 132 = 0", "cuDeviceGetAttribute")
			default:
				f.Evidence = evidence(fmt.Sprintf("%s, compute capability %s, attributes 102 and 103: %v and %v", d.Name, d.ComputeCapability(), d.VMM, d.PosixFD), "driver")
			}
			if !slices.ContainsFunc(out, func(o Finding) bool { return o.ID == f.ID && o.What == f.What }) {
				out = append(out, f)
			}
		}
	}
	return out
}

// roundingBytes is more than the driver's granularities add to the allocations of a
// run, which are at most five.
const roundingBytes = 5 * 2 << 20

// memory compares what a run with this configuration asks of each device, which so
// many ranks use, to what is free.
func memory(free, total, wanted, ranks uint64) Finding {
	const id = "memory"
	e := evidence(humanBytes(free)+" free of "+humanBytes(total), "cuMemGetInfo", humanBytes(wanted), "buffers, staging and signals of this configuration")
	switch {
	case free < wanted:
		f := costs(id, "a run with this configuration needs more device memory than is free", allModes,
			"use smaller messages (--maxbytes) or a smaller staging buffer (--staging), or end other programs on this GPU", failure.User, e...)
		f.Exit = failure.Device // of the driver's "out of memory"
		return f
	case free < wanted+ranks*roundingBytes:
		return Finding{ID: id, Severity: Warning, Outcome: Unknown, What: "whether device memory suffices for a run with this configuration: it is a matter of the driver's rounding", Evidence: e,
			Do: "use smaller messages (--maxbytes), or end other programs on this GPU", By: failure.User}
	}
	return Finding{ID: id, Severity: OK, Outcome: Yes, What: "device memory suffices for a run with this configuration", Evidence: e}
}

// notOffered lists what the driver's refusal of multicast may be due to and NVML
// found here: the findings that the finding nvls.not-offered points to.
func notOffered(findings []Finding) string {
	var found []string
	for _, f := range findings {
		switch f.ID {
		case "gpu.mig", "gpu.confidential", "gpu.virtual", "gpu.fabric":
			if f.Severity == Warning && f.Outcome != Unknown || f.Severity == Failed || f.ID == "gpu.virtual" && f.Outcome == Yes {
				found = append(found, f.ID)
			}
		}
	}
	return list(found)
}

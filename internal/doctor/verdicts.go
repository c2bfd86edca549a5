//go:build linux

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/bench"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// askTeam runs the probe processes for peer memory or for multicast, unless what
// is known already forbids it. chosen are the devices of the ranks, nil when they
// cannot form a group; against are the reasons that speak against NVLS.
func (d *doctor) askTeam(ctx context.Context, ask string, chosen []device.Info, against []Finding) (Finding, []told, error) {
	skipped := func(why string) (Finding, []told, error) {
		what := map[string]string{askPeers: "peer memory was not probed", askMulticast: "multicast was not probed, and no multicast call was made"}[ask]
		return Finding{ID: ask, Severity: Skipped, Outcome: Unknown, What: cmp.Or(what, ask+" was not probed") + ": " + why}, nil, nil
	}
	switch {
	case len(d.Probe) == 0:
		return skipped("this program cannot start itself")
	case len(chosen) > collective.MaxRanks:
		return skipped("there are more ranks than a group can have (asked.ranks)")
	case chosen == nil:
		return skipped("the ranks have no GPUs that see each other (gpu.visible)")
	case len(chosen) == 1 && !d.single():
		return skipped("it takes two GPUs (gpu.single)")
	case len(against) > 0:
		return skipped(against[0].What)
	}
	all, err := d.team(ctx, ask)
	if err != nil {
		return Finding{}, nil, err
	}
	if f, never := notStarted(ask, all); never {
		return f, all, nil
	}
	if f, ok := starved(ask, all); ok {
		return f, all, nil
	}
	var f Finding
	switch ask {
	case askMulticast:
		f = judgeMulticast(all, d.simulated())
	case askNCCL, askNCCLSymmetric:
		f = judgeNCCL(ask, all)
	default:
		f = judgePeers(d.system, all, d.simulated())
	}
	return briefly(f, all, d.timeout()), all, nil
}

// brief is a timeout in which a process on a busy host may not come to its end.
const brief = 3 * time.Second

// briefly takes a failure back that is one of time only, where there was little of
// it: then nothing is known.
func briefly(f Finding, all []told, timeout time.Duration) Finding {
	late := slices.ContainsFunc(all, func(t told) bool { return t.Late || t.End != nil && t.End.Code == failure.Timeout })
	if f.Severity != Failed || timeout >= brief || !late {
		return f
	}
	return Finding{ID: f.ID, Severity: Warning, Outcome: Unknown, What: f.What + "; there was little time", Evidence: f.Evidence,
		Do: "raise timeout under [bootstrap]", By: failure.User}
}

// notStarted is the finding where a probe process could not be started, which
// says nothing about what it was to probe.
func notStarted(ask string, all []told) (Finding, bool) {
	i := slices.IndexFunc(all, func(t told) bool { return t.Never })
	if i < 0 {
		return Finding{}, false
	}
	f := unsure(ask, ask+" could not be probed", errors.New(all[i].How), fmt.Sprintf("probe process of rank %d", all[i].Rank))
	f.By = failure.User
	switch all[i].Lacks {
	case "files":
		f.Do = moreFiles
	case "processes":
		f.Do = moreProcesses
	default:
		f.Do = "see that this program's file can be read and run in the container"
	}
	return f, true
}

// moreProcesses is what to do when no more processes or threads can be made.
const moreProcesses = "raise the limit on processes (ulimit -u), and that of the container or the job (pids of its control group)"

// starved is the finding where a probe process ran out of open files or of threads,
// which says nothing about GPUs.
func starved(ask string, all []told) (Finding, bool) {
	for _, t := range all {
		if t.End != nil && !t.End.OK && strings.Contains(t.End.Text, unix.EMFILE.Error()) {
			return unsure(ask, ask+" could not be probed", errors.New(t.End.Text), fmt.Sprintf("probe process of rank %d", t.Rank)), true
		}
		// As Go's runtime says it when it ends a process.
		if t.End == nil && (strings.Contains(t.Said, "pthread_create failed") || strings.Contains(t.Said, "failed to create new OS thread")) {
			f := unsure(ask, ask+" could not be probed", errors.New(t.Said), fmt.Sprintf("probe process of rank %d", t.Rank))
			f.Do, f.By = moreProcesses, failure.User
			return f, true
		}
	}
	return Finding{}, false
}

// worked says whether every probe process came to its end without an error.
func worked(all []told) bool {
	return !slices.ContainsFunc(all, func(t told) bool { return t.End == nil || !t.End.OK })
}

// traces tells how each probe process ended, equal ends once.
func traces(all []told) []Evidence {
	var order []string
	ranks := map[string][]int{}
	for _, t := range all {
		text := t.How
		if t.End == nil {
			text += fmt.Sprintf(", at stage %q", cmp.Or(t.Stage, "start"))
			if t.Said != "" {
				text += "; it printed: " + t.Said
			}
		} else if t.End.OK {
			continue
		} else {
			text = t.End.Text
		}
		if ranks[text] == nil {
			order = append(order, text)
		}
		ranks[text] = append(ranks[text], t.Rank)
	}
	var out []Evidence
	for _, text := range order {
		out = append(out, Evidence{rankList(ranks[text]) + ": " + text, "probe process"})
	}
	return out
}

// steps lists what the first process did, as evidence that it was done.
func steps(all []told) []Evidence {
	var out []Evidence
	for _, s := range all[0].End.Done {
		out = append(out, Evidence{s, fmt.Sprintf("%d probe processes", len(all))})
	}
	return out
}

// ended finds what a failed probe says about itself: whether any process told an
// error of its own, and whether one had to be killed or died.
func ended(all []told) (spoke *ending, silent *told) {
	for i, t := range all {
		switch {
		case t.End == nil && silent == nil:
			silent = &all[i]
		case t.End != nil && !t.End.OK && spoke == nil:
			spoke = t.End
		}
	}
	return spoke, silent
}

// exitOf is the code with which a run ends where it meets what a probe process told
// of; 0 where one told nothing, for then it is not known how a run ends.
func exitOf(spoke *ending, silent *told) failure.Code {
	if spoke == nil || silent != nil || spoke.Code == failure.Internal || spoke.Code == failure.Unavailable {
		return 0
	}
	return spoke.Code
}

// codeIn reads the driver's code out of the text of an error: votes pass errors
// on as text.
func codeIn(text string) device.Code {
	_, after, ok := strings.Cut(text, ": error ")
	var n int
	if _, err := fmt.Sscanf(after, "%d (", &n); !ok || err != nil {
		return 0
	}
	return device.Code(n)
}

func judgeMulticast(all []told, simulated bool) Finding {
	const id = askMulticast
	if worked(all) {
		f := Finding{ID: id, Severity: OK, Outcome: Yes, What: "multicast works: the switch reduces and replicates, set up and taken down twice", Evidence: steps(all)}
		if simulated {
			f.What = "multicast works on the software device (SIMULATED), set up and taken down twice"
		}
		return f
	}
	f := costs(id, "multicast is offered, but NVLS cannot be set up", nvlsModes, "", "", traces(all)...)
	spoke, silent := ended(all)
	reason, known := nvls.Reason{}, false
	if spoke != nil {
		reason, known = nvls.ReasonIn(spoke.Text)
	}
	switch {
	case known:
		f.What += " [" + reason.ID + "]"
		f.Do, f.By = reason.Do, reason.By
		if code := codeIn(spoke.Text); code != 0 {
			f.What = fmt.Sprintf("multicast is offered, but the driver refuses it with error %d [%s]", code, reason.ID)
			if code == device.OutOfMemory {
				f = slots(f, all)
			}
		}
	case silent != nil && silent.Late:
		f.What = fmt.Sprintf("a multicast call did not end in time, at stage %q of rank %d", cmp.Or(silent.Stage, "start"), silent.Rank)
		f.Do, f.By = "check Fabric Manager on the host (systemctl status nvidia-fabricmanager); use --mode ring or p2p meanwhile", failure.Administrator
	case silent != nil:
		f.What = fmt.Sprintf("a probe process broke during multicast, at stage %q of rank %d", cmp.Or(silent.Stage, "start"), silent.Rank)
		f.Do, f.By = "look at dmesg on the host for Xid messages; use --mode ring or p2p meanwhile", failure.Administrator
	case spoke != nil && spoke.Code == failure.WrongData:
		f.What = "multicast was set up, but the switch gives wrong data"
		f.Do, f.By = "look at dmesg on the host for Xid and NVSwitch (SXid) messages; use --mode ring or p2p meanwhile", failure.Administrator
	case spoke != nil:
		what, _, _ := apart(spoke.Text)
		if strings.Contains(what, `"take down"`) {
			f.What = "NVLS was set up and reduced, but could not be taken down"
		}
		f.What += ": " + what
		f.Do, f.By = spoke.Do, spoke.By
	}
	if f.Do == "" {
		f.Do, f.By = "use --mode ring or p2p meanwhile", failure.User
	}
	f.Exit = exitOf(spoke, silent)
	return f
}

// slots tells memory that is used up from multicast slots that are: the driver has
// one code for both.
func slots(f Finding, all []told) Finding {
	least := uint64(math.MaxUint64)
	for _, t := range all {
		if t.End != nil && t.End.TotalBytes > 0 {
			least = min(least, t.End.FreeBytes)
		}
	}
	if least == math.MaxUint64 {
		return f
	}
	f.Evidence = append(f.Evidence, Evidence{humanBytes(least) + " of device memory were free before", "cuMemGetInfo"})
	if least < 8*probeBytes {
		f.Do = "end other programs on these GPUs, whose memory is used up; if that does not help: " + f.Do
	}
	return f
}

func judgeNCCL(mode string, all []told) Finding {
	if worked(all) {
		return Finding{ID: mode, Severity: OK, Outcome: Yes, What: mode + " works", Evidence: steps(all)}
	}
	f := costs(mode, mode+" cannot be set up", []string{mode}, "leave "+mode+" out of --mode, or see the evidence", failure.User, traces(all)...)
	spoke, silent := ended(all)
	if spoke != nil {
		what, _, _ := apart(spoke.Text)
		f.What += ": " + what
		if spoke.Do != "" {
			f.Do, f.By = spoke.Do, spoke.By
		}
	}
	f.Exit = exitOf(spoke, silent)
	return f
}

// fabric adds the trial of a FABRIC handle to what is said about IMEX channels.
func (d *doctor) fabric(infos []device.Info, all []told) Finding {
	f := fabricHandles(d.system, slices.ContainsFunc(infos, func(i device.Info) bool { return i.Fabric }), true)
	for _, t := range all {
		switch {
		case t.End == nil || t.End.FabricCode < 0:
			continue
		case t.End.FabricCode == 0:
			f.Evidence = append(f.Evidence, Evidence{"granted", "cuMemCreate with a FABRIC handle"})
		default:
			f.Evidence = append(f.Evidence, Evidence{t.End.FabricText, "cuMemCreate with a FABRIC handle"})
			f.What = "FABRIC handles are refused here, and not needed: this program shares memory, also behind a multicast object, by file descriptor"
			if device.Code(t.End.FabricCode) == device.NotPermitted {
				f.What = "FABRIC handles are refused here (800), as they are without an IMEX channel; neither is needed: this program shares memory, also behind a multicast object, by file descriptor"
			}
		}
		break
	}
	return f
}

// deviceMemory compares the free memory of the fullest device to what a run asks of
// it. chosen are the devices of the ranks, which may share one.
func (d *doctor) deviceMemory(all []told, chosen []device.Info) []Finding {
	var least *told
	for i, t := range all {
		if t.End != nil && t.End.TotalBytes > 0 && (least == nil || t.End.FreeBytes < least.End.FreeBytes) {
			least = &all[i]
		}
	}
	if least == nil {
		for _, t := range all {
			if t.End != nil && t.End.MemoryText != "" {
				return []Finding{unsure("memory", "whether device memory is enough for a run with this configuration", errors.New(t.End.MemoryText), "cuMemGetInfo")}
			}
		}
		return nil
	}
	ranks := uint64(0)
	for _, c := range chosen {
		if c.UUID == chosen[least.Rank].UUID {
			ranks++
		}
	}
	m := bench.PlannedMemory(d.Config)
	// The probe processes had opened their groups when they read it.
	free := least.End.FreeBytes + ranks*collective.WorkspaceBytes(0)
	return []Finding{memory(free, least.End.TotalBytes, ranks*(m.Buffers+m.Control+m.Staging+m.NCCLBuffers), ranks)}
}

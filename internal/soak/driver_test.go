//go:build linux

package soak

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// driverFault is a driver call that fails on one rank, and a run with it.
type driverFault struct {
	stage    string // of the table
	call     string
	n        int
	rank     int
	code     int
	do       string
	always   bool   // from the nth call on
	fallback string // "" is never
	exits    []int  // those allowed
	outcome  outcome
	problems []string
}

func (f *driverFault) text() string {
	n := fmt.Sprint(f.n)
	if f.always {
		n += "-"
	}
	what := fmt.Sprintf("code=%d", f.code)
	if f.do != "" {
		what = "do=" + f.do
	}
	if f.do == "trap" {
		return fmt.Sprintf("rank=%d call=kernel do=trap", f.rank)
	}
	return fmt.Sprintf("rank=%d call=%s n=%s %s", f.rank, f.call, n, what)
}

// callsOf counts the driver calls of a rank in a run without faults.
func callsOf(t *testing.T, rank int) map[string]int {
	o := job{launcher: local, fault: fmt.Sprintf("stages:%d", rank)}.run(t)
	count := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^stage (cu\w+)$`).FindAllStringSubmatch(o.said, -1) {
		count[m[1]]++
	}
	if o.exit != 0 || count["cuMulticastBindMem"] != 2 {
		t.Fatalf("the run without faults: exit %d, calls %v\n%s", o.exit, count, shorten(o.said))
	}
	return count
}

// multicast names the calls of which a refusal means that NVLS cannot run, with
// the number of the first that is about a multicast object, on rank 1.
var multicast = []struct {
	stage, call string
	n           int
	rank0       bool // only rank 0 calls it
}{
	{"create", "cuMulticastCreate", 1, true},
	{"export", "cuMemExportToShareableHandle", 3, true},
	{"import", "cuMemImportFromShareableHandle", 5, false},
	{"add", "cuMulticastAddDevice", 1, false},
	{"bind", "cuMulticastBindMem", 1, false},
	{"map", "cuMemMap", 7, false},
}

// ordinary are calls that every mode makes, in the order of a run: a failure ends
// the run, for no other mode would do without them.
var ordinary = []struct{ stage, call string }{
	{"module load", "cuModuleLoadData"},
	{"launch", "cuLaunchKernel"},
	{"launch of a graph", "cuGraphLaunch"},
	{"teardown: unbind", "cuMulticastUnbind"},
	{"teardown: unmap", "cuMemUnmap"},
	{"teardown: release", "cuMemRelease"},
}

// codes are the driver's failures that are documented for multicast.
var codes = []int{1, 2, 101, 304, 401, 800, 801, 802, 999}

// driverFaults are all: each code at each stage on each rank, at those of multicast
// with and without fallback; retries; calls that do not return; and every call.
func driverFaults(t *testing.T) []*driverFault {
	var all []*driverFault
	for _, m := range multicast {
		ranks := []int{0, 1, 2}
		if m.rank0 {
			ranks = []int{0}
		}
		for _, r := range ranks {
			if m.call == "cuMemImportFromShareableHandle" && r == 0 {
				continue // it made the object
			}
			for _, code := range codes {
				for _, fb := range []string{"never", "allow"} {
					f := &driverFault{stage: m.stage, call: m.call, n: m.n, rank: r, code: code, always: strings.HasPrefix(m.call, "cuMulticast"), fallback: fb, exits: []int{3}}
					if fb == "allow" {
						f.exits = []int{0}
					}
					all = append(all, f)
				}
			}
		}
	}
	for _, o := range ordinary {
		for r := range 3 {
			for _, code := range codes {
				all = append(all, &driverFault{stage: o.stage, call: o.call, n: 1, rank: r, code: code, exits: []int{2}})
			}
		}
	}
	for rank := range 2 {
		count := callsOf(t, rank)
		for _, call := range slices.Sorted(maps.Keys(count)) {
			for _, n := range slices.Compact([]int{1, (count[call] + 1) / 2, count[call]}) {
				for _, code := range []int{2, 999} {
					all = append(all, &driverFault{stage: "any call", call: call, n: n, rank: rank, code: code, exits: []int{2, 3}})
				}
			}
			all = append(all, &driverFault{stage: "never returns", call: call, n: 1, rank: rank, do: "hang", exits: []int{4}})
		}
	}
	return append(all, bindFaults()...)
}

// bindFaults are those of a bind that is not final, or never comes, and the trap.
func bindFaults() []*driverFault {
	var all []*driverFault
	for r := range 3 {
		all = append(all,
			&driverFault{stage: "bind, 802 once", call: "cuMulticastBindMem", n: 1, rank: r, code: 802, exits: []int{0}},
			&driverFault{stage: "bind, never returns", call: "cuMulticastBindMem", n: 1, rank: r, do: "hang", exits: []int{4}},
			&driverFault{stage: "mid-kernel trap", call: "kernel", n: 1, rank: r, do: "trap", exits: []int{2}})
	}
	return all
}

func sampleFaults() []*driverFault {
	return []*driverFault{
		{stage: "create", call: "cuMulticastCreate", n: 1, rank: 0, code: 2, always: true, exits: []int{3}},
		{stage: "add", call: "cuMulticastAddDevice", n: 1, rank: 2, code: 401, always: true, fallback: "allow", exits: []int{0}},
		{stage: "bind", call: "cuMulticastBindMem", n: 1, rank: 1, code: 801, always: true, exits: []int{3}},
		{stage: "bind, 802 once", call: "cuMulticastBindMem", n: 1, rank: 1, code: 802, exits: []int{0}},
		{stage: "bind, never returns", call: "cuMulticastBindMem", n: 1, rank: 2, do: "hang", exits: []int{4}},
		{stage: "mid-kernel trap", call: "kernel", n: 1, rank: 1, do: "trap", exits: []int{2}},
		{stage: "any call", call: "cuModuleLoadData", n: 1, rank: 1, code: 999, exits: []int{2}},
		{stage: "any call", call: "cuMulticastUnbind", n: 1, rank: 1, code: 999, exits: []int{2}},
	}
}

// faultBound is the longest time that such a run may take: two modes whose bind is
// tried 10 times, a second apart, and every other wait once.
const faultBound = 2*10*time.Second + bootstrapTimeout + deviceTimeout + slack + 10*time.Second

func (f *driverFault) judge() {
	o := f.outcome
	bad := func(format string, args ...any) { f.problems = append(f.problems, fmt.Sprintf(format, args...)) }
	if o.stuck || o.took > faultBound {
		bad("it took %v", o.took)
	}
	if len(o.left) > 0 {
		bad("processes %v were left", o.left)
	}
	if len(o.stray) > 0 {
		bad("files %v were left", o.stray)
	}
	if strings.Contains(o.said, "panic:") || strings.Contains(o.said, "fatal error:") {
		bad("it panicked")
	}
	if !slices.Contains(f.exits, o.exit) {
		bad("exit code %d, want one of %v", o.exit, f.exits)
	}
	if !strings.Contains(o.said, "sim.faults has "+f.text()) && o.run != nil {
		bad("it does not say that a fault was injected")
	}
	said := map[string]bool{}
	for _, m := range exitCodes.FindAllStringSubmatch(o.said, -1) {
		said[m[2]] = true
	}
	if len(said) > 1 {
		bad("ranks say different exit codes: %v", said)
	}
	if o.exit == 0 {
		if o.run == nil || o.run.Status.State != result.Complete {
			bad("exit code 0 without a complete result")
			return
		}
		if f.fallback == "allow" && !slices.ContainsFunc(o.run.Decisions, func(d result.Decision) bool { return d.Chosen == "ring" && f.names(d.Reason) }) {
			bad("no decision names the call, the code and the rank: %+v", o.run.Decisions)
		}
		return
	}
	if !slices.ContainsFunc(strings.Split(o.said, "\n"), f.names) {
		bad("no line names rank, stage and cause")
	}
}

// names says whether a text names the rank, the call and its code; a call that
// does not return has its rank and the stage only.
func (f *driverFault) names(text string) bool {
	has := func(s string) bool { return strings.Contains(text, s) }
	rank := has(fmt.Sprintf("rank %d", f.rank))
	switch {
	case f.do == "hang":
		return rank && (has("did not answer") || has("did not return"))
	case f.do == "trap":
		return rank && has("719") && has(`stage "`)
	}
	return rank && (has(f.call) || f.code == 802) && has(fmt.Sprint(f.code))
}

// TestDriver injects failures of the driver by sim.faults into the program that
// users have.
func TestDriver(t *testing.T) {
	faults := sampleFaults()
	if everything() {
		faults = driverFaults(t)
		if only := os.Getenv("NVLS_ALLREDUCE_SOAK_ONLY"); only != "" {
			faults = slices.DeleteFunc(faults, func(f *driverFault) bool { return !regexp.MustCompile(only).MatchString(f.stage + " " + f.text()) })
		}
	}
	each(len(faults), width(), func(i int) {
		f := faults[i]
		f.outcome = job{launcher: local, program: program, fallback: f.fallback, faults: []string{f.text()}}.run(t)
		f.judge()
		if len(f.problems) > 0 {
			t.Errorf("%s: %s, fallback %s: exit %d after %v: %s\n%s", f.stage, f.text(), f.fallback, f.outcome.exit, f.outcome.took, strings.Join(f.problems, "; "), shorten(f.outcome.said))
		}
	})
	ends := map[string]int{}
	for _, f := range faults {
		ends[fmt.Sprintf("%s, code %d%s: exit %d", f.stage, f.code, f.do, f.outcome.exit)]++
	}
	t.Logf("%d runs: %v", len(faults), ends)
	if everything() {
		driverTable = faults
	}
}

//go:build linux

package endtoend

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// wrongData is the message of exit code 7, and wrongRow what stands below the
// row in the table: mode, rank, element, expected and found.
var (
	wrongData = `wrong data: %s sum of float, \d+ bytes, (?:out-of|in)-place: \d+ wrong elements: first at rank \d+, element \d+: expected 0x[0-9a-f]{8} \(\S+\), got (?:0x[0-9a-f]{8}|overwritten) \(.+?\)`
	wrongRow  = regexp.MustCompile(`(?m)^# WRONG (?:out-of|in)-place: first at rank \d+, element \d+: expected 0x[0-9a-f]{8} \(\S+\), got (?:0x[0-9a-f]{8}|overwritten) \(.+?\)$`)
)

// found checks that verification found the fault, in every form.
func (o outcome) found(t *testing.T, mode string) {
	t.Helper()
	o.want(t, 7, "# Out of bounds values : ", "FAILED")
	if !regexp.MustCompile(fmt.Sprintf(wrongData, mode)).MatchString(o.stderr) {
		t.Errorf("no message of the form %s", fmt.Sprintf(wrongData, mode))
	}
	if !wrongRow.MatchString(o.stdout) {
		t.Errorf("no line of the form %s in the table", wrongRow)
	}
	if o.run == nil || o.run.Status.State != "failed" || o.run.Totals().FailedChecks == 0 {
		t.Errorf("the result does not say that data was wrong")
	}
}

// A single flipped element is named as it is: by every rank, at its index.
func TestFlippedElement(t *testing.T) {
	for _, mode := range modes("p2p", "auto") {
		t.Run(mode, func(t *testing.T) {
			o := job{launcher: local, np: 3, program: faulty, flags: "--mode " + mode + " -b 16004 -e 16004", config: oneTiming,
				env: []string{"NVLS_ALLREDUCE_FAULT=flip:1:3777"}}.run(t)
			o.found(t, mode)
			if o.run == nil {
				return
			}
			for _, r := range o.run.Rows {
				if r.Wrong == nil || *r.Wrong != 3 || r.FirstWrong == nil || r.FirstWrong.Rank != 0 || r.FirstWrong.Index != 3777 || r.FirstWrong.Got == r.FirstWrong.Expected {
					t.Errorf("%s: %v elements are wrong, first %+v; want 3 and element 3777 of rank 0", r.Placement, r.Wrong, r.FirstWrong)
				}
			}
		})
	}
}

// A rank whose contribution is lost makes every element wrong on every rank.
func TestDroppedContribution(t *testing.T) {
	for _, mode := range modes("p2p", "auto") {
		t.Run(mode, func(t *testing.T) {
			o := job{launcher: local, np: 4, program: faulty, flags: "--mode " + mode + " -b 4004 -e 4004", config: oneTiming,
				env: []string{"NVLS_ALLREDUCE_FAULT=drop:2"}}.run(t)
			o.found(t, mode)
			if o.run == nil {
				return
			}
			for _, r := range o.run.Rows {
				if r.Wrong == nil || *r.Wrong != 4*1001 {
					t.Errorf("%s: %v elements are wrong, want all", r.Placement, r.Wrong)
				}
			}
		})
	}
}

// A check that looks at nothing finds nothing wrong. It is not taken for a check.
func TestNothingChecked(t *testing.T) {
	o := job{launcher: local, np: 3, program: faulty, flags: "--mode ring -b 4K -e 4K", config: oneTiming,
		env: []string{"NVLS_ALLREDUCE_FAULT=nocheck:1"}}.run(t)
	o.want(t, 7)
	for _, words := range []string{
		"verification is incomplete: ring sum of float, 4096 bytes, out-of-place: 0 of 1024 elements were checked", "rank 1, verified call 0",
	} {
		if !strings.Contains(o.stderr, words) {
			t.Errorf("no %q on standard error:\n%s", words, o.stderr)
		}
	}
	if !strings.Contains(o.stdout, "# Out of bounds values : 0 INCOMPLETE\n") {
		t.Errorf("nothing was checked, and the table says:\n%s", o.stdout)
	}
	if o.run == nil || o.run.Status.State != "failed" || !strings.Contains(o.run.Status.Reason, "verification is incomplete") {
		t.Error("the result does not say that nothing was checked")
	}
}

// The exit code and the words are the same under MPI launchers.
func TestWrongDataUnderLaunchers(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		o := job{launcher: l, np: 3, program: faulty, flags: "--mode ring -b 4K -e 4K", config: oneTiming, env: []string{"NVLS_ALLREDUCE_FAULT=flip:2:7"}}.run(t)
		o.found(t, "ring")
	})
}

// Kernels that do not wait for each other give wrong data, whatever they wait
// for.
func TestNoBarrier(t *testing.T) {
	for _, mode := range modes("p2p", "auto") {
		t.Run(mode, func(t *testing.T) {
			o := job{launcher: local, np: 4, program: faulty, flags: "--mode " + mode + " -b 64K -e 64K", config: oneTiming,
				env: []string{"NVLS_ALLREDUCE_FAULT=nowait"}}.run(t)
			o.found(t, mode)
		})
	}
}

// A kernel that lacks the waits of one stage gives wrong data too. Stages are
// those of internal/kernels/src/control.cuh.
func TestOneBarrierRemoved(t *testing.T) {
	for _, tt := range []struct {
		mode  string
		stage int
		check int // verified calls
		what  string
	}{
		{"nvls-zero-copy", 1, 1, "the peers' start"},
		{"nvls-zero-copy", 2, 1, "the peers' end"},
		{"nvls-copy-in", 4, 1, "the peers' copies and results"},
		{"ring", 6, 1, "the previous rank's data"},
		{"p2p-one-shot", 1, 1, "the peers' start"},
		{"p2p-one-shot", 2, 20, "the peers' end"}, // only the next call's input shows it
		{"p2p-one-shot", 3, 1, "the peers' reading, in place"},
		{"p2p-two-shot", 1, 1, "the peers' start"},
		{"p2p-two-shot", 2, 1, "the peers' end"},
		{"p2p-push", 9, 1, "the peers' inputs"},
		{"p2p-push", 10, 1, "the peers' results"},
		{"p2p-push-bulk", 9, 1, "the peers' inputs"},
		{"p2p-push-bulk", 10, 1, "the peers' results"},
		{"p2p-packet", 8, 1, "a peer's packet"},
		{"p2p-copy-in", 4, 1, "the peers' copies and results"},
		{"p2p-copy-engine", 11, 1, "the peers' copies into scratch memory"},
		{"p2p-copy-engine", 12, 1, "the peers' copies of results"},
	} {
		t.Run(tt.mode+" without waiting for "+tt.what, func(t *testing.T) {
			// A race: it needs a moment in which the ranks are apart.
			var o outcome
			for range 3 {
				o = job{launcher: local, np: 4, program: faulty, flags: fmt.Sprintf("--mode %s -b 128K -e 128K -c %d", tt.mode, tt.check), config: oneTiming,
					env: []string{fmt.Sprintf("NVLS_ALLREDUCE_FAULT=nowait:%d", tt.stage)}}.run(t)
				if o.exit == 7 {
					break
				}
			}
			o.found(t, tt.mode)
		})
	}
}

// The binary that users build has no faults to inject.
func TestNoFaultInProduct(t *testing.T) {
	o := job{launcher: local, np: 3, flags: "--mode ring -b 4K -e 4K", config: oneTiming, env: []string{"NVLS_ALLREDUCE_FAULT=drop:1"}}.run(t)
	o.want(t, 0, "# Out of bounds values : 0 OK")
}

//go:build linux

package doctor

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// Ranks with different flags are not examined together.
func TestDifferentConfigurations(t *testing.T) {
	t.Parallel()
	prefix := append(mpich(t, "2"), "sh", "-c", `exec "$0" "$@" timing.iters=$((PMI_RANK+5))`)
	r, code, _ := program{args: []string{"run.device=sim"}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "asked.alike"), Failed, No, "ranks 0 and 1 have different configurations", "timing.iters")
	if code != int(failure.Usage) {
		t.Errorf("exit code %d", code)
	}
}

// A file of the results that cannot be written ends a run before it begins.
func TestOutputs(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim", "run.mode=ring", "output.json=/proc/nvls.json"}}.run(t)
	want(t, find(t, r.Findings, "asked.outputs"), Failed, No, "/proc/nvls.json")
	if v := verdictOf(t, r, configs.ModeRing); v.Because[0] != "asked.outputs" || code != int(failure.Usage) {
		t.Errorf("exit code %d, %+v", code, v)
	}
	dir := t.TempDir()
	r, code, _ = program{args: []string{"run.device=sim", "run.mode=ring", "output.json=" + dir + "/nvls.json"}}.run(t)
	if code != 0 {
		t.Errorf("exit code %d: %s", code, r.Verdict.Text)
	}
}

// More ranks than a group can have: the reason is in the verdict.
func TestTooManyRanks(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, prefix: openMPI(t, "9")}.run(t)
	want(t, find(t, r.Findings, "asked.ranks"), Failed, No, "9 ranks on one node, at most 8", "start at most 8 ranks")
	want(t, find(t, r.Findings, "peers"), Skipped, Unknown, "asked.ranks")
	if code != int(failure.Unavailable) || !strings.Contains(r.Verdict.Text, "at most 8") {
		t.Errorf("exit code %d: %s", code, r.Verdict.Text)
	}
}

func TestTuningFits(t *testing.T) {
	f := &tuning.File{Ranks: 8, Device: "NVIDIA H200"}
	want(t, fits(f, 8, "NVIDIA H200"), OK, Yes, "8 ranks on NVIDIA H200")
	other := fits(f, 4, "NVIDIA H200")
	want(t, other, Failed, No, "it is for 8 ranks", "this run has 4 ranks")
	if other.Exit != failure.Usage {
		t.Errorf("exit code %d", other.Exit)
	}
}

// Types, operations and sizes, from the configuration to findings.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name          string
		modes         []string
		types, ops    []string
		fallback      string
		most          configs.Size
		id            string
		sev           Severity
		outcome       Outcome
		cost, partly  string
		words         []string
		ranks, others int // others are further findings
	}{
		{"all can", nvlsModes, []string{"float"}, []string{"sum", "avg"}, "never", 1 << 20, "asked.operation", OK, Yes, "", "", []string{"datatype float, op sum,avg"}, 4, 0},
		{"product", allModes, []string{"float"}, []string{"prod"}, "never", 1 << 20, "asked.operation", Failed, No, "nvls-zero-copy nvls-copy-in", "", []string{"cannot multiply"}, 4, 0},
		{"in part", allModes, []string{"int8", "half"}, []string{"sum"}, "never", 1 << 20, "asked.operation", Failed, No, "", "nvls-zero-copy nvls-copy-in", []string{"8-bit"}, 4, 0},
		{"replaced", allModes, []string{"float"}, []string{"prod"}, "allow", 1 << 20, "asked.operation", Info, No, "", "", []string{"ring takes its place", "cannot multiply"}, 4, 0},
		{"many", nvlsModes, []string{"all"}, []string{"prod"}, "never", 1 << 20, "asked.operation", Failed, No, "nvls-zero-copy nvls-copy-in", "", []string{"more"}, 4, 0},
		{"packets", []string{"p2p-packet"}, []string{"float"}, []string{"sum"}, "never", 1 << 20, "asked.size", Failed, No, "", "p2p-packet", []string{"at most", "to 1M", "--maxbytes"}, 8, 0},
		{"packets left out", []string{"p2p-packet"}, []string{"float"}, []string{"sum"}, "allow", 1 << 20, "asked.size", Info, No, "", "", []string{"left out"}, 8, 0},
		{"one rank", []string{"p2p-packet"}, []string{"float"}, []string{"sum"}, "never", 1 << 20, "asked.operation", OK, Yes, "", "", nil, 1, 0},
		{"NCCL", []string{"nccl"}, []string{"float"}, []string{"avg"}, "never", 1 << 20, "asked.operation", Failed, No, "nccl", "", []string{"on 3 ranks"}, 3, 0},
		{"both", []string{"p2p-packet", "nvls-copy-in"}, []string{"float"}, []string{"prod"}, "never", 1 << 20, "asked.size", Failed, No, "", "p2p-packet", nil, 8, 1},
	} {
		cfg := configs.Default()
		cfg.Run.DataType, cfg.Run.Op, cfg.Run.Fallback = tt.types, tt.ops, tt.fallback
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 1<<10, tt.most
		f := refusals(cfg, tt.modes, tt.ranks)
		got := find(t, f, tt.id)
		if len(f) != 1+tt.others || strings.Join(got.Cost, " ") != tt.cost || strings.Join(got.Partly, " ") != tt.partly {
			t.Errorf("%s: %+v", tt.name, f)
		}
		want(t, got, tt.sev, tt.outcome, tt.words...)
	}
}

// A long wait for the other ranks is told, so that a doctor that waits is not taken
// for one that hangs.
func TestWaitIsTold(t *testing.T) {
	before := patience
	patience = 50 * 1e6
	defer func() { patience = before }()
	cfg := configs.Default()
	cfg.Bootstrap.Timeout = 250 * 1e6
	environ := []string{mpiboot.EnvRank + "=0", mpiboot.EnvSize + "=2", fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, mpiboot.NewUniqueID())}
	var out, errs bytes.Buffer
	code := Main(t.Context(), Options{Config: cfg, System: Host(environ), Stdout: &out, Stderr: &errs})
	if !strings.Contains(errs.String(), "has not met the other ranks after 50ms, and waits at most 2s") || !strings.Contains(out.String(), "failed   ranks:") {
		t.Errorf("%s\n%s", &errs, &out)
	}
	if code != failure.Timeout { // as a run
		t.Errorf("exit code %d", code)
	}
}

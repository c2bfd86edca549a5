package result_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

var regen = flag.Bool("regen", false, "write the golden files of testdata anew")

func ptr[T any](x T) *T { return &x }

// sample is a run of four software devices with every kind of row: checked and
// not, right and wrong, with statistics and without, known algorithm and not.
func sample() *result.Run {
	r := &result.Run{
		Version: "v0.1.0",
		Status:  result.Status{State: result.Complete},
		Start:   time.Date(2026, 11, 29, 12, 0, 0, 0, time.FixedZone("", 3600)),
		End:     time.Date(2026, 11, 29, 12, 1, 30, 5e8, time.FixedZone("", 3600)),
		ID:      "00112233445566778899aabbccddeeff",
		Host:    "node1", Container: "apptainer", Launcher: "openmpi",
		MPI: "Open MPI v4.1.6", Driver: "software device",
		WorldSize: 4, Simulated: true,
		Config: map[string]string{"run.mode": "nvls-zero-copy,ring", "sweep.min_bytes": "1K"},
		Args:   []string{"nvls-allreduce", "--mode", "nvls-zero-copy,ring", "-b", "1K"},
		Env:    map[string]string{"SLURM_JOB_ID": "7"},
		Sweep:  result.Sweep{MinBytes: 1024, MaxBytes: 1 << 30, StepFactor: 1 << 10, Warmup: 5, Iters: 20, Check: 1, Cycles: 1},
		Modes:  []string{"nvls-zero-copy", "auto"},
		Decisions: []result.Decision{
			{Requested: "nvls-zero-copy", Chosen: "nvls-zero-copy", Reason: "every device can do it"},
			{SizeBytes: 1024, Requested: "auto", Chosen: "p2p", Reason: "fastest below 64 KiB"},
		},
		Memory: result.Memory{Buffers: 3 << 30, Staging: 32 << 20, Control: 2 << 20, Multicast: 2 << 30},
	}
	for i := range 4 {
		r.Devices = append(r.Devices, result.Device{
			Rank: i, LocalRank: i, Host: "node1", PID: 4100 + i, Ordinal: i,
			UUID: "GPU-00000000-0000-0000-0000-00000000000" + string(rune('0'+i)),
			Name: "Software H200", ComputeCapability: "9.0", SMs: 132, MemoryBytes: 1 << 37, Links: 18, LinkPeak: 450e9,
		})
	}
	row := func(mode, algorithm string, size uint64, place result.Placement, graph int, us float64) *result.Row {
		r.Rows = append(r.Rows, result.Row{
			Mode: mode, Algorithm: algorithm, Size: size, Count: size / 4, DataType: "float", Op: "sum",
			Placement: place, Graph: graph, Time: us, Wrong: ptr(uint64(0)),
		})
		x := &r.Rows[len(r.Rows)-1]
		x.Rate(r.WorldSize, r.LinkPeak())
		return x
	}
	x := row("nvls-zero-copy", "two-shot 4x512", 1024, result.OutOfPlace, 0, 6.25)
	x.Times = []float64{6, 5.5, 9, 6}
	x.Iterations = result.Summarize(x.Times)
	x.HostTime = ptr(2.125)
	row("nvls-zero-copy", "two-shot 4x512", 1024, result.InPlace, 0, 6.5)
	x = row("nvls-zero-copy", "two-shot 16x512", 1<<20, result.OutOfPlace, 0, 123456.75)
	x.Wrong = ptr(uint64(1234567))
	x.FirstWrong = &result.FirstWrong{Rank: 3, Index: 17,
		Expected: result.Element{Bits: "0x3f800000", Value: "1"}, Got: result.Element{Bits: "0x7fc00000", Value: "NaN"}}
	row("nvls-zero-copy", "two-shot 16x512", 1<<20, result.InPlace, 0, 12345678.9)
	row("auto", "p2p packets 1x512", 1024, result.OutOfPlace, 10, 0.125).Wrong = nil
	row("auto", "p2p packets 1x512", 1024, result.InPlace, 10, 0.25).Wrong = nil
	row("nccl", "", 1<<30, result.InPlace, 0, 1e4)
	return r
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *regen {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got); -regen writes it anew:\n%s", name, d)
	}
}

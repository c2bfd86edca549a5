package result_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Figures that others measured, with the bandwidths that nccl-tests printed for
// them: 8 GPUs, f32.
func TestBandwidthOfPublishedFigures(t *testing.T) {
	for _, c := range []struct {
		size        uint64
		time, busBW float64
	}{
		{268435456, 1141.1, 411.66},
		{1073741824, 4183.2, 449.19},
		{2147483648, 8041.4, 467.34},
		{1073741824, 5105.9, 368.01},
		{536870912, 3401.8, 276.19},
	} {
		got := result.BusBW(result.AlgBW(c.size, c.time), 8)
		if math.Abs(got-c.busBW)/c.busBW > 1e-4 {
			t.Errorf("%d bytes in %g us: busbw %g, printed was %g", c.size, c.time, got, c.busBW)
		}
	}
}

func TestLinkFactor(t *testing.T) {
	for _, c := range []struct {
		mode, algorithm string
		n               int
		want            float64 // -1: not known
	}{
		{"nvls-zero-copy", "two-shot 16x512", 8, 9.0 / 8},
		{"nvls-copy-in", "two-shot 16x512", 4, 5.0 / 4},
		{"nvls-zero-copy", "", 8, 9.0 / 8},
		{"nvls-zero-copy", "one-shot 1x512", 8, 8},
		{"nvls-copy-in", "packets 1x512", 8, 16},
		{"ring", "", 8, 14.0 / 8},
		{"ring", "16x512", 4, 1.5},
		{"p2p", "two-shot 132x512", 8, 14.0 / 8},
		{"p2p-push-bulk", "push-bulk 132x512", 8, 14.0 / 8},
		{"p2p-push-bulk", "plain-push 108x512", 8, 14.0 / 8},
		{"p2p", "one-shot 8x512", 8, 7},
		{"p2p", "packets 1x512", 8, 14},
		{"p2p", "packet 1x512", 2, 2},
		{"p2p", "", 8, -1},
		{"p2p-copy-engine", "copy-engine 32x512 chunk=8M slots=4", 4, 1.5},
		{"auto", "p2p-copy-engine copy-engine 32x512 chunk=8M slots=4", 2, 1},
		{"auto", "ring 16x512", 4, 1.5},
		{"auto", "one-shot 16x512", 4, 3},
		{"auto", "p2p two-shot 16x512", 4, 1.5},
		{"auto", "nvls-copy-in two-shot 16x512", 4, 1.25},
		{"auto", "", 4, -1},
		{"nccl", "", 8, -1},
		{"nccl", "Tree LL", 8, -1},
		{"nccl", "Ring Simple", 8, 1.75},
		{"nccl", "NVLS Simple", 8, 9.0 / 8},
		{"nccl", "chosen by NCCL", 8, -1},
		{"nccl", "ring ll", 2, 2},
		{"nccl", "ring ll128", 2, 128.0 / 120},
		{"nccl", "ring ll", 1, 0},
		{"nccl-symmetric", "ring simple", 4, 1.5},
		{"nccl-symmetric", "symmetric AllReduce_RSxLD_AGxST", 4, 1.5},
		{"nccl-symmetric", "symmetric AllReduce_AGxLL_R", 4, 6},
		{"nccl-symmetric", "symmetric AllReduce_AGxLLMC_R", 4, 8},
		{"nccl-symmetric", "symmetric AllReduce_RSxLDMC_AGxSTMC", 4, 1.25},
		{"nccl-symmetric", "symmetric", 4, -1},
		{"other", "two-shot", 8, -1},
		{"nvls-zero-copy", "two-shot", 1, 0},
		{"p2p", "one-shot", 1, 0},
	} {
		got, ok := result.LinkFactor(c.mode, c.algorithm, c.n)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s %q on %d: %g, want %g", c.mode, c.algorithm, c.n, got, c.want)
		}
	}
}

func TestTitle(t *testing.T) {
	for want, requested := range map[string][]string{
		"ring":                         nil,
		"nvls-zero-copy (ran as ring)": {"nvls-zero-copy"},
		"a, b and ring (ran as ring)":  {"a", "b", "ring"},
		"ring and p2p-x (ran as ring)": {"ring", "p2p-x"},
	} {
		r := result.Row{Mode: "ring", Requested: requested}
		if got := r.Title(); got != want {
			t.Errorf("%q is called %q, want %q", requested, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1024).Draw(t, "ranks")
		peak := rapid.SampledFrom([]float64{0, 450e9}).Draw(t, "peak")
		r := result.Row{Mode: "ring", Size: rapid.Uint64Range(0, 1<<40).Draw(t, "size"), Time: rapid.Float64Range(1e-3, 1e9).Draw(t, "time")}
		r.Rate(n, peak)
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Fatalf("%s is %g, want %g", what, got, want)
			}
		}
		// µs and 10^9 bytes: one byte a microsecond is 0.001 GB/s.
		near("algbw", r.AlgBW*r.Time*1000, float64(r.Size))
		near("busbw", r.BusBW*float64(n), r.AlgBW*2*float64(n-1))
		near("link of a ring", *r.LinkBW, r.BusBW)
		if (peak == 0) != (r.LinkShare == nil) {
			t.Fatalf("share %v for peak %g", r.LinkShare, peak)
		}
		if peak != 0 {
			near("share", *r.LinkShare*peak, *r.LinkBW*1e9)
		}
		if n == 1 && (r.BusBW != 0 || *r.LinkBW != 0) {
			t.Fatal("one rank uses a bus")
		}
		r.Mode = "nccl"
		r.Rate(n, peak)
		if r.LinkBW != nil || r.LinkShare != nil {
			t.Fatal("link rate of an unknown algorithm")
		}
	})
	zero := result.Row{Mode: "ring", Size: 8}
	zero.Rate(2, 0)
	if zero.AlgBW != 0 || zero.BusBW != 0 {
		t.Error("no time gives a bandwidth")
	}
}

func TestStats(t *testing.T) {
	if result.Summarize(nil) != nil || !math.IsNaN(result.Percentile(nil, 50)) {
		t.Error("statistics of nothing")
	}
	// The textbook's example of nearest rank.
	v := []float64{15, 20, 35, 40, 50}
	for p, want := range map[float64]float64{0: 15, 5: 15, 30: 20, 40: 20, 50: 35, 99: 50, 100: 50} {
		if got := result.Percentile(v, p); got != want {
			t.Errorf("percentile %g is %g, want %g", p, got, want)
		}
	}
	// A median is not the 50th percentile: of an even number it is between two.
	for want, v := range map[float64][]float64{3: {3}, 2.5: {1, 2, 3, 9}, 4: {1, 4, 5}, math.MaxFloat64: {math.MaxFloat64, math.MaxFloat64}} {
		if s := result.Summarize(v); result.Median(v) != want || s.P50 != want {
			t.Errorf("the median of %v is %g, in statistics %g, want %g", v, result.Median(v), s.P50, want)
		}
	}
	if !math.IsNaN(result.Median(nil)) {
		t.Error("a median of nothing")
	}
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 200).Draw(t, "times")
		before := slices.Clone(times)
		s := result.Summarize(times)
		if !slices.Equal(before, times) {
			t.Fatal("the times were reordered")
		}
		order := []float64{s.Min, s.P50, s.P99, s.Max}
		if !slices.IsSorted(order) || s.Mean < s.Min || s.Mean > s.Max || s.N != len(times) {
			t.Fatalf("%+v", s)
		}
		for p, q := range map[float64]float64{50: result.Percentile(slices.Sorted(slices.Values(times)), 50), 99: s.P99} {
			below, less := 0, 0
			for _, x := range times {
				if x <= q {
					below++
				}
				if x < q {
					less++
				}
			}
			n := p / 100 * float64(len(times))
			if float64(below) < n || float64(less) >= n || !slices.Contains(times, q) {
				t.Fatalf("p%g is %g of %v", p, q, times)
			}
		}
	})
}

func TestTotals(t *testing.T) {
	got := sample().Totals()
	r := sample().Rows
	sum := 0.0
	for _, x := range r {
		sum += x.BusBW
	}
	want := result.Totals{
		AvgBusBW: sum / 7, Checked: 5, FailedChecks: 1, WrongElements: 1234567,
		Modes: []result.ModeTotal{
			{Mode: "nvls-zero-copy", Rows: 4, AvgBusBW: (r[0].BusBW + r[1].BusBW + r[2].BusBW + r[3].BusBW) / 4, MaxBusBW: r[0].BusBW},
			{Mode: "auto", Graph: 10, Rows: 2, AvgBusBW: (r[4].BusBW + r[5].BusBW) / 2, MaxBusBW: r[4].BusBW},
			{Mode: "nccl", Rows: 1, AvgBusBW: r[6].BusBW, MaxBusBW: r[6].BusBW},
		},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) })
	if d := cmp.Diff(want, got, near); d != "" {
		t.Error(d)
	}
	slowest := min(want.Modes[0].AvgBusBW, want.Modes[1].AvgBusBW, want.Modes[2].AvgBusBW)
	if (result.Totals{}).Meets(0) {
		t.Error("nothing meets a requirement")
	}
	if !got.Meets(slowest*0.99) || got.Meets(slowest*1.01) || got.AvgBusBW < slowest*1.01 {
		t.Error("the requirement holds for every mode, not for the average of all")
	}
}

func TestEnviron(t *testing.T) {
	got := result.Environ([]string{
		"SLURM_JOB_ID=7", "SLURM_JWT=secret", "OMPI_COMM_WORLD_RANK=1", "OMPI_MCA_x=1", "NCCL_ALGO=NVLS=1", "NCCL_EMPTY=",
		"NVLS_ALLREDUCE_MULTICAST=off", "CUDA_VISIBLE_DEVICES=0,1", "APPTAINER_NAME=a.sif", "SINGULARITY_NAME=a.sif",
		"AWS_SECRET_ACCESS_KEY=x", "HOME=/root", "PATH=/bin", "GITHUB_TOKEN=x", "SLURM_CRED_X=x", "NCCL_API_key=x",
		"XSLURM_JOB_ID=1", "CUDA_VISIBLE_DEVICES_X=1", "=odd", "novalue",
	})
	want := map[string]string{
		"SLURM_JOB_ID": "7", "OMPI_COMM_WORLD_RANK": "1", "NCCL_ALGO": "NVLS=1", "NCCL_EMPTY": "",
		"NVLS_ALLREDUCE_MULTICAST": "off", "CUDA_VISIBLE_DEVICES": "0,1", "APPTAINER_NAME": "a.sif", "SINGULARITY_NAME": "a.sif",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDeviceNameAndPeak(t *testing.T) {
	r := sample()
	if r.DeviceName() != "Software H200" || r.LinkPeak() != 450e9 {
		t.Errorf("%q, %g", r.DeviceName(), r.LinkPeak())
	}
	r.Devices[2].Name, r.Devices[2].LinkPeak = "Other", 300e9
	if r.DeviceName() != "Software H200 + Other" || r.LinkPeak() != 300e9 {
		t.Errorf("%q, %g", r.DeviceName(), r.LinkPeak())
	}
	r.Devices[3].LinkPeak = 0
	if r.LinkPeak() != 0 {
		t.Error("a peak where one GPU's is unknown")
	}
	if (&result.Run{}).LinkPeak() != 0 {
		t.Error("a peak without devices")
	}
}

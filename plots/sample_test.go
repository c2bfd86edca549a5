package plots_test

import (
	"fmt"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// newRun is a run of n GPUs without rows.
func newRun(n int, gpu string) *result.Run {
	r := &result.Run{
		Version: "v0.1.0", Status: result.Status{State: result.Complete},
		Start: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), ID: "00112233445566778899aabbccddeeff",
		Driver: "CUDA 13.0, driver 580.159.04", MPI: "Open MPI v4.1.6 (/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.6)", WorldSize: n,
	}
	for i := range n {
		r.Devices = append(r.Devices, result.Device{Rank: i, Name: gpu, UUID: fmt.Sprintf("GPU-%d", i), LinkPeak: 450e9})
	}
	return r
}

// measure adds a row as it would be measured in this time.
func measure(r *result.Run, mode, algorithm string, size uint64, place result.Placement, us float64) *result.Row {
	r.Rows = append(r.Rows, result.Row{Mode: mode, Algorithm: algorithm, Size: size, Count: size / 4,
		DataType: "float", Op: "sum", Placement: place, Time: us})
	row := &r.Rows[len(r.Rows)-1]
	row.Rate(r.WorldSize, r.LinkPeak())
	return row
}

// published holds times in µs that users of nccl-tests 8 × H100 published, f32
// sum, out-of-place, from 256 MiB up.
func published() *result.Run {
	r := newRun(8, "NVIDIA H100 80GB HBM3")
	for _, c := range []struct {
		mode, algorithm string
		times           []float64
	}{
		{"NCCL 2.19 NVLS", "NVLS", []float64{1141.1, 2195.5, 4183.2, 8041.4}},
		{"NCCL ring", "Ring", []float64{1305.7, 2573.4, 5105.9, 10194}},
		{"NCCL tree", "Tree", []float64{2076.5, 3401.8, 6746.8, 13071}},
		{"NVLS, as the maintainers measured it", "NVLS", []float64{1017.9, 1987.8, 3930.7}},
	} {
		for i, us := range c.times {
			measure(r, c.mode, c.algorithm, 256<<20<<i, result.OutOfPlace, us)
		}
	}
	return r
}

// spread gives every row of r statistics of iterations: wider for small messages,
// as launches jitter more than links.
func spread(r *result.Run) *result.Run {
	for i := range r.Rows {
		row := &r.Rows[i]
		var times []float64
		for k := range 100 {
			jitter := float64(k*k%97) / 97
			times = append(times, row.Time*(0.97+0.05*jitter)+0.8*jitter*jitter+float64(k/99)*3)
		}
		row.Iterations = result.Summarize(times)
	}
	return r
}

// model is a run with made-up times, start-up plus bytes over rate, for charts
// of any shape. Every factor-th size from lo to hi, in-place 2 % slower.
func model(n int, lo, hi, factor uint64, modes ...string) *result.Run {
	startUp := map[string]float64{"nvls-zero-copy": 4.5, "nvls-copy-in": 5, "ring": 9, "p2p": 3.6, "nccl": 7, "auto": 3.5}
	algBW := map[string]float64{"nvls-zero-copy": 275, "nvls-copy-in": 255, "ring": 205, "p2p": 195, "nccl": 270, "auto": 276}
	r := newRun(n, "NVIDIA H200")
	for _, m := range modes {
		for size := lo; size <= hi; size *= factor {
			us := startUp[m] + float64(size)/algBW[m]/1e3
			measure(r, m, algorithmOf[m], size, result.OutOfPlace, us)
			measure(r, m, algorithmOf[m], size, result.InPlace, us*1.02)
		}
	}
	return r
}

var algorithmOf = map[string]string{"p2p": "two-shot 16x512", "auto": "nvls-zero-copy two-shot 16x512"}

var allModes = []string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p", "nccl", "auto"}

func simulated(r *result.Run) *result.Run {
	r.Simulated, r.Driver = true, "software device"
	for i := range r.Devices {
		r.Devices[i].Name, r.Devices[i].LinkPeak = "Software H200", 0
	}
	return r
}

func shared(r *result.Run) *result.Run {
	r.SharedGPU = true
	for i := range r.Devices {
		r.Devices[i].UUID = "GPU-0"
	}
	return r
}

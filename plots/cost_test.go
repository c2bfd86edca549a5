package plots_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// large is a result of 2,000 rows: 250 sizes in four modes and both placements,
// each with the times of 20 iterations.
func large() *result.Run {
	r := newRun(8, "NVIDIA H200")
	for _, mode := range []string{"nvls-zero-copy", "nvls-copy-in", "ring", "nccl"} {
		for i := range 250 {
			size := uint64(4<<20) * uint64(i+1)
			for _, place := range []result.Placement{result.OutOfPlace, result.InPlace} {
				row := measure(r, mode, "", size, place, 5+float64(size)/float64(200+len(mode))/1e3)
				for k := range 20 {
					row.Times = append(row.Times, row.Time*(1+float64(k)/100))
				}
				row.Iterations = result.Summarize(row.Times)
			}
		}
	}
	return r
}

// BenchmarkFile reads a result of 2,000 rows and draws it. The bound of the
// project is 1 s and 200 MB; cmd/nvls-allreduce has the test of it.
func BenchmarkFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "result.json")
	if err := result.WriteFile(path, large()); err != nil {
		b.Fatal(err)
	}
	for _, f := range []plots.Format{plots.PNG, plots.SVG, plots.PDF} {
		for _, kinds := range [][]plots.Kind{nil, {plots.BusBW, plots.Time, plots.SpeedUp, plots.Spread}} {
			b.Run(fmt.Sprintf("%s/%d", f, max(len(kinds), 2)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := result.ReadFile(path)
					if err != nil {
						b.Fatal(err)
					}
					if err := plots.WriteFile(filepath.Join(b.TempDir(), "chart."+string(f)), []*result.Run{r}, plots.Options{Kinds: kinds}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

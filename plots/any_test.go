package plots_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// Any valid result makes a well-formed chart, or an error of the user's: no
// number of a file makes an axis without an end.
func TestAnyResult(t *testing.T) {
	wild := rapid.SampledFrom([]float64{0, math.SmallestNonzeroFloat64, 1e-300, 1e-6, 0.5, 1, 7, 42.5, 1e3, 1e15, 1e16, 1e300, math.MaxFloat64})
	signed := rapid.Custom(func(t *rapid.T) float64 {
		return wild.Draw(t, "magnitude") * rapid.SampledFrom([]float64{1, 1, 1, -1}).Draw(t, "sign")
	})
	row := rapid.Custom(func(t *rapid.T) result.Row {
		r := result.Row{
			Mode:     rapid.SampledFrom([]string{"ring", "nccl", "a"}).Draw(t, "mode"),
			Size:     rapid.SampledFrom([]uint64{0, 1, 3, 1 << 20, 1 << 63, math.MaxUint64}).Draw(t, "size"),
			DataType: "float", Op: "sum", Placement: rapid.SampledFrom([]result.Placement{result.OutOfPlace, result.InPlace}).Draw(t, "placement"),
			Time: wild.Draw(t, "time"), BusBW: wild.Draw(t, "busbw"), LinkShare: rapid.Ptr(signed, true).Draw(t, "share"),
		}
		if rapid.Bool().Draw(t, "iterations") {
			r.Iterations = &result.Stats{Min: signed.Draw(t, "min"), P50: signed.Draw(t, "p50"), P99: signed.Draw(t, "p99")}
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(2, "GPU")
		r.Rows = rapid.SliceOfN(row, 1, 6).Draw(t, "rows")
		r.LinkLimit = wild.Draw(t, "limit")
		for i := range r.Devices {
			r.Devices[i].LinkPeak = wild.Draw(t, "peak")
		}
		if err := r.Validate(); err != nil {
			t.Skip(err)
		}
		// What a chart must have is available; the others may be refused.
		available := plots.Available([]*result.Run{r})
		for _, kinds := range [][]plots.Kind{available, plots.Kinds()} {
			var b bytes.Buffer
			err := plots.Render(&b, plots.SVG, []*result.Run{r, r}, plots.Options{Kinds: kinds})
			if err != nil {
				if failure.CodeOf(err) != failure.Usage || len(kinds) > 0 && len(kinds) == len(available) && len(available) < len(plots.Kinds()) {
					t.Fatalf("%v: %v", kinds, err)
				}
				continue
			}
			for d := xml.NewDecoder(&b); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

package plots

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

func words(ticks []plot.Tick) []string {
	var out []string
	for _, t := range ticks {
		if t.Label != "" {
			out = append(out, t.Label)
		}
	}
	return out
}

func TestSizeTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []string
	}{
		{1 << 10, 1 << 30, []string{"1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M", "1G"}},
		{8, 8 << 30, []string{"16", "64", "256", "1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M", "1G", "4G"}},
		{1 << 20, 2 << 20, []string{"1M", "2M"}},
		{3000, 5000, []string{"2K", "4K", "8K"}},
		{1 << 20, 1 << 20, []string{"512K", "1M", "2M"}},
		{1, 1, []string{"2^-1", "1", "2"}},
		{1, 1 << 40, []string{"1", "32", "1K", "32K", "1M", "32M", "1G", "32G", "1T"}},
	} {
		lo, hi := sizeRange(c.lo, c.hi)
		if d := cmp.Diff(c.want, words(sizeTicks{}.Ticks(lo, hi))); d != "" {
			t.Errorf("%g to %g: %s", c.lo, c.hi, d)
		}
	}
}

// Whatever is measured, labels do not touch, the data is inside the axis, and
// there are at least two labels to read it by.
func TestTicksFit(t *testing.T) {
	sty := textStyle(10, color.Black, text.XCenter, text.YCenter)
	check := func(t *rapid.T, name string, m plot.Ticker, norm plot.Normalizer, lo, hi, first, last float64, extent vg.Length, size func(string) vg.Length) {
		if lo > first || hi < last || !(lo < hi) {
			t.Fatalf("%s: axis %g to %g for data %g to %g", name, lo, hi, first, last)
		}
		ticks := m.Ticks(lo, hi)
		end, n := vg.Length(math.Inf(-1)), 0
		if !slices.IsSortedFunc(ticks, func(a, b plot.Tick) int { return int(math.Copysign(1, a.Value-b.Value)) }) {
			t.Fatalf("%s: ticks out of order", name)
		}
		for _, k := range ticks {
			if k.Label == "" {
				continue
			}
			n++
			at, half := vg.Length(norm.Normalize(lo, hi, k.Value))*extent, size(k.Label)/2
			if at-half < end+2 {
				t.Fatalf("%s, %g to %g: %q touches the label before it: %q", name, lo, hi, k.Label, words(ticks))
			}
			end = at + half
		}
		if n < 2 || n > 25 {
			t.Fatalf("%s: %d labels for %g to %g", name, n, lo, hi)
		}
	}
	// The smallest data area that a chart has, in points.
	const wide, high = 520, 170
	width := func(s string) vg.Length { return sty.Width(s) }
	height := func(s string) vg.Length { return sty.Height(s) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(0, 43).Draw(t, "log2 size"), rapid.Float64Range(0, 43).Draw(t, "log2 other size")
		first, last := math.Round(math.Exp2(min(a, b))), math.Round(math.Exp2(max(a, b)))
		lo, hi := sizeRange(first, last)
		check(t, "size", sizeTicks{}, plot.LogScale{}, lo, hi, first, last, wide, width)

		a, b = rapid.Float64Range(-2, 8).Draw(t, "log10 time"), rapid.Float64Range(-2, 8).Draw(t, "log10 other time")
		first, last = math.Pow(10, min(a, b)), math.Pow(10, max(a, b))
		lo, hi = timeRange(first, last)
		check(t, "time", timeTicks{}, plot.LogScale{}, lo, hi, first, last, high, height)

		top := math.Pow(10, rapid.Float64Range(-6, 5).Draw(t, "log10 rate"))
		check(t, "rate", rateTicks{}, plot.LinearScale{}, 0, top*1.05, 0, top, high, height)
	})
}

func TestTimeLabel(t *testing.T) {
	for us, want := range map[float64]string{0.05: "50 ns", 0.1: "0.1 µs", 5: "5 µs", 999: "999 µs", 1000: "1 ms", 2e5: "200 ms", 1e6: "1 s", 5e7: "50 s"} {
		if got := timeLabel(us); got != want {
			t.Errorf("%g µs is %q, want %q", us, got, want)
		}
	}
}

// Of a size measured several times, the median stands for all.
func TestPointsOfRepeatedSweep(t *testing.T) {
	var rows []result.Row
	for _, m := range []struct {
		size uint64
		us   float64
	}{{8, 3}, {16, 5}, {8, 1}, {8, 2}} {
		rows = append(rows, result.Row{Size: m.size, Time: m.us})
	}
	var got []string
	for _, p := range points(rows) {
		got = append(got, fmt.Sprintf("%g:%g", p.size, p.time))
	}
	if d := cmp.Diff([]string{"8:2", "16:5"}, got); d != "" {
		t.Error(d)
	}
}

// No two of the first 35 lines look the same, and modes keep their look.
func TestStyles(t *testing.T) {
	seen := make(map[string]int)
	for i := range 35 {
		s := styleOf(i)
		look := fmt.Sprintf("%v %T %v", s.line.Color, s.glyph.Shape, s.line.Dashes)
		if j, twice := seen[look]; twice {
			t.Errorf("lines %d and %d look the same", i, j)
		}
		seen[look] = i
	}
	lone := styles([]series{{key: key{mode: "ring"}}})[0]
	many := styles([]series{{key: key{mode: "x"}}, {key: key{mode: "ring", graph: 1}}, {key: key{mode: "nvls-zero-copy"}}, {key: key{mode: "ring"}}})
	if many[1].line.Color != lone.line.Color {
		t.Error("ring changed its colour")
	}
	for i := range many {
		for j := range i {
			if many[i].line.Color == many[j].line.Color {
				t.Errorf("lines %d and %d have one colour", i, j)
			}
		}
	}
}

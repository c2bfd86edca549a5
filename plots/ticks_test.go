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
		{1, 1 << 40, []string{"1", "16", "256", "4K", "64K", "1M", "16M", "256M", "4G", "64G", "1T"}},
	} {
		lo, hi := sizeRange(c.lo, c.hi)
		if d := cmp.Diff(c.want, words(sizeTicks{16}.Ticks(lo, hi))); d != "" {
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
		if n < 2 || n > 50 {
			t.Fatalf("%s: %d labels for %g to %g", name, n, lo, hi)
		}
	}
	width := func(s string) vg.Length { return sty.Width(s) }
	height := func(s string) vg.Length { return sty.Height(s) }
	rapid.Check(t, func(t *rapid.T) {
		// The data area, in points, of a chart with text of 10 points, and the ticks
		// that chart.ticks gives it.
		wide, high := vg.Length(rapid.IntRange(180, 1500).Draw(t, "width")), vg.Length(rapid.IntRange(55, 600).Draw(t, "height"))
		across, up := max(2, int(wide/30)), max(2, int(high/17))

		a, b := rapid.Float64Range(0, 43).Draw(t, "log2 size"), rapid.Float64Range(0, 43).Draw(t, "log2 other size")
		first, last := math.Round(math.Exp2(min(a, b))), math.Round(math.Exp2(max(a, b)))
		lo, hi := sizeRange(first, last)
		check(t, "size", sizeTicks{across}, plot.LogScale{}, lo, hi, first, last, wide, width)

		a, b = rapid.Float64Range(-2, 8).Draw(t, "log10 time"), rapid.Float64Range(-2, 8).Draw(t, "log10 other time")
		first, last = math.Pow(10, min(a, b)), math.Pow(10, max(a, b))
		lo, hi = timeRange(first, last)
		check(t, "time", timeTicks{up}, plot.LogScale{}, lo, hi, first, last, high, height)

		top := math.Pow(10, rapid.Float64Range(-6, 5).Draw(t, "log10 rate"))
		check(t, "rate", linearTicks{min(up, 11)}, plot.LinearScale{}, 0, top*1.05, 0, top, high, height)

		// Where the user chose the range there need not be a round number in it.
		lo, hi = top, top*rapid.Float64Range(1.01, 3).Draw(t, "factor")
		if n := len(words(linearTicks{min(up, 11)}.Ticks(lo, hi))); n > up+1 {
			t.Fatalf("%d labels for %g to %g, room for %d", n, lo, hi, up)
		}
		if n := len(words(timeTicks{up}.Ticks(lo, hi))); n > up+1 {
			t.Fatalf("%d labels for %g to %g, room for %d", n, lo, hi, up)
		}
	})
}

func TestTimeLabel(t *testing.T) {
	for us, want := range map[float64]string{0.05: "50 ns", 0.1: "0.1 µs", 5: "5 µs", 999: "999 µs", 1000: "1 ms", 2e5: "200 ms", 1e6: "1 s", 5e7: "50 s"} {
		if got := timeLabel(us); got != want {
			t.Errorf("%g µs is %q, want %q", us, got, want)
		}
	}
}

func TestBytesLabel(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1: "1", 1000: "1000", 1024: "1K", 3 << 19: "1536K", 1 << 30: "1G", 1 << 63: "8E"} {
		if got := bytesLabel(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// Of a size measured several times, the median stands for all: of an even number
// the mean of the two middle ones, with the bandwidth of that time.
func TestPointsOfRepeatedSweep(t *testing.T) {
	var rows []result.Row
	for _, m := range []struct {
		size uint64
		us   float64
	}{{8, 3}, {16, 5}, {8, 1}, {8, 2}, {32, 1}, {32, 7}, {32, 4}, {32, 6}} {
		share := 1 / m.us
		rows = append(rows, result.Row{Size: m.size, Time: m.us, BusBW: 10 / m.us, LinkShare: &share, Iterations: &result.Stats{Min: m.us - 0.5, P50: m.us, P99: m.us + 0.5}})
	}
	var got []string
	drawn, repeated := points(rows)
	if !slices.Equal(repeated, []uint64{8, 32}) {
		t.Errorf("sizes repeated: %d", repeated)
	}
	for _, p := range drawn {
		got = append(got, fmt.Sprintf("%g:%g %g %g %v", p.size, p.time, p.busBW, *p.share, *p.spread))
	}
	if d := cmp.Diff([]string{"8:2 5 0.5 {1.5 2 2.5}", "16:5 2 0.2 {4.5 5 5.5}", "32:5 2 0.2 {3.5 5 6.5}"}, got); d != "" {
		t.Error(d)
	}
}

// No two of the first 35 lines look the same, not even in grey, and modes keep
// their look.
func TestStyles(t *testing.T) {
	for name, th := range themes {
		seen := make(map[string]int)
		for i := range 35 {
			s := th.styleOf(i, 10)
			look := fmt.Sprintf("%#v %v", s.marker, s.line.Dashes)
			if j, twice := seen[look]; twice {
				t.Errorf("%s: lines %d and %d look the same in grey", name, i, j)
			}
			seen[look] = i
		}
	}
	lone := looks([]series{{key: key{mode: "ring"}}})[0]
	many := looks([]series{{key: key{mode: "x"}}, {key: key{mode: "ring", graph: 1}}, {key: key{mode: "nvls-zero-copy"}}, {key: key{mode: "ring"}}})
	if many[1] != lone {
		t.Error("ring changed its look")
	}
	for i := range many {
		for j := range i {
			if many[i] == many[j] {
				t.Errorf("lines %d and %d have one look", i, j)
			}
		}
	}
}

// Everything on a chart has enough contrast with its background: 3 to 1 for lines
// (WCAG 2.1, 1.4.11), 4.5 to 1 for text (1.4.3); and the print theme has no colour.
func TestContrast(t *testing.T) {
	luminance := func(c color.NRGBA) float64 {
		linear := func(v uint8) float64 {
			x := float64(v) / 255
			if x <= 0.04045 {
				return x / 12.92
			}
			return math.Pow((x+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
	}
	contrast := func(a, b color.NRGBA) float64 {
		x, y := luminance(a), luminance(b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	for name, th := range themes {
		for _, c := range []color.NRGBA{th.text, th.faint, th.warning} {
			if r := contrast(c, th.back); r < 4.5 {
				t.Errorf("%s: text %v has a contrast of %.1f", name, c, r)
			}
		}
		for i, c := range th.palette {
			// Okabe and Ito's orange, purple and sky blue are lighter on white; dash and
			// marker help there.
			if r := contrast(c, th.back); r < 2.1 || name != Light && r < 3 {
				t.Errorf("%s: colour %d has a contrast of %.1f", name, i, r)
			}
			if name == Print && (c.R != c.G || c.G != c.B) {
				t.Errorf("print: colour %d is no grey", i)
			}
		}
	}
}

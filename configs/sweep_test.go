package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sweep Sweep
		elem  int
		want  []uint64
	}{
		{"factor", Sweep{MinBytes: 8, MaxBytes: 64, Factor: 2}, 4, []uint64{8, 16, 32, 64}},
		{"factor misses the end", Sweep{MinBytes: 8, MaxBytes: 100, Factor: 3}, 4, []uint64{8, 24, 72}},
		{"step", Sweep{MinBytes: 8, MaxBytes: 20, StepBytes: 4, Factor: 1}, 4, []uint64{8, 12, 16, 20}},
		{"factor wins over step", Sweep{MinBytes: 8, MaxBytes: 32, StepBytes: 4, Factor: 2}, 4, []uint64{8, 16, 32}},
		{"one size", Sweep{MinBytes: 8 << 20, MaxBytes: 8 << 20, Factor: 1}, 4, []uint64{8 << 20}},
		{"rounded down, once each", Sweep{MinBytes: 4, MaxBytes: 11, StepBytes: 1, Factor: 1}, 4, []uint64{4, 8}},
		{"rounding does not change the steps", Sweep{MinBytes: 10, MaxBytes: 40, Factor: 2}, 8, []uint64{8, 16, 40}},
		{"less than an element", Sweep{MinBytes: 2, MaxBytes: 8, Factor: 2}, 4, []uint64{4, 8}},
		{"no element at all", Sweep{MinBytes: 1, MaxBytes: 3, Factor: 2}, 4, nil},
		{"from zero", Sweep{MinBytes: 0, MaxBytes: 16, Factor: 2}, 4, []uint64{0, 4, 8, 16}},
		{"from zero by steps", Sweep{MinBytes: 0, MaxBytes: 8, StepBytes: 2, Factor: 1}, 4, []uint64{0, 4, 8}},
		{"only zero", Sweep{Factor: 2}, 8, []uint64{0}},
		{"a fraction moves on", Sweep{MinBytes: 1, MaxBytes: 4, Factor: 1.1}, 1, []uint64{1, 2, 3, 4}},
		{"the largest", Sweep{MinBytes: MaxSize / 2, MaxBytes: MaxSize, Factor: 2}, 8, []uint64{1 << 39, 1 << 40}},
	} {
		c := &Config{Sweep: tt.sweep}
		if diff := cmp.Diff(tt.want, c.Sizes(tt.elem)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestSizesLaw checks what holds for every sweep: whole elements, growing,
// inside the bounds, each from a step as written, and nothing left out before
// the last size.
func TestSizesLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low, high := drawSize(t, "a"), drawSize(t, "b")
		if low > high {
			low, high = high, low
		}
		s := Sweep{MinBytes: low, MaxBytes: high, Factor: 1}
		if rapid.Bool().Draw(t, "by factor") {
			s.Factor = rapid.Float64Range(1.01, 64).Draw(t, "factor")
		} else {
			s.StepBytes = max((high-low)/Size(rapid.IntRange(1, 500).Draw(t, "rows")), 1)
		}
		elem := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "element")
		c := &Config{Sweep: s}
		sizes := c.Sizes(elem)

		unit := uint64(elem)
		if first := uint64(low) / unit * unit; (first > 0 || low == 0) && (len(sizes) == 0 || sizes[0] != first) {
			t.Fatalf("sweep %+v begins with %v, want %d", s, sizes, first)
		}
		for i, n := range sizes {
			if n%unit != 0 || n > uint64(high) || n+unit <= uint64(low) || (n == 0 && low != 0) {
				t.Fatalf("sweep %+v has size %d", s, n)
			}
			if i == 0 {
				continue
			}
			before := sizes[i-1]
			if n <= before {
				t.Fatalf("sweep %+v: %d after %d", s, n, before)
			}
			// The unrounded size before was less than an element larger.
			limit := float64(before+unit) * s.Factor
			if s.Factor <= 1 {
				limit = float64(before + unit + uint64(s.StepBytes))
			}
			if float64(n) > max(limit, float64(before+unit)) {
				t.Fatalf("sweep %+v leaves a gap from %d to %d", s, before, n)
			}
		}
		if len(sizes) > 0 && s.Factor <= 1 {
			if last := sizes[len(sizes)-1]; last+uint64(s.StepBytes)+unit <= uint64(high) {
				t.Fatalf("sweep %+v ends early at %d", s, last)
			}
		} else if len(sizes) > 0 {
			if last := sizes[len(sizes)-1]; float64(last+unit)*s.Factor < float64(high) {
				t.Fatalf("sweep %+v ends early at %d", s, last)
			}
		}
	})
}

// What rounding does to a sweep is told, for it is not what was asked for.
func TestRounding(t *testing.T) {
	for _, c := range []struct {
		min, max Size
		element  int
		want     string
	}{
		{4, 64, 4, ""},
		{0, 64, 8, ""},
		{3, 3, 1, ""},
		{3, 13, 4, "2 of the 3 sizes are rounded down to whole elements of 4 bytes; the sweep begins at 4 bytes and not at 3"},
		{6, 12, 4, "1 of the 2 sizes are rounded down to whole elements of 4 bytes; the sweep begins at 4 bytes and not at 6"},
	} {
		cfg := Default()
		cfg.Sweep = Sweep{MinBytes: c.min, MaxBytes: c.max, Factor: 2}
		if got := cfg.Rounding(c.element); got != c.want {
			t.Errorf("%v to %v of %d bytes: %q, want %q", c.min, c.max, c.element, got, c.want)
		}
	}
}

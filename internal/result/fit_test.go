package result

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Expected texts are those of C's printf in nccl-tests' getFloatStr.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		x     float64
		width int
		want  string
	}{
		{0, 7, "   0.00"}, {976.3, 7, " 976.30"}, {9999.994, 7, "9999.99"}, {9999.996, 7, "10000.0"},
		{99999.94, 7, "99999.9"}, {99999.96, 7, " 100000"}, {9999999.4, 7, "9999999"}, {12345678, 7, "1.2e+07"},
		{274.954, 6, "274.95"}, {999.996, 6, "1000.0"}, {99999.6, 6, "100000"}, {1234567, 6, " 1e+06"}, {0.001, 6, "  0.00"},
	} {
		if got := fit(c.x, c.width); got != c.want {
			t.Errorf("fit(%v, %d) = %q, want %q", c.x, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(0, 1e99).Draw(t, "x")
		width := rapid.SampledFrom([]int{6, 7}).Draw(t, "width")
		s := fit(x, width)
		if len(s) != width {
			t.Fatalf("%g: %q is %d wide", x, s, len(s))
		}
		if _, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err != nil {
			t.Fatal(err)
		}
	})
}

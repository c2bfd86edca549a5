package compare

import "testing"

// Small numbers keep two digits; none but zero is printed as zero.
func TestFigure(t *testing.T) {
	for _, c := range []struct {
		x        float64
		decimals int
		want     string
	}{
		{0, 2, "0.00"}, {123.456, 2, "123.46"}, {0.3, 2, "0.30"}, {0.0349, 2, "0.035"}, {0.0012, 2, "0.0012"}, {0.00098, 2, "0.00098"},
		{1e-9, 2, "1.0e-09"}, {0.999, 3, "0.999"}, {0.0004, 3, "0.00040"}, {-0.004, 2, "-0.0040"},
	} {
		if got := figure(c.x, c.decimals); got != c.want {
			t.Errorf("%g with %d decimals is %q, want %q", c.x, c.decimals, got, c.want)
		}
	}
	for share, want := range map[float64]string{0: "0.0%", 0.007: "0.7%", 0.00034: "0.03%", 0.12345: "12.3%"} {
		if got := percentage(share); got != want {
			t.Errorf("the share %g is %q, want %q", share, got, want)
		}
	}
}

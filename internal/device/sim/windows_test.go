package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// Ranges lie in the window, do not overlap, and have an unmapped granule
// behind them, whatever is reserved and released in whatever order.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const base, granules = uint64(Granule), 64
		w := windows{base: base, end: base + granules*Granule, next: base}
		held := map[uint64]uint64{}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				bytes := uint64(rapid.IntRange(1, 70).Draw(t, "granules")) * Granule
				at, err := w.reserve(bytes)
				if err != nil {
					if len(held) == 0 && bytes < granules*Granule {
						t.Fatalf("%d bytes are refused in an empty window: %v", bytes, err)
					}
					return
				}
				if at%Granule != 0 || at < base || at+bytes+Granule > w.end {
					t.Fatalf("%#x+%#x is not in the window", at, bytes)
				}
				for other, n := range held {
					if at < other+n+Granule && other < at+bytes+Granule {
						t.Fatalf("%#x+%#x overlaps %#x+%#x or its guard", at, bytes, other, n)
					}
				}
				held[at] = bytes
			},
			"release": func(t *rapid.T) {
				for at := range held {
					w.release(at)
					delete(held, at)
					return
				}
			},
			"": func(t *rapid.T) {
				if len(w.taken) != len(held) {
					t.Fatalf("%d ranges are taken, %d are held", len(w.taken), len(held))
				}
			},
		})
	})
}

package plots

import (
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

// Entries of a legend neither overlap nor leave the room that they have, in
// either arrangement, and each has a place.
func TestLegendFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := vg.Length(rapid.IntRange(100, 700).Draw(t, "room"))
		var widths []vg.Length
		for _, w := range rapid.SliceOfN(rapid.IntRange(30, 400), 1, 30).Draw(t, "widths") {
			widths = append(widths, min(vg.Length(w), room))
		}
		const gap = 18
		for name, arrange := range map[string]func([]vg.Length, vg.Length, vg.Length) ([]place, int){"grid": grid, "flow": flow} {
			places, rows := arrange(widths, gap, room)
			if len(places) != len(widths) {
				t.Fatalf("%s: %d places for %d entries", name, len(places), len(widths))
			}
			for i, p := range places {
				if p.x < -room/2-0.01 || p.x+p.width > room/2+0.01 {
					t.Fatalf("%s: entry %d from %g to %g of %g", name, i, p.x, p.x+p.width, room)
				}
				if p.width < widths[i] || p.row < 0 || p.row >= rows {
					t.Fatalf("%s: entry %d of width %g: %+v, %d rows", name, i, widths[i], p, rows)
				}
				if i > 0 && places[i-1].row == p.row && places[i-1].x+places[i-1].width+gap > p.x+0.01 {
					t.Fatalf("%s: entry %d touches the one before", name, i)
				}
				if i > 0 && p.row != places[i-1].row && p.row != places[i-1].row+1 {
					t.Fatalf("%s: entry %d skips a row", name, i)
				}
			}
		}
	})
}

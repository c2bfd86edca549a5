package plots

import (
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

// Of lines with the same values every marker is seen, at ends of lines too: none is
// at the place of another, each is on its own line, and none goes farther than half
// of the way to the next size.
func TestMarkersSideBySide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const gap, r = 60, vg.Length(3)
		sizes := rapid.IntRange(1, 4).Draw(t, "sizes")
		var before []mark
		for range rapid.IntRange(1, 6).Draw(t, "lines") {
			var line []vg.Point
			for x := range sizes {
				line = append(line, vg.Point{X: vg.Length(x) * gap, Y: vg.Length(rapid.IntRange(0, 3).Draw(t, "value")) * 20})
			}
			for _, q := range line {
				before = append(before, mark{q, line, style{radius: r}})
			}
		}
		after := append([]mark(nil), before...)
		spreadOut(after)
		for i, m := range after {
			if moved := m.at.X - before[i].at.X; sizes > 1 && max(moved, -moved) > gap/2+0.01 {
				t.Fatalf("marker %d went from %v to %v", i, before[i].at, m.at)
			}
			if len(m.line) == 1 && m.at.Y != before[i].at.Y {
				t.Fatalf("marker %d left its height", i)
			}
			for k := 1; k < len(m.line); k++ {
				a, b := m.line[k-1], m.line[k]
				if m.at.X < a.X || m.at.X > b.X {
					continue
				}
				if y := a.Y + (b.Y-a.Y)*(m.at.X-a.X)/gap; y-m.at.Y > 0.01 || m.at.Y-y > 0.01 {
					t.Fatalf("marker %d is at %v, its line at %g", i, m.at, y)
				}
			}
			for j := range i {
				if before[i].at == before[j].at && distance(m.at, after[j].at) < r {
					t.Fatalf("markers %d and %d are at %v and %v", j, i, after[j].at, m.at)
				}
			}
		}
	})
}

// A marker that is alone stays where it belongs.
func TestLoneMarkersStay(t *testing.T) {
	marks := []mark{{at: vg.Point{X: 10, Y: 10}, style: style{radius: 3}}, {at: vg.Point{X: 10, Y: 14}, style: style{radius: 3}}, {at: vg.Point{X: 20, Y: 10}, style: style{radius: 3}}}
	if moved := spreadOut(marks); moved || marks[0].at.X != 10 || marks[1].at.X != 10 || marks[2].at.X != 20 {
		t.Errorf("moved: %v", marks)
	}
}

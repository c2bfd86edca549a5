package plots

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// appearance is a style as text, to compare.
func appearance(t *theme, look int) (colour, marker, dash string) {
	s := t.styleOf(look, 10)
	return fmt.Sprint(s.line.Color), fmt.Sprintf("%#v", s.marker), fmt.Sprint(s.line.Dashes)
}

// Of as many lines as are said to be told apart, any two differ in two of colour,
// marker and dash; and in a theme of greys in marker or dash.
func TestLooksDiffer(t *testing.T) {
	for name, th := range themes {
		for i := range maxApart {
			c1, m1, d1 := appearance(th, i)
			for j := range i {
				c2, m2, d2 := appearance(th, j)
				differ := 0
				for _, same := range []bool{c1 == c2, m1 == m2, d1 == d2} {
					if !same {
						differ++
					}
				}
				if m1 == m2 && d1 == d2 || name != Print && differ < 2 {
					t.Errorf("%s: lines %d and %d are alike: %s %s %s and %s %s %s", name, i, j, c1, m1, d1, c2, m2, d2)
				}
			}
		}
	}
}

// Lines of any modes, up to 24 and more, have looks of their own, all within what
// is told apart.
func TestEachLineItsLook(t *testing.T) {
	modes := rapid.SampledFrom(append([]string{"p2p-push", "p2p-two-shot", "an imported mode"}, modeOrder...))
	rapid.Check(t, func(t *rapid.T) {
		var all []series
		for i, m := range rapid.SliceOfN(modes, 1, maxApart).Draw(t, "modes") {
			all = append(all, series{key: key{run: i, mode: m}})
		}
		seen := map[int]int{}
		for i, l := range looks(all) {
			if j, twice := seen[l]; twice || l < 0 || l >= maxApart {
				t.Fatalf("lines %d and %d have look %d", j, i, l)
			}
			seen[l] = i
		}
	})
}

// A mode's look is only that of a mode: neither an imported line has it nor one of
// another mode, while there are looks that are no mode's. Those have colours that
// no other line has, while there are any.
func TestLooksOfOthers(t *testing.T) {
	var all []series
	for i, mode := range []string{"nccl", "ring", "nccl", "nccl", "p2p-push", "ring", "an imported mode"} {
		all = append(all, series{key: key{run: i, mode: mode}, imported: i != 1 && i != 4})
	}
	got, colours := looks(all), map[int]bool{}
	for i, look := range got {
		if colours[look%paletteSize] {
			t.Errorf("line %d has the colour of another: %v", i, got)
		}
		colours[look%paletteSize] = true
		if own := i == 1; own != (look < len(modeOrder)) {
			t.Errorf("line %d has look %d, which is a mode's: %v; it should be: %v", i, look, look < len(modeOrder), own)
		}
	}
}

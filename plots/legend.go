package plots

import (
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// entry is a line's place in the legend.
type entry struct {
	label string
	style style
}

// legend is drawn above the panels and not in them, so that it never covers
// data.
type legend struct {
	entries []entry
	style   text.Style // of labels
	scale   scale

	places []place // of the entries
	rows   int
}

// place is where an entry stands.
type place struct {
	x     vg.Length // of its left end, from the middle of the legend
	width vg.Length
	row   int // from the top
}

// Lengths in a legend, in heights of normal text.
const (
	thumbWidth = 2.9
	thumbGap   = 0.5 // between thumbnail and label
	entryGap   = 1.8
	rowHeight  = 1.4

	maxColumns = 6
)

// add puts an entry at the end unless its label is there.
func (l *legend) add(label string, s style) {
	if !slices.ContainsFunc(l.entries, func(e entry) bool { return e.label == label }) {
		l.entries = append(l.entries, entry{label, s})
	}
}

// arrange places the entries within room: in columns, or, where labels of very
// different lengths make these few, in rows one after the other. A label that
// is wider than the room alone becomes smaller.
func (l *legend) arrange(room vg.Length) {
	widths := make([]vg.Length, len(l.entries))
	for i, e := range l.entries {
		widths[i] = min(l.scale.of(thumbWidth+thumbGap)+l.style.Width(e.label), room)
	}
	gap := l.scale.of(entryGap)
	l.places, l.rows = grid(widths, gap, room)
	if flowed, rows := flow(widths, gap, room); rows <= l.rows-2 {
		l.places, l.rows = flowed, rows
	}
}

// grid makes as many columns as give the fewest rows, and no more than these rows
// need.
func grid(widths []vg.Length, gap, room vg.Length) ([]place, int) {
	if len(widths) == 0 {
		return nil, 0
	}
	var columns []vg.Length
	var total vg.Length
	fits := func(n int) bool {
		columns, total = make([]vg.Length, n), gap*vg.Length(n-1)
		for i, w := range widths {
			columns[i%n] = max(columns[i%n], w)
		}
		for _, w := range columns {
			total += w
		}
		return total <= room
	}
	rows := func(n int) int { return (len(widths) + n - 1) / n }
	n := min(len(widths), maxColumns)
	for n > 1 && !fits(n) {
		n--
	}
	fewer := (len(widths) + rows(n) - 1) / rows(n)
	for !fits(fewer) && fewer < n {
		fewer++
	}
	n = fewer
	places := make([]place, len(widths))
	x := -total / 2
	for i := range widths {
		if i%n == 0 {
			x = -total / 2
		}
		places[i] = place{x, columns[i%n], i / n}
		x += columns[i%n] + gap
	}
	return places, rows(n)
}

// flow fills one row after the other, each centred.
func flow(widths []vg.Length, gap, room vg.Length) ([]place, int) {
	places := make([]place, len(widths))
	row := 0
	for i := 0; i < len(widths); row++ {
		end, total := i+1, widths[i]
		for end < len(widths) && total+gap+widths[end] <= room {
			total += gap + widths[end]
			end++
		}
		for x := -total / 2; i < end; i++ {
			places[i] = place{x, widths[i], row}
			x += widths[i] + gap
		}
	}
	return places, row
}

func (l *legend) height() vg.Length { return vg.Length(l.rows) * l.scale.of(rowHeight) }

// draw writes the legend at the top of c.
func (l *legend) draw(c draw.Canvas) {
	for i, e := range l.entries {
		p := l.places[i]
		x, mid := c.Center().X+p.x, c.Max.Y-(vg.Length(p.row)+0.5)*l.scale.of(rowHeight)
		end, label := x+l.scale.of(thumbWidth), x+l.scale.of(thumbWidth+thumbGap)
		c.StrokeLine2(e.style.line, x, mid, end, mid)
		e.style.mark(&c, vg.Point{X: (x + end) / 2, Y: mid})
		// A little up: the middle of a text's box lies below that of its letters.
		c.FillText(shrink(l.style, e.label, x+p.width-label), vg.Point{X: label, Y: mid + l.scale.of(0.1)}, e.label)
	}
}

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
// data. It is a grid of as many columns as fit.
type legend struct {
	entries []entry
	style   text.Style // of labels
	scale   scale

	columns []vg.Length // widths, thumbnail included
}

// Lengths in a legend, in heights of normal text.
const (
	thumbWidth = 2.9
	thumbGap   = 0.5 // between thumbnail and label
	columnGap  = 1.8
	rowHeight  = 1.4

	maxColumns = 6
)

// add puts an entry at the end unless its label is there.
func (l *legend) add(label string, s style) {
	if !slices.ContainsFunc(l.entries, func(e entry) bool { return e.label == label }) {
		l.entries = append(l.entries, entry{label, s})
	}
}

// arrange finds the columns: as many as make the fewest rows, and no more than
// these rows need. A label that is wider than the room alone becomes smaller.
func (l *legend) arrange(room vg.Length) {
	if len(l.entries) == 0 {
		return
	}
	fits := func(n int) bool {
		l.columns = make([]vg.Length, n)
		for i, e := range l.entries {
			l.columns[i%n] = max(l.columns[i%n], l.scale.of(thumbWidth+thumbGap)+l.style.Width(e.label))
		}
		return l.width() <= room
	}
	n := min(len(l.entries), maxColumns)
	for n > 1 && !fits(n) {
		n--
	}
	rows := l.rows(n)
	for fewer := (len(l.entries) + rows - 1) / rows; ; fewer++ {
		if fits(fewer) || fewer >= n {
			break
		}
	}
	l.columns[0] = min(l.columns[0], room)
}

func (l *legend) rows(columns int) int { return (len(l.entries) + columns - 1) / columns }

func (l *legend) width() vg.Length {
	w := l.scale.of(columnGap) * vg.Length(len(l.columns)-1)
	for _, c := range l.columns {
		w += c
	}
	return w
}

func (l *legend) height() vg.Length {
	if len(l.columns) == 0 {
		return 0
	}
	return vg.Length(l.rows(len(l.columns))) * l.scale.of(rowHeight)
}

// draw writes the legend at the top of c.
func (l *legend) draw(c draw.Canvas) {
	left := c.Center().X - l.width()/2
	x := left
	for i, e := range l.entries {
		column := i % len(l.columns)
		if column == 0 {
			x = left
		}
		mid := c.Max.Y - (vg.Length(i/len(l.columns))+0.5)*l.scale.of(rowHeight)
		end := x + l.scale.of(thumbWidth)
		c.StrokeLine2(e.style.line, x, mid, end, mid)
		e.style.mark(&c, vg.Point{X: (x + end) / 2, Y: mid})
		thumb := l.scale.of(thumbWidth + thumbGap)
		// A little up: the middle of a text's box lies below that of its letters.
		c.FillText(shrink(l.style, e.label, l.columns[column]-thumb), vg.Point{X: x + thumb, Y: mid + l.scale.of(0.1)}, e.label)
		x += l.columns[column] + l.scale.of(columnGap)
	}
}

package plots

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line through points with a marker on each.
type curve struct {
	points plotter.XYs
	style  style
}

func (l curve) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := make([]vg.Point, len(l.points))
	for i, q := range l.points {
		at[i] = vg.Point{X: x(q.X), Y: y(q.Y)}
	}
	c.StrokeLines(l.style.line, c.ClipLinesXY(at)...)
	for _, q := range at {
		l.style.mark(&c, q)
	}
}

// entry is a line's place in the legend.
type entry struct {
	label string
	style style
}

// legend is drawn above the panels and not in them, so that it never covers
// data. It fills as many rows as it needs.
type legend []entry

const (
	thumbWidth = vg.Length(34)
	thumbGap   = vg.Length(5)  // between thumbnail and text
	entryGap   = vg.Length(18) // between entries
	rowHeight  = vg.Length(15)
)

// legendText is the style of its labels.
var legendText = textStyle(10, color.Black, text.XLeft, text.YCenter)

func (e entry) width() vg.Length { return thumbWidth + thumbGap + legendText.Width(e.label) }

// rows breaks the legend into lines of at most room.
func (l legend) rows(room vg.Length) []legend {
	var out []legend
	for len(l) > 0 {
		n, w := 1, l[0].width()
		for n < len(l) && w+entryGap+l[n].width() <= room {
			w += entryGap + l[n].width()
			n++
		}
		out = append(out, l[:n])
		l = l[n:]
	}
	return out
}

// draw writes the legend at the top of c and returns its height.
func (l legend) draw(c draw.Canvas) vg.Length {
	room := c.Max.X - c.Min.X
	rows := l.rows(room)
	for i, row := range rows {
		w := entryGap * vg.Length(len(row)-1)
		for _, e := range row {
			w += e.width()
		}
		x, mid := max(c.Min.X, c.Center().X-w/2), c.Max.Y-(vg.Length(i)+0.5)*rowHeight
		for _, e := range row {
			c.StrokeLine2(e.style.line, x, mid, x+thumbWidth, mid)
			e.style.mark(&c, vg.Point{X: x + thumbWidth/2, Y: mid})
			fit := shrink(legendText, e.label, room-thumbWidth-thumbGap)
			// One point up: the middle of a text's box lies below that of its letters.
			c.FillText(fit, vg.Point{X: x + thumbWidth + thumbGap, Y: mid + 1}, e.label)
			x += e.width() + entryGap
		}
	}
	return vg.Length(len(rows)) * rowHeight
}

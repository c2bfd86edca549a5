package plots

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line through points with markers on them. What lies outside the
// axes is cut.
type curve struct {
	points plotter.XYs
	style  style
}

func (l curve) Plot(c draw.Canvas, p *plot.Plot) {
	at := onCanvas(l.points, c, p)
	if len(at) > 1 {
		c.StrokeLines(l.style.line, c.ClipLinesXY(at)...)
	}
	// Where points are dense, every one stays in the line but markers keep a
	// distance, or they would make a bar.
	gap := 3.5 * l.style.radius
	last := -1
	for i, q := range at {
		if last >= 0 && i < len(at)-1 && distance(q, at[last]) < gap {
			continue
		}
		if last > 0 && i == len(at)-1 && distance(q, at[last]) < gap/2 {
			continue
		}
		if last = i; inside(c, q) {
			l.style.mark(&c, q)
		}
	}
}

// band is the area between two values at each place.
type band struct {
	low, high plotter.XYs
	style     style
}

func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	low, high := onCanvas(b.low, c, p), onCanvas(b.high, c, p)
	outline := append([]vg.Point(nil), high...)
	for i := len(low) - 1; i >= 0; i-- {
		outline = append(outline, low[i])
	}
	switch len(low) {
	case 0:
		return
	case 1:
		// One size has no width: a bar stands for the area.
		bar := b.style.line
		bar.Dashes = nil
		c.StrokeLines(bar, c.ClipLinesXY([]vg.Point{low[0], high[0]})...)
		return
	}
	c.FillPolygon(b.style.band, c.ClipPolygonXY(outline))
}

func onCanvas(xy plotter.XYs, c draw.Canvas, p *plot.Plot) []vg.Point {
	x, y := p.Transforms(&c)
	at := make([]vg.Point, len(xy))
	for i, q := range xy {
		at[i] = vg.Point{X: x(q.X), Y: y(q.Y)}
	}
	return at
}

func distance(a, b vg.Point) vg.Length {
	d := a.Sub(b)
	return vg.Length(math.Hypot(float64(d.X), float64(d.Y)))
}

// inside allows for rounding at the edge.
func inside(c draw.Canvas, p vg.Point) bool {
	const hair = 0.01
	return p.X >= c.Min.X-hair && p.X <= c.Max.X+hair && p.Y >= c.Min.Y-hair && p.Y <= c.Max.Y+hair
}

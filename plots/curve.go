package plots

import (
	"cmp"
	"math"
	"slices"

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

// curves are drawn together: first all lines, then their markers, and markers that
// would cover each other side by side. Lines of the same values so stay visible.
type curves []curve

func (l curves) Plot(c draw.Canvas, p *plot.Plot) {
	for _, curve := range l {
		if at := onCanvas(curve.points, c, p); len(at) > 1 {
			c.StrokeLines(curve.style.line, c.ClipLinesXY(at)...)
		}
	}
	marks, _ := l.marks(c, p)
	for _, m := range marks {
		m.style.mark(&c, m.at)
	}
}

// marks are the markers of all lines, at their places on a data area; moved tells
// whether any is not at its point.
func (l curves) marks(c draw.Canvas, p *plot.Plot) (marks []mark, moved bool) {
	for _, curve := range l {
		marks = append(marks, curve.marks(c, onCanvas(curve.points, c, p))...)
	}
	return marks, spreadOut(marks)
}

// mark is a marker at its place.
type mark struct {
	at    vg.Point
	line  []vg.Point // that it belongs to, from left to right
	style style
}

// marks are those of a curve. Where points are dense, every one stays in the line
// but markers keep a distance, or they would make a bar.
func (l curve) marks(c draw.Canvas, at []vg.Point) []mark {
	if l.style.marker == nil {
		return nil
	}
	var out []mark
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
			out = append(out, mark{q, at, l.style})
		}
	}
	return out
}

// spreadOut moves markers that would cover each other apart, each along its line,
// in the order of the lines, and no farther than half of the way to the next size.
// moved tells whether there were any.
func spreadOut(marks []mark) (moved bool) {
	order := make([]int, len(marks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := marks[i].at, marks[j].at
		return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y))
	})
	room := vg.Length(math.Inf(1))
	for i := 1; i < len(order); i++ {
		if d := marks[order[i]].at.X - marks[order[i-1]].at.X; d > 0 {
			room = min(room, d/2)
		}
	}
	for len(order) > 0 {
		n := 1
		for n < len(order) && covers(marks[order[n-1]], marks[order[n]]) {
			n++
		}
		pile := slices.Sorted(slices.Values(order[:n]))
		order = order[n:]
		if n == 1 {
			continue
		}
		moved = true
		step := min(2.2*marks[pile[0]].style.radius, room/vg.Length(n-1))
		// To both sides, but where lines end not beyond.
		first := -step * vg.Length(n-1) / 2
		ends := func(at func([]vg.Point) vg.Point) bool {
			return slices.ContainsFunc(pile, func(i int) bool {
				return len(marks[i].line) > 1 && at(marks[i].line).X == marks[i].at.X
			})
		}
		switch left, right := ends(func(l []vg.Point) vg.Point { return l[0] }), ends(func(l []vg.Point) vg.Point { return l[len(l)-1] }); {
		case left && !right:
			first = 0
		case right && !left:
			first *= 2
		}
		for i, m := range pile {
			marks[m].move(first + step*vg.Length(i))
		}
	}
	return moved
}

// covers reports whether b, at the same size, hides most of a.
func covers(a, b mark) bool {
	return a.at.X == b.at.X && b.at.Y-a.at.Y < 0.6*a.style.radius
}

// move takes m to the right by dx along its line, to its end at most; without a
// line straight to the right.
func (m *mark) move(dx vg.Length) {
	x := m.at.X + dx
	if len(m.line) < 2 {
		m.at.X = x
		return
	}
	x = min(max(x, m.line[0].X), m.line[len(m.line)-1].X)
	for i := 1; i < len(m.line); i++ {
		if a, b := m.line[i-1], m.line[i]; x <= b.X && b.X > a.X {
			m.at = vg.Point{X: x, Y: a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)}
			return
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

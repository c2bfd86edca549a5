package plots

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// style is how one line looks.
type style struct {
	line   draw.LineStyle
	marker marker // nil for a reference line
	radius vg.Length
	back   color.Color // of the chart
	band   color.Color // of the area around the line
}

// The numbers of colours (7), markers and dashes have no factor in common. So of
// maxApart lines any two differ in at least two of the three, and in a theme of
// greys by marker and dash; and it takes 7·8·5 lines until two have the same look.
// Dashes are in multiples of a line's width.
var (
	markers = []marker{
		solid{draw.CircleGlyph{}}, solid{draw.BoxGlyph{}}, solid{draw.PyramidGlyph{}}, strokes{{1, 1}, {1, -1}},
		hollow{draw.CircleGlyph{}}, hollow{draw.BoxGlyph{}}, strokes{{1.2, 0}, {0, 1.2}}, solid{diamond{}},
	}
	dashes = [][]vg.Length{nil, {5, 2}, {2, 1.5}, {6, 2, 1.5, 2}, {1, 1.5}}
)

// maxApart is the least product of two of the numbers.
const maxApart = 35

// paletteSize is the number of a theme's colours.
const paletteSize = 7

// styleOf is the look of line i.
func (t *theme) styleOf(i int, s scale) style {
	c := t.palette[i%len(t.palette)]
	faint := c
	faint.A = t.band
	return style{
		line:   lineStyle(c, s.of(0.15), dashes[i%len(dashes)]),
		marker: markers[i%len(markers)], radius: s.of(0.3),
		back: t.back, band: faint,
	}
}

// reference is the look of a reference line.
func (t *theme) reference(s scale, dash []vg.Length) style {
	return style{line: lineStyle(t.faint, s.of(0.12), dash)}
}

func lineStyle(c color.Color, width vg.Length, dash []vg.Length) draw.LineStyle {
	l := draw.LineStyle{Color: c, Width: width}
	for _, d := range dash {
		l.Dashes = append(l.Dashes, d*width)
	}
	return l
}

// marker stands at the points of a line.
type marker interface {
	draw(c *draw.Canvas, s style, at vg.Point)
}

// mark draws the marker, if there is one. A marker on the edge of the data area
// is not cut.
func (s style) mark(c *draw.Canvas, at vg.Point) {
	if s.marker != nil {
		s.marker.draw(c, s, at)
	}
}

// solid is a filled shape.
type solid struct{ shape draw.GlyphDrawer }

func (m solid) draw(c *draw.Canvas, s style, at vg.Point) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: s.line.Color, Radius: s.radius, Shape: m.shape}, at)
}

// hollow is the outline of a shape, which hides the line.
type hollow struct{ shape draw.GlyphDrawer }

func (m hollow) draw(c *draw.Canvas, s style, at vg.Point) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: s.line.Color, Radius: s.radius * 1.1, Shape: m.shape}, at)
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: s.back, Radius: s.radius*1.1 - s.line.Width*0.8, Shape: m.shape}, at)
}

// diamond is a square on its corner.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetColor(s.Color)
	r := s.Radius * 1.25
	var p vg.Path
	p.Move(vg.Point{X: at.X, Y: at.Y + r})
	p.Line(vg.Point{X: at.X + r, Y: at.Y})
	p.Line(vg.Point{X: at.X, Y: at.Y - r})
	p.Line(vg.Point{X: at.X - r, Y: at.Y})
	p.Close()
	c.Fill(p)
}

// strokes are lines through the point, with ends in radii, on a rim that sets
// them off the line.
type strokes [2]struct{ x, y vg.Length }

func (m strokes) draw(c *draw.Canvas, s style, at vg.Point) {
	for _, l := range []draw.LineStyle{{Color: s.back, Width: 2.2 * s.line.Width}, {Color: s.line.Color, Width: s.line.Width}} {
		for _, end := range m {
			d := vg.Point{X: end.x * s.radius, Y: end.y * s.radius}
			c.StrokeLine2(l, at.X-d.X, at.Y-d.Y, at.X+d.X, at.Y+d.Y)
		}
	}
}

// modeOrder gives each mode its own look, the same in every chart.
var modeOrder = []string{"nvls-zero-copy", "ring", "p2p", "nvls-copy-in", "nccl", "auto", "nccl-symmetric"}

// looks chooses for each line. The first line of a mode has the mode's own; an
// imported one never, for it is not what this program calls so. Others have looks
// that are no mode's, of the colour that the fewest lines have, while there are any.
func looks(all []series) []int {
	chosen := make([]int, len(all))
	taken := make(map[int]bool)
	colours := make(map[int]int)
	take := func(i, look int) {
		chosen[i], taken[look] = look, true
		colours[look%paletteSize]++
	}
	var others []int
	for i, s := range all {
		if m := slices.Index(modeOrder, s.mode); m >= 0 && !taken[m] && !s.imported {
			take(i, m)
		} else {
			others = append(others, i)
		}
	}
	free := func(from, to int) int {
		best := -1
		for l := from; l < to; l++ {
			if !taken[l] && (best < 0 || colours[l%paletteSize] < colours[best%paletteSize]) {
				best = l
			}
		}
		return best
	}
	for _, i := range others {
		look := free(len(modeOrder), maxApart)
		if look < 0 {
			look = free(0, len(modeOrder))
		}
		for next := maxApart; look < 0; next++ {
			look = free(next, next+1)
		}
		take(i, look)
	}
	return chosen
}

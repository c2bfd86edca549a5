package plots

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette is that of Okabe and Ito without its yellow, which is too light for
// lines: seven colours that all kinds of colour vision tell apart.
var palette = []color.Color{
	color.NRGBA{0x00, 0x72, 0xb2, 0xff}, // blue
	color.NRGBA{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	color.NRGBA{0x00, 0x9e, 0x73, 0xff}, // bluish green
	color.NRGBA{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	color.NRGBA{0xe6, 0x9f, 0x00, 0xff}, // orange
	color.NRGBA{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	color.NRGBA{0x00, 0x00, 0x00, 0xff}, // black
}

// There are as many markers as colours, and a number of dashes that has no
// factor in common with theirs: 35 lines before two look the same.
var (
	markers = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.PlusGlyph{},
	}
	dashes = [][]vg.Length{nil, {8, 3}, {3, 2}, {8, 3, 2, 3}, {1.5, 2}}
)

var (
	grey      = color.NRGBA{0x60, 0x60, 0x60, 0xff}
	gridColor = color.NRGBA{0xdd, 0xdd, 0xdd, 0xff}
	warning   = color.NRGBA{0xb0, 0x00, 0x20, 0xff}
)

// style is how one line looks.
type style struct {
	line  draw.LineStyle
	glyph draw.GlyphStyle
}

func styleOf(i int) style {
	c := palette[i%len(palette)]
	return style{
		line:  draw.LineStyle{Color: c, Width: 1.5, Dashes: dashes[i%len(dashes)]},
		glyph: draw.GlyphStyle{Color: c, Radius: 3, Shape: markers[i%len(markers)]},
	}
}

// mark draws the marker, with unbroken strokes whatever the line's dashes. A
// marker on the edge of the data area is not cut.
func (s style) mark(c *draw.Canvas, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: s.line.Color, Width: s.line.Width})
	c.DrawGlyphNoClip(s.glyph, at)
}

// modeOrder gives each mode its own look, the same in every chart.
var modeOrder = []string{"nvls-zero-copy", "ring", "p2p", "nvls-copy-in", "nccl", "auto"}

// styles chooses a look for each line: the mode's own for the first line of a
// mode, the next free one for others.
func styles(all []series) []style {
	chosen := make([]int, len(all))
	taken := make(map[int]bool)
	for i, s := range all {
		m := slices.Index(modeOrder, s.mode)
		if m >= 0 && taken[m] {
			m = -1
		}
		if chosen[i] = m; m >= 0 {
			taken[m] = true
		}
	}
	next := 0
	out := make([]style, len(all))
	for i, m := range chosen {
		if m < 0 {
			for taken[next] {
				next++
			}
			m, taken[next] = next, true
		}
		out[i] = styleOf(m)
	}
	return out
}

// textStyle is the chart's typeface in a size in points. There is no bold: the
// PDF canvas of gonum/plot 0.17 does not find bold faces.
func textStyle(size vg.Length, c color.Color, x text.XAlignment, y text.YAlignment) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	return text.Style{Color: c, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// shrink makes s smaller until txt is at most w wide.
func shrink(s text.Style, txt string, w vg.Length) text.Style {
	if now := s.Width(txt); now > w {
		s.Font.Size *= w / now
	}
	return s
}

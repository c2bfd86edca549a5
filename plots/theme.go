package plots

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// theme is the colours of a chart.
type theme struct {
	back, text, faint, grid, warning, stamp color.NRGBA
	palette                                 [paletteSize]color.NRGBA
	band                                    uint8 // opacity of a band
}

var themes = map[Theme]*theme{
	// The palette is that of Okabe and Ito without its yellow, which is too light
	// for lines on white: all kinds of colour vision tell the colours apart.
	Light: {
		back: rgb(0xffffff), text: rgb(0x000000), faint: rgb(0x606060), grid: rgb(0xdddddd), warning: rgb(0xb00020), stamp: rgba(0xb00020, 0x38),
		palette: [paletteSize]color.NRGBA{rgb(0x0072b2), rgb(0xd55e00), rgb(0x009e73), rgb(0xcc79a7), rgb(0xe69f00), rgb(0x56b4e9), rgb(0x000000)},
		band:    0x30,
	},
	// The same hues, lighter, so that each has a contrast above 5 to 1.
	Dark: {
		back: rgb(0x15181e), text: rgb(0xf2f2f2), faint: rgb(0xb0b4bb), grid: rgb(0x363b44), warning: rgb(0xff8a8a), stamp: rgba(0xff6b6b, 0x50),
		palette: [paletteSize]color.NRGBA{rgb(0x56b4e9), rgb(0xff8246), rgb(0x2fc99a), rgb(0xe89ccb), rgb(0xf0e442), rgb(0xa0a8ff), rgb(0xffffff)},
		band:    0x40,
	},
	Print: {
		back: rgb(0xffffff), text: rgb(0x000000), faint: rgb(0x404040), grid: rgb(0xd8d8d8), warning: rgb(0x000000), stamp: rgba(0x000000, 0x38),
		palette: [paletteSize]color.NRGBA{rgb(0x000000), rgb(0x5a5a5a), rgb(0x000000), rgb(0x5a5a5a), rgb(0x000000), rgb(0x5a5a5a), rgb(0x000000)},
		band:    0x40,
	},
}

func rgb(hex uint32) color.NRGBA { return rgba(hex, 0xff) }

func rgba(hex uint32, alpha uint8) color.NRGBA {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), alpha}
}

// scale is the height of normal text in points. All lengths of a chart are
// multiples of it.
type scale vg.Length

// scaleOf gives text of 10 points to a chart of a page's width and of 7 to one
// of a column (8.5 cm): the least that journals ask for is 6.
func scaleOf(width vg.Length) scale {
	const column, page = 8.5 * vg.Centimeter, 17 * vg.Centimeter
	u := 7 + 3*(width-column)/(page-column)
	return scale(min(max(u, 7), 10))
}

// of is x times the height of normal text.
func (s scale) of(x float64) vg.Length { return vg.Length(x) * vg.Length(s) }

// Heights of texts as parts of a normal one. With a scale of 7 the least is 6.65
// points.
const (
	titleText = 1.4
	labelText = 1.05
	tickText  = 1
	factText  = 0.95
)

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

// Dashes of reference lines, which have no marker.
var (
	peakDashes  = []vg.Length{1, 2}
	limitDashes = []vg.Length{4, 2, 1, 2, 1, 2}
)

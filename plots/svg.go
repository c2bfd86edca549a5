package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"regexp"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svgCanvas remembers what gonum/plot 0.17 leaves out of the texts of an SVG.
type svgCanvas struct {
	*vgsvg.Canvas
	opacity float64 // of the current colour
	texts   []svgText
}

// svgText is one text in the order in which they were drawn.
type svgText struct {
	width   vg.Length
	opacity float64
}

func (c *svgCanvas) SetColor(clr color.Color) {
	c.opacity = 1
	if clr != nil {
		c.opacity = float64(color.NRGBAModel.Convert(clr).(color.NRGBA).A) / 0xff
	}
	c.Canvas.SetColor(clr)
}

func (c *svgCanvas) FillString(f font.Face, at vg.Point, txt string) {
	c.texts = append(c.texts, svgText{f.Width(txt), c.opacity})
	c.Canvas.FillString(f, at, txt)
}

// svgStyle is the beginning of a text's style, as vgsvg writes it.
var svgStyle = regexp.MustCompile(`style="font-family:Liberation Sans;`)

// writeSVG mends the texts of the file. It names, beside the chart's typeface,
// those that are alike, and the width of every text, which readers keep to: those
// without the typeface would take one with serifs and other widths. And it makes
// translucent what must not hide data.
func writeSVG(w io.Writer, c *chart) error {
	canvas := &svgCanvas{Canvas: vgsvg.New(c.size.Width, c.size.Height), opacity: 1}
	c.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	i := 0
	mended := svgStyle.ReplaceAllFunc(b.Bytes(), func([]byte) []byte {
		t := canvas.texts[i]
		i++
		s := fmt.Appendf(nil, `textLength="%.5g" lengthAdjust="spacingAndGlyphs" style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`, t.width.Points())
		if t.opacity < 1 {
			s = fmt.Appendf(s, "fill-opacity:%.2f;", t.opacity)
		}
		return s
	})
	if i != len(canvas.texts) {
		return fmt.Errorf("SVG: %d texts in the file, %d drawn", i, len(canvas.texts))
	}
	_, err := w.Write(mended)
	return err
}

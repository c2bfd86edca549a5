package plots

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svgText is a text element as vgsvg writes it.
var svgText = regexp.MustCompile(`<text ([^>]*)style="font-family:Liberation Sans;([^"]*font-size:([0-9.e+-]+)px[^"]*)">([^<]*)</text>`)

// writeSVG mends the texts of gonum/plot 0.17: its SVG names one typeface, and
// readers without it would take one with serifs and other widths. Here it names
// those that are alike, and the width of every text, which readers keep to.
func writeSVG(w io.Writer, c *chart) error {
	svg := vgsvg.New(c.size.Width, c.size.Height)
	c.draw(draw.New(svg))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	mended := svgText.ReplaceAllFunc(b.Bytes(), func(element []byte) []byte {
		m := svgText.FindSubmatch(element)
		size, err := strconv.ParseFloat(string(m[3]), 64)
		if err != nil {
			return element
		}
		width := textStyle(vg.Length(size), color.Black, text.XLeft, text.YBottom).Width(html.UnescapeString(string(m[4])))
		return fmt.Appendf(nil, `<text %stextLength="%.5g" lengthAdjust="spacingAndGlyphs" style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;%s">%s</text>`,
			m[1], width.Points(), m[2], m[4])
	})
	_, err := w.Write(mended)
	return err
}

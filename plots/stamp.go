package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// stamp writes lines across a panel, large, slanted and translucent, over the
// data: what a chart shows cannot be cut out without them.
type stamp struct {
	lines []string
	color color.Color
}

const stampSlant = math.Pi / 12

func (s stamp) Plot(c draw.Canvas, _ *plot.Plot) {
	if len(s.lines) == 0 {
		return
	}
	w, h := c.Max.X-c.Min.X, c.Max.Y-c.Min.Y
	sty := textStyle(vg.Length(math.Min(float64(w)/8, float64(h)/2/float64(len(s.lines)))), s.color, text.XCenter, text.YCenter)
	for _, line := range s.lines {
		sty = shrink(sty, line, w*0.85)
	}
	sty.Rotation = stampSlant
	sin, cos := math.Sincos(stampSlant)
	for i, line := range s.lines {
		// Lines lie one below the other across the slant, centred together.
		d := (float64(len(s.lines)-1)/2 - float64(i)) * 1.15 * float64(sty.Font.Size)
		at := c.Center().Add(vg.Point{X: vg.Length(-d * sin), Y: vg.Length(d * cos)})
		c.FillText(sty, at, line)
	}
}

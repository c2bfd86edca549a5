package plots

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// chart is a heading, a legend and panels over the same sizes.
type chart struct {
	runs    []*result.Run
	options Options
	theme   *theme
	scale   scale
	size    Size

	all        []series
	looks      []int      // of each line: which style
	drawn      []bool     // of each line: whether it is in any panel
	sizes      [2]float64 // the horizontal axis
	references []entry

	heading []headline
	legend  legend
	panels  []*panel // from the top
	moved   bool     // whether a marker is not at its point, which a note says
}

// headline is one line of text above the panels.
type headline struct {
	style text.Style
	text  string
}

const xLabel = "message size (bytes; K, M, G are binary)"

// newChart plans everything that does not depend on the file format.
func newChart(runs []*result.Run, o Options) (*chart, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	c := &chart{runs: runs, options: o, theme: themes[o.Theme], size: o.Size}
	if c.size.Width == 0 {
		c.size.Width = 9 * vg.Inch
	}
	c.scale = scaleOf(c.size.Width)
	var left int
	c.all, left = collect(runs, o)
	if len(c.all) == 0 {
		e := failure.New(failure.Usage, "nothing to draw: the results have no row with a size and a time")
		e.Do, e.By = "look at the status of the run", failure.User
		return nil, e
	}
	c.looks, c.drawn = looks(c.all), make([]bool, len(c.all))
	lo, hi := math.Inf(1), 0.0
	for _, s := range c.all {
		lo, hi = min(lo, s.points[0].size), max(hi, s.points[len(s.points)-1].size)
	}
	c.sizes[0], c.sizes[1] = sizeRange(lo, hi)
	for _, k := range o.Kinds {
		p, err := c.newPanel(k)
		if err != nil {
			return nil, err
		}
		c.panels = append(c.panels, p)
	}
	c.fillLegend()
	c.fillHeading(left)
	if err := c.layOut(); err != nil {
		return nil, err
	}
	// The note takes room from panels of a chart of fixed height, which moves no fewer.
	if c.moved = c.moves(); c.moved {
		c.heading, c.size.Height = nil, o.Size.Height
		c.fillHeading(left)
		return c, c.layOut()
	}
	return c, nil
}

// moves tells whether a marker of the chart that is laid out will not be at its
// point.
func (c *chart) moves() bool {
	areas, _ := c.areas(c.below(draw.NewCanvas(new(recorder.Canvas), c.size.Width, c.size.Height)))
	for i, p := range c.panels {
		if _, moved := p.curves.marks(p.DataCanvas(areas[i]), p.Plot); moved {
			return true
		}
	}
	return false
}

func (c *chart) fillLegend() {
	c.legend = legend{scale: c.scale, style: textStyle(c.scale.of(tickText), c.theme.text, text.XLeft, text.YCenter)}
	for i, s := range c.all {
		if c.drawn[i] {
			c.legend.add(s.label, c.theme.styleOf(c.looks[i], c.scale))
		}
	}
	for _, r := range c.references {
		c.legend.add(r.label, r.style)
	}
	c.legend.arrange(c.room())
}

// title names the kinds: "All-reduce: bus bandwidth, link share and time".
func (c *chart) title() string {
	if c.options.Title != "" {
		return c.options.Title
	}
	s := "All-reduce: "
	for i, k := range c.options.Kinds {
		switch {
		case i == 0:
		case i == len(c.options.Kinds)-1:
			s += " and "
		default:
			s += ", "
		}
		s += k.Title()
	}
	return s
}

func (c *chart) fillHeading(left int) {
	add := func(part float64, clr color.Color, separator string, pieces ...string) {
		sty := textStyle(c.scale.of(part), clr, text.XCenter, text.YTop)
		for _, l := range wrap(sty, pieces, separator, c.room()) {
			c.heading = append(c.heading, headline{sty, l})
		}
	}
	const separator = " · "
	add(titleText, c.theme.text, "", c.title())
	for _, f := range facts(c.runs, c.all) {
		add(factText, c.theme.faint, separator, f...)
	}
	for _, w := range warnings(c.runs) {
		add(factText, c.theme.warning, "", w)
	}
	add(factText, c.theme.faint, separator, c.notes(left)...)
}

// Room around the text and panels of a chart, in heights of normal text.
const (
	margin    = 1.1
	panelGap  = 1.4
	labelRoom = 1.7  // beside the panels
	xRoom     = 1.4  // below them
	headGap   = 0.3  // below the heading
	legendGap = 0.7  // below the legend
	lineRoom  = 1.28 // of a line, in its own height
)

func (c *chart) room() vg.Length { return c.size.Width - 2*c.scale.of(margin) }

// above is the height of everything that is not a panel.
func (c *chart) above() vg.Length {
	return 2*c.scale.of(margin) + c.head() + c.scale.of(xRoom) + vg.Length(len(c.panels)-1)*c.scale.of(panelGap)
}

// head is the height of heading and legend, with a gap below each.
func (c *chart) head() vg.Length {
	h := c.scale.of(headGap) + c.legend.height() + c.scale.of(legendGap)
	for _, l := range c.heading {
		h += l.style.Font.Size * lineRoom
	}
	return h
}

// below is what heading and legend leave of a chart's canvas.
func (c *chart) below(dc draw.Canvas) draw.Canvas {
	m := c.scale.of(margin)
	return draw.Crop(dc, m, -m, m, -m-c.head())
}

// layOut chooses the height of the chart, if the user has not, and the ticks. A
// height that leaves no room for the panels is an error.
func (c *chart) layOut() error {
	n := vg.Length(len(c.panels))
	if c.size.Height == 0 {
		// One panel alone gets the shape of a page of slides.
		each := c.size.Width * 0.36
		if n == 1 {
			each = c.size.Width * 0.48
		}
		c.size.Height = c.above() + n*each
	}
	h := (c.size.Height - c.above()) / n
	if least := c.scale.of(6.5); h < least {
		need := c.above() + n*least
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("the chart does not fit into a height of %.1f cm", cm(c.size.Height)),
			Why: fmt.Sprintf("heading and legend need %.1f cm, each of %s at least %.1f cm", cm(c.above()), counted(len(c.panels), "panel"), cm(least)),
			Do:  fmt.Sprintf("make it %.1f cm high, or wider, or draw fewer kinds", math.Ceil(cm(need)*10)/10), By: failure.User}
	}
	for _, p := range c.panels {
		c.ticks(p, c.room()-c.scale.of(labelRoom), h)
	}
	return nil
}

func cm(l vg.Length) float64 { return float64(l / vg.Centimeter) }

// draw puts the chart on a canvas: text from the top down, and the panels, their
// axes aligned, on what is left.
func (c *chart) draw(dc draw.Canvas) {
	dc.SetColor(c.theme.back)
	dc.Fill(dc.Rectangle.Path())
	below := c.below(dc)
	m := c.scale.of(margin)
	dc = draw.Crop(dc, m, -m, m, -m)
	for _, l := range c.heading {
		dc.FillText(shrink(l.style, l.text, c.room()), vg.Point{X: dc.Center().X, Y: dc.Max.Y}, l.text)
		dc.Max.Y -= l.style.Font.Size * lineRoom
	}
	dc.Max.Y -= c.scale.of(headGap)
	c.legend.draw(dc)
	c.drawPanels(below)
}

// labelStyle is that of axis labels.
func (c *chart) labelStyle() text.Style {
	return textStyle(c.scale.of(labelText), c.theme.text, text.XCenter, text.YBottom)
}

// areas divides dc among the panels, from the top down, and gives all data areas the
// same left and right edge. plot.Align would do this, but its result leaves wide gaps
// where tick labels differ in width. labels are the lines of each vertical axis'
// label: one that is longer than its panel is high takes two or more.
func (c *chart) areas(dc draw.Canvas) (areas []draw.Canvas, labels [][]string) {
	gap := c.scale.of(panelGap)
	dc = draw.Crop(dc, 0, 0, c.scale.of(xRoom), 0)
	n := vg.Length(len(c.panels))
	h := (dc.Max.Y - dc.Min.Y - gap*(n-1)) / n
	most := 0
	for _, p := range c.panels {
		l := wrap(c.labelStyle(), []string{p.yLabel}, "", h)
		labels, most = append(labels, l), max(most, len(l))
	}
	dc.Min.X += c.scale.of(labelRoom) + vg.Length(most-1)*c.scale.of(labelText*lineRoom)
	areas = make([]draw.Canvas, len(c.panels))
	left, right := dc.Min.X, dc.Max.X
	for i, p := range c.panels {
		areas[i] = dc
		areas[i].Max.Y = dc.Max.Y - vg.Length(i)*(h+gap)
		areas[i].Min.Y = areas[i].Max.Y - h
		data := p.DataCanvas(areas[i])
		left, right = max(left, data.Min.X), min(right, data.Max.X)
	}
	for i, p := range c.panels {
		data := p.DataCanvas(areas[i])
		areas[i].Min.X += left - data.Min.X
		areas[i].Max.X += right - data.Max.X
	}
	return areas, labels
}

// drawPanels draws the panels and their axes' labels.
func (c *chart) drawPanels(dc draw.Canvas) {
	areas, labels := c.areas(dc)
	sty := c.labelStyle()
	turned := sty
	turned.Rotation = math.Pi / 2
	data := dc
	for i, p := range c.panels {
		p.Draw(areas[i])
		data = p.DataCanvas(areas[i])
		for j, l := range labels[i] {
			x := dc.Min.X + c.scale.of(labelRoom*0.7) + vg.Length(j)*c.scale.of(labelText*lineRoom)
			dc.FillText(turned, vg.Point{X: x, Y: data.Center().Y}, l)
		}
	}
	dc.FillText(shrink(sty, xLabel, data.Max.X-data.Min.X), vg.Point{X: data.Center().X, Y: dc.Min.Y}, xLabel)
}

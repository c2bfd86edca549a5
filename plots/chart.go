package plots

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// chart is a heading, a legend and two panels over the same sizes.
type chart struct {
	title    string
	facts    []string // what was measured, below the title
	warnings []string // why to mistrust it
	legend   legend
	panels   []panel // from the top
}

// panel is one plot of a chart. The chart writes the label of its axis: gonum's
// plot reserves room for axis labels at a wrong place on a logarithmic axis.
type panel struct {
	*plot.Plot
	yLabel string
}

const xLabel = "message size (bytes; K, M, G are binary)"

// newChart plans everything that does not depend on the file format.
func newChart(runs []*result.Run, o Options) (*chart, error) {
	all := collect(runs)
	if len(all) == 0 {
		e := failure.New(failure.Usage, "nothing to draw: the results have no row with a size and a time")
		e.Do, e.By = "look at the status of the run", failure.User
		return nil, e
	}
	looks := styles(all)
	c := &chart{title: cmp.Or(o.Title, "All-reduce: bus bandwidth and time"), facts: facts(runs, all), warnings: warnings(runs)}
	rate, elapsed := newPanel(all), newPanel(all)

	top, longest, shortest := 0.0, 0.0, math.Inf(1)
	for i, s := range all {
		rates, times := make(plotter.XYs, len(s.points)), make(plotter.XYs, len(s.points))
		for j, p := range s.points {
			rates[j] = plotter.XY{X: p.size, Y: p.busBW}
			times[j] = plotter.XY{X: p.size, Y: p.time}
			top, longest, shortest = max(top, p.busBW), max(longest, p.time), min(shortest, p.time)
		}
		addLine(rate, rates, looks[i])
		addLine(elapsed, times, looks[i])
		c.legend = append(c.legend, entry{s.label, looks[i]})
	}
	if peak := linkPeak(runs); peak > 0 && peak <= 1.25*top {
		l := style{line: draw.LineStyle{Color: grey, Width: 1, Dashes: []vg.Length{1, 2}}}
		addLine(rate, plotter.XYs{{X: rate.X.Min, Y: peak}, {X: rate.X.Max, Y: peak}}, l)
		c.legend = append(c.legend, entry{fmt.Sprintf("peak of a GPU's links, one direction: %.4g GB/s", peak), l})
		top = max(top, peak)
	}
	if top == 0 {
		top = 1 // a single rank has no bus bandwidth
	}
	rate.Y.Min, rate.Y.Max = 0, top*1.05
	rate.Y.Tick.Marker = rateTicks{}
	rate.yLabel = "bus bandwidth (" + unitNote(runs, "GB/s") + ")"
	elapsed.Y.Min, elapsed.Y.Max = timeRange(shortest, longest)
	elapsed.Y.Scale = plot.LogScale{}
	elapsed.Y.Tick.Marker = timeTicks{}
	elapsed.yLabel = "time of one all-reduce"
	if n := unitNote(runs, ""); n != "" {
		elapsed.yLabel += " (" + n + ")"
	}
	c.panels = []panel{rate, elapsed}
	for _, p := range c.panels {
		p.Add(stamp(labels(runs)))
	}
	return c, nil
}

// newPanel is an empty panel over the sizes of all lines.
func newPanel(all []series) panel {
	p := plot.New()
	lo, hi := math.Inf(1), 0.0
	for _, s := range all {
		lo, hi = min(lo, s.points[0].size), max(hi, s.points[len(s.points)-1].size)
	}
	p.X.Min, p.X.Max = sizeRange(lo, hi)
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = sizeTicks{}
	p.X.Padding, p.Y.Padding = 0, 0
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		x, y := a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Tick.Label = textStyle(10, color.Black, x, y)
		a.Tick.Length = 5
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid)
	return panel{Plot: p}
}

// addLine draws points joined by a line. The axes stay as they are.
func addLine(p panel, xy plotter.XYs, s style) {
	p.Add(curve{xy, s})
}

// labels are the words that must stand on a chart of these runs.
func labels(runs []*result.Run) []string {
	var out []string
	for _, r := range runs {
		for _, l := range r.Labels() {
			if !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
	}
	return out
}

// unitNote puts the word SIMULATED before a unit where it holds for all runs,
// "partly SIMULATED" where it holds for some.
func unitNote(runs []*result.Run, unit string) string {
	simulated := 0
	for _, r := range runs {
		if r.Simulated {
			simulated++
		}
	}
	note := ""
	switch simulated {
	case 0:
	case len(runs):
		note = "SIMULATED"
	default:
		note = "partly SIMULATED"
	}
	return strings.TrimSpace(note + " " + unit)
}

// linkPeak is the peak of one GPU's links in GB/s if all runs have the same and
// are measurements, otherwise 0.
func linkPeak(runs []*result.Run) float64 {
	for _, r := range runs {
		if len(r.Labels()) > 0 || r.LinkPeak() != runs[0].LinkPeak() {
			return 0
		}
	}
	return runs[0].LinkPeak() / 1e9
}

// facts say what was measured where and when: a line each for what was reduced
// on which GPUs, and for software and date; what differs between runs is joined.
func facts(runs []*result.Run, all []series) []string {
	join := func(sep string, of func(*result.Run) string) string {
		var out []string
		for _, r := range runs {
			if s := of(r); s != "" && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return strings.Join(out, sep)
	}
	var what, place []string
	for _, s := range all {
		if w := s.datatype + " " + s.op; !slices.Contains(what, w) {
			what = append(what, w)
		}
		w := "out-of-place"
		if s.inPlace {
			w = "in-place"
		}
		if !slices.Contains(place, w) {
			place = append(place, w)
		}
	}
	first := []string{join(" and ", machine), strings.Join(what, ", "), strings.Join(place, ", ")}
	second := []string{join(", ", func(r *result.Run) string { return r.Driver }), join(", ", func(r *result.Run) string { return r.MPI }),
		"nvls-allreduce " + join(", ", func(r *result.Run) string { return r.Version }),
		join(", ", func(r *result.Run) string {
			if r.Start.IsZero() {
				return ""
			}
			return r.Start.Format("2006-01-02")
		})}
	empty := func(s string) bool { return s == "" }
	return []string{
		strings.Join(slices.DeleteFunc(first, empty), "  ·  "),
		strings.Join(slices.DeleteFunc(second, empty), "  ·  "),
	}
}

// warnings say what is wrong with the runs.
func warnings(runs []*result.Run) []string {
	var out []string
	add := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for _, r := range runs {
		switch r.Status.State {
		case result.Complete:
		case result.Running:
			add("INCOMPLETE: the run had not ended when the results were written")
		default:
			add("INCOMPLETE: %s: %s", r.Status.State, r.Status.Reason)
		}
		if n := r.Totals().FailedChecks; n > 0 {
			add("WRONG DATA in %d of %d rows", n, len(r.Rows))
		}
	}
	return out
}

// Room around the text and panels of a chart.
const (
	marginX = 14
	marginY = 10
)

// size is that of the chart on paper: a fixed one, and higher where the legend
// or the warnings are long, so that the panels keep theirs.
func (c *chart) size() (w, h vg.Length) {
	w, h = 9*vg.Inch, 8*vg.Inch
	if n := len(c.legend.rows(w - 2*marginX)); n > 2 {
		h += vg.Length(n-2) * rowHeight
	}
	return w, h + vg.Length(len(c.warnings))*rowHeight
}

// draw puts the chart on a canvas: text from the top down, and the panels, their
// axes aligned, on what is left.
func (c *chart) draw(dc draw.Canvas) {
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	dc = draw.Crop(dc, marginX, -marginX, marginY, -marginY)
	room := dc.Max.X - dc.Min.X
	line := func(s text.Style, txt string) {
		s = shrink(s, txt, room)
		dc.FillText(s, vg.Point{X: dc.Center().X, Y: dc.Max.Y}, txt)
		dc.Max.Y -= s.Font.Size * 1.4
	}
	line(textStyle(15, color.Black, text.XCenter, text.YTop), c.title)
	for _, f := range c.facts {
		line(textStyle(10, grey, text.XCenter, text.YTop), f)
	}
	for _, w := range c.warnings {
		line(textStyle(10, warning, text.XCenter, text.YTop), w)
	}
	dc.Max.Y -= 4
	dc.Max.Y -= c.legend.draw(dc)
	dc.Max.Y -= 6

	c.drawPanels(dc)
}

// drawPanels divides dc among the panels, from the top down, and gives all data
// areas the same left and right edge. plot.Align would do this, but its result
// leaves wide gaps where tick labels differ in width.
func (c *chart) drawPanels(dc draw.Canvas) {
	const gap, labelRoom = 14, 18
	sty := textStyle(11, color.Black, text.XCenter, text.YBottom)
	full := dc
	dc = draw.Crop(dc, labelRoom, 0, labelRoom, 0)

	n := vg.Length(len(c.panels))
	h := (dc.Max.Y - dc.Min.Y - gap*(n-1)) / n
	canvases := make([]draw.Canvas, len(c.panels))
	left, right := dc.Min.X, dc.Max.X
	for i, p := range c.panels {
		canvases[i] = dc
		canvases[i].Max.Y = dc.Max.Y - vg.Length(i)*(h+gap)
		canvases[i].Min.Y = canvases[i].Max.Y - h
		data := p.DataCanvas(canvases[i])
		left, right = max(left, data.Min.X), min(right, data.Max.X)
	}
	for i, p := range c.panels {
		data := p.DataCanvas(canvases[i])
		canvases[i].Min.X += left - data.Min.X
		canvases[i].Max.X += right - data.Max.X
		p.Draw(canvases[i])

		data = p.DataCanvas(canvases[i])
		turned := shrink(sty, p.yLabel, h)
		turned.Rotation = math.Pi / 2
		dc.FillText(turned, vg.Point{X: full.Min.X + labelRoom*0.7, Y: data.Center().Y}, p.yLabel)
	}
	dc.FillText(sty, vg.Point{X: (left + right) / 2, Y: full.Min.Y}, xLabel)
}

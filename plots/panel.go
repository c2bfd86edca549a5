package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// panel is one plot of a chart. The chart writes the label of its axis: gonum's
// plot reserves room for axis labels at a wrong place on a logarithmic axis.
type panel struct {
	*plot.Plot
	kind    Kind
	curves  curves // without reference lines
	yLabel  string
	lacking string   // what lines need to be in this panel
	missing []string // lines that are not
	banded  bool     // whether lines stand over the spread of iterations
	// medianless are lines of which only that is known.
	medianless []string
	outside    int     // points outside of limits that the user set
	lo, hi     float64 // of what is drawn
}

// quantity is what a kind of panel draws of a point; false when it is not
// known.
type quantity func(point) (y float64, ok bool)

// newPanel draws kind k of all lines.
func (c *chart) newPanel(k Kind) (*panel, error) {
	p := &panel{Plot: plot.New(), kind: k, lo: math.Inf(1)}
	p.BackgroundColor = nil
	p.X.Padding, p.Y.Padding = 0, 0
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = c.theme.grid, c.theme.grid
	grid.Vertical.Width, grid.Horizontal.Width = c.scale.of(0.05), c.scale.of(0.05)
	p.Add(grid)

	var err error
	switch k {
	case BusBW:
		err = c.busBW(p)
	case Time:
		err = c.time(p)
	case SpeedUp:
		err = c.speedUp(p)
	case Spread:
		err = c.spread(p)
	case LinkShare:
		err = c.linkShare(p)
	}
	if err != nil {
		return nil, err
	}
	c.limit(p)
	c.axes(p)
	p.Add(stamp{labels(c.runs), c.theme.stamp})
	return p, nil
}

func (c *chart) busBW(p *panel) error {
	p.yLabel = "bus bandwidth (" + unitNote(c.runs, "GB/s") + ")"
	if err := c.lines(p, func(x point) (float64, bool) { return x.busBW, true }); err != nil {
		return err
	}
	// A line far above the data would squeeze it.
	near := 1.25 * p.hi
	if peak := linkPeak(c.runs); peak > 0 && peak <= near {
		c.referenceLine(p, peak, peakLabel(peak), peakDashes)
	}
	if l := linkLimit(c.runs); l > 0 && l <= near {
		c.referenceLine(p, l, limitLabel(l), limitDashes)
	}
	if p.hi < minRate {
		p.hi = 1 // a single rank has no bus bandwidth
	}
	p.Y.Min, p.Y.Max = 0, p.hi*1.05
	return nil
}

func peakLabel(gbs float64) string {
	return fmt.Sprintf("link peak %.4g GB/s", gbs)
}

func limitLabel(gbs float64) string {
	return fmt.Sprintf("measured limit %.4g GB/s", gbs)
}

func (c *chart) time(p *panel) error {
	p.yLabel = noted("time of one all-reduce", unitNote(c.runs, ""))
	if err := c.lines(p, func(x point) (float64, bool) { return x.time, true }); err != nil {
		return err
	}
	p.Y.Min, p.Y.Max = timeRange(p.lo, p.hi)
	return nil
}

func noted(label, note string) string {
	if note != "" {
		label += " (" + note + ")"
	}
	return label
}

func (c *chart) speedUp(p *panel) error {
	base, err := c.baseline()
	if err != nil {
		return err
	}
	times := make(map[float64]float64)
	for _, x := range base.points {
		times[x.size] = x.time
	}
	p.yLabel = noted("speed-up over "+base.label, unitNote(c.runs, ""))
	p.lacking = "size in common with " + base.label
	err = c.lines(p, func(x point) (float64, bool) {
		t, ok := times[x.size]
		return t / x.time, ok
	})
	p.Y.Min, p.Y.Max = 0, p.hi*1.05
	return err
}

// baseline finds the line that Options.Baseline names.
func (c *chart) baseline() (*series, error) {
	find := func(is func(*series) bool) *series {
		for i := range c.all {
			if is(&c.all[i]) {
				return &c.all[i]
			}
		}
		return nil
	}
	mode := func(name string) func(*series) bool { return func(s *series) bool { return s.mode == name } }
	name := c.options.Baseline
	if name == "" {
		return cmp.Or(find(mode("nccl")), find(mode("ring")), &c.all[0]), nil
	}
	called := func(s *series) bool {
		return c.options.name(s.run, c.runs[s.run]) == name || s.run < len(c.options.Files) && c.options.Files[s.run] == name
	}
	s := find(func(s *series) bool { return s.label == name })
	if s == nil {
		// A run of several lines is no one line to compare with.
		var lines []string
		for i := range c.all {
			if called(&c.all[i]) {
				lines = append(lines, fmt.Sprintf("%q", c.all[i].label))
			}
		}
		if len(lines) > 1 {
			return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("%q is %d lines of the chart, to compare with one", name, len(lines)),
				Do: "name one of " + strings.Join(lines, ", "), By: failure.User}
		}
		s = cmp.Or(find(called), find(mode(name)))
	}
	if s == nil {
		var valid []string
		for _, x := range c.all {
			valid = append(valid, fmt.Sprintf("%q", x.label))
		}
		return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("no line of the chart is %q, to compare with", name),
			Do: "name one of " + strings.Join(valid, ", "), By: failure.User}
	}
	return s, nil
}

func (c *chart) spread(p *panel) error {
	p.yLabel = noted("iteration: p50, min to p99", unitNote(c.runs, ""))
	p.lacking = "spread of iterations"
	p.banded = true
	err := c.lines(p, func(x point) (float64, bool) {
		if !x.hasSpread() {
			return 0, false
		}
		return x.spread.p50, x.spread.p50 > 0
	})
	if err == nil {
		p.Y.Min, p.Y.Max = timeRange(p.lo, p.hi)
	}
	return err
}

func (c *chart) linkShare(p *panel) error {
	p.yLabel = "share of the links' peak (" + unitNote(c.runs, "%") + ")"
	p.lacking = "link share"
	err := c.lines(p, func(x point) (float64, bool) {
		if !x.hasShare() {
			return 0, false
		}
		return 100 * *x.share, true
	})
	if err != nil {
		return err
	}
	if peak := linkPeak(c.runs); peak > 0 {
		c.referenceLine(p, 100, peakLabel(peak), peakDashes)
		if l := linkLimit(c.runs); l > 0 && l <= 2*peak {
			c.referenceLine(p, 100*l/peak, limitLabel(l), limitDashes)
		}
	}
	p.Y.Min, p.Y.Max = 0, max(p.hi, 100)*1.05
	return nil
}

// lines draws y of every line's points, in a banded panel over the spread of
// iterations. Lines of no such point are noted as missing; it is an error when
// all are.
func (c *chart) lines(p *panel, y quantity) error {
	var lines curves
	for i, s := range c.all {
		var xy, low, high plotter.XYs
		for _, q := range s.points {
			if s := q.spread; p.banded && s != nil {
				low, high = append(low, plotter.XY{X: q.size, Y: s.min}), append(high, plotter.XY{X: q.size, Y: s.p99})
				p.lo, p.hi = min(p.lo, s.min), max(p.hi, s.p99)
			}
			v, ok := y(q)
			if !ok {
				continue
			}
			xy = append(xy, plotter.XY{X: q.size, Y: v})
			p.lo, p.hi = min(p.lo, v), max(p.hi, v)
			if l, set := c.options.Limits[p.kind]; set && (v < l.Lo || v > l.Hi) {
				p.outside++
			}
		}
		if xy == nil && low == nil {
			p.missing = append(p.missing, s.label)
			continue
		}
		if xy == nil {
			p.medianless = append(p.medianless, s.label)
		}
		look := c.theme.styleOf(c.looks[i], c.scale)
		if p.banded {
			p.Add(band{low, high, look})
			// Thin, so that the band is seen around it.
			look.line.Width, look.radius = look.line.Width*0.7, look.radius*0.7
		}
		lines = append(lines, curve{xy, look})
		c.drawn[i] = true
	}
	if lines == nil {
		e := failure.New(failure.Usage, "nothing to draw: no row has a %s", p.lacking)
		e.Do, e.By = "leave out this kind of chart: "+string(p.kind), failure.User
		return e
	}
	p.curves = lines
	p.Add(lines)
	return nil
}

// referenceLine draws a level across the panel.
func (c *chart) referenceLine(p *panel, y float64, label string, dash []vg.Length) {
	look := c.theme.reference(c.scale, dash)
	p.Add(curves{{plotter.XYs{{X: c.sizes[0], Y: y}, {X: c.sizes[1], Y: y}}, look}})
	if !slices.ContainsFunc(c.references, func(e entry) bool { return e.label == label }) {
		c.references = append(c.references, entry{label, look})
	}
	p.hi = max(p.hi, y)
}

// limit lays the user's range over that of the data.
func (c *chart) limit(p *panel) {
	if l, set := c.options.Limits[p.kind]; set {
		p.Y.Min, p.Y.Max = l.Lo, l.Hi
	}
}

// axes sets everything about the axes but their ranges and ticks' number.
func (c *chart) axes(p *panel) {
	p.X.Min, p.X.Max = c.sizes[0], c.sizes[1]
	p.X.Scale = plot.LogScale{}
	if p.kind.logarithmic() {
		p.Y.Scale = plot.LogScale{}
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		x, y := a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Tick.Label = textStyle(c.scale.of(tickText), c.theme.text, x, y)
		a.Tick.Length = c.scale.of(0.45)
		a.Color, a.LineStyle.Color, a.Tick.LineStyle.Color = c.theme.text, c.theme.text, c.theme.text
		a.LineStyle.Width, a.Tick.LineStyle.Width = c.scale.of(0.06), c.scale.of(0.06)
	}
	p.Y.Tick.Label.YAlign = text.YCenter
}

// ticks chooses as many ticks as fit on a panel of this size.
func (c *chart) ticks(p *panel, w, h vg.Length) {
	room := func(l vg.Length, each float64) int { return max(2, int(l/c.scale.of(each))) }
	// Tick labels take some of the panel's width and height themselves.
	p.X.Tick.Marker = sizeTicks{room(w-c.scale.of(6), 3)}
	vertical := room(h-c.scale.of(2), 1.7)
	if p.kind.logarithmic() {
		p.Y.Tick.Marker = timeTicks{vertical}
	} else {
		p.Y.Tick.Marker = linearTicks{min(vertical, 11)}
	}
}

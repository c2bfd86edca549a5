package plots

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Kind is what one panel of a chart shows against message size.
type Kind string

const (
	BusBW     Kind = "busbw"   // bus bandwidth
	Time      Kind = "time"    // time of one all-reduce, both axes logarithmic
	SpeedUp   Kind = "speedup" // time of a baseline over time
	Spread    Kind = "spread"  // iterations: the median, and a band from minimum to 99th percentile
	LinkShare Kind = "link"    // what the links carried, as a part of their peak
)

// Kinds lists every kind.
func Kinds() []Kind { return []Kind{BusBW, Time, SpeedUp, Spread, LinkShare} }

// Theme is the set of colours of a chart.
type Theme string

const (
	Light Theme = "light" // for screens and slides
	Dark  Theme = "dark"  // for dark slides
	Print Theme = "print" // black and greys: lines differ in dash and marker only
)

// Themes lists every theme.
func Themes() []Theme { return []Theme{Light, Dark, Print} }

// Options of a chart. The zero value is a good chart of bus bandwidth and time.
type Options struct {
	// Title replaces the heading; what was run where stands below it always.
	Title string
	// Kinds are the panels from the top; nil is bus bandwidth and time.
	Kinds []Kind
	// Theme is Light when empty.
	Theme Theme
	// Size on paper; zero is 9 inches wide and as high as the panels need. Text
	// has the same size on paper whatever the size of the chart, a little smaller
	// in a narrow one, and never below 6.5 points.
	Size Size
	// Limits of the vertical axes: GB/s, µs, a factor, µs, per cent. A kind that
	// is not there gets a range that holds all data.
	Limits map[Kind]Limits
	// Names call the runs in the legend, by their position; "" or none leaves it
	// to the run's own name or, without one, to what tells it from the others.
	Names []string
	// Files say where the runs were read from, by their position. They tell runs
	// apart that are alike in all else.
	Files []string
	// Baseline is the line that SpeedUp compares with: a label of the legend, the
	// name of a run, or a mode. "" is nccl, else ring, else the first line.
	Baseline string
}

// Size is that of a chart on paper.
type Size struct{ Width, Height vg.Length }

const (
	minSide = 5 * vg.Centimeter
	maxSide = 60 * vg.Centimeter // bounds the memory of a PNG
)

var lengthUnits = []struct {
	name string
	unit vg.Length
}{{"cm", vg.Centimeter}, {"mm", vg.Millimeter}, {"in", vg.Inch}, {"pt", 1}}

// ParseSize reads "12cmx8cm"; units are cm, mm, in and pt. The error is a
// failure with code Usage.
func ParseSize(s string) (Size, error) {
	bad := func(why string) (Size, error) {
		return Size{}, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--size %q is not possible", s), Why: why,
			Do: "write width x height as 12cmx8cm; units are cm, mm, in and pt, each side from 5cm to 60cm", By: failure.User}
	}
	w, h, two := strings.Cut(s, "x")
	if !two {
		return bad("it is not two lengths")
	}
	var sides [2]vg.Length
	for i, text := range []string{w, h} {
		known := false
		for _, u := range lengthUnits {
			number, ok := strings.CutSuffix(strings.TrimSpace(text), u.name)
			if !ok {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil {
				return bad(fmt.Sprintf("%q is not a length", text))
			}
			sides[i], known = vg.Length(v)*u.unit, true
			break
		}
		if !known {
			return bad(fmt.Sprintf("%q has no unit", text))
		}
		// A hair of room for what parsing rounds.
		if !(sides[i] >= minSide-0.01) || sides[i] > maxSide+0.01 {
			return bad(fmt.Sprintf("%s is out of range", text))
		}
	}
	return Size{sides[0], sides[1]}, nil
}

// Limits are the ends of a vertical axis.
type Limits struct{ Lo, Hi float64 }

// ParseLimits reads the vertical ranges of a chart: "0:500" for the only kind of
// the chart, "busbw=0:500" for one of several. The error is a failure with code
// Usage.
func ParseLimits(list []string, kinds []Kind) (map[Kind]Limits, error) {
	out := make(map[Kind]Limits)
	for _, s := range list {
		bad := func(why string) (map[Kind]Limits, error) {
			return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--ylim %q is not possible", s), Why: why,
				Do: "write the lower and the upper end as 0:500, or busbw=0:500 where the chart has several kinds", By: failure.User}
		}
		name, ends, named := strings.Cut(s, "=")
		k := Kind(name)
		switch {
		case !named && len(kinds) != 1:
			return bad("the chart has several kinds")
		case !named:
			k, ends = kinds[0], s
		case !slices.Contains(kinds, k):
			return bad(fmt.Sprintf("the chart has no kind %q", name))
		}
		if _, twice := out[k]; twice {
			return bad(fmt.Sprintf("%s has a range already", k))
		}
		lo, hi, two := strings.Cut(ends, ":")
		a, err1 := strconv.ParseFloat(lo, 64)
		b, err2 := strconv.ParseFloat(hi, 64)
		switch {
		case !two || err1 != nil || err2 != nil:
			return bad("it is not two numbers")
		case !(a < b) || math.IsInf(a, 0) || math.IsInf(b, 0):
			return bad("the upper end must be above the lower one")
		case a <= 0 && k.logarithmic():
			return bad(fmt.Sprintf("the axis of %s is logarithmic and has no zero", k))
		case a < 0:
			return bad("nothing that is drawn is below zero")
		case b-a < minRate || b > maxTime || k.logarithmic() && a < minTime:
			return bad("the range is too small or too large")
		}
		out[k] = Limits{a, b}
	}
	return out, nil
}

// Title names the kind in words.
func (k Kind) Title() string {
	return map[Kind]string{BusBW: "bus bandwidth", Time: "time", SpeedUp: "speed-up", Spread: "spread of iterations", LinkShare: "link share"}[k]
}

// Available lists the kinds that there is data for in runs.
func Available(runs []*Run) []Kind {
	lines, _ := collect(runs, Options{})
	if len(lines) == 0 {
		return nil
	}
	out := []Kind{BusBW, Time}
	if len(lines) > 1 {
		out = append(out, SpeedUp)
	}
	has := func(is func(point) bool) bool {
		return slices.ContainsFunc(lines, func(s series) bool { return slices.ContainsFunc(s.points, is) })
	}
	if has(point.hasSpread) {
		out = append(out, Spread)
	}
	if has(point.hasShare) {
		out = append(out, LinkShare)
	}
	return out
}

func (k Kind) logarithmic() bool { return k == Time || k == Spread }

// complete fills in defaults and refuses what is unknown.
func (o Options) complete() (Options, error) {
	if len(o.Kinds) == 0 {
		o.Kinds = []Kind{BusBW, Time}
	}
	for i, k := range o.Kinds {
		if !slices.Contains(Kinds(), k) {
			return o, failure.New(failure.Usage, "unknown kind of chart %q", k)
		}
		if slices.Contains(o.Kinds[:i], k) {
			return o, failure.New(failure.Usage, "kind of chart %q is named twice", k)
		}
	}
	if o.Theme == "" {
		o.Theme = Light
	}
	if themes[o.Theme] == nil {
		return o, failure.New(failure.Usage, "unknown theme %q", o.Theme)
	}
	return o, nil
}

// name is what the user calls run i, "" for nothing.
func (o Options) name(i int, r *result.Run) string {
	if i < len(o.Names) && o.Names[i] != "" {
		return o.Names[i]
	}
	return r.Name
}

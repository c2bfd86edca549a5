package plots

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

// sizeTicks are ticks of a logarithmic axis of bytes: one at each power of two,
// and at most max labels, in binary units: 512, 1K, 32M, 8G.
type sizeTicks struct{ max int }

// sizeSteps are the distances in powers of two between labels, to be tried in
// this order.
var sizeSteps = []int{1, 2, 4, 5, 10, 20}

func (t sizeTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Ceil(math.Log2(lo)-1e-9)), int(math.Floor(math.Log2(hi)+1e-9))
	step := sizeSteps[len(sizeSteps)-1]
	for _, s := range sizeSteps {
		if (last-first)/s+1 <= t.max {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		t := plot.Tick{Value: math.Ldexp(1, e)}
		if e%step == 0 {
			t.Label = sizeLabel(e)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// sizeLabel writes 2^e bytes in the letters that sizes are given in on the
// command line.
func sizeLabel(e int) string {
	const units = " KMGTPE"
	if e < 0 {
		return fmt.Sprintf("2^%d", e)
	}
	u := min(e/10, len(units)-1)
	s := strconv.FormatFloat(math.Ldexp(1, e-10*u), 'f', -1, 64)
	if u > 0 {
		s += units[u : u+1]
	}
	return s
}

// bytesLabel writes any number of bytes so, in the largest unit that divides it.
func bytesLabel(n uint64) string {
	units := []string{"", "K", "M", "G", "T", "P", "E"}
	u := 0
	for u < len(units)-1 && n > 0 && n%1024 == 0 {
		n /= 1024
		u++
	}
	return strconv.FormatUint(n, 10) + units[u]
}

// sizeRange rounds a range of sizes outwards to powers of two, at least a factor
// of two apart, and leaves a little room at both ends.
func sizeRange(lo, hi float64) (float64, float64) {
	a, b := math.Floor(math.Log2(lo)+1e-9), math.Ceil(math.Log2(hi)-1e-9)
	if a == b {
		a, b = a-1, b+1
	}
	room := (b - a) / 40
	return math.Exp2(a - room), math.Exp2(b + room)
}

// timeTicks are ticks of a logarithmic axis of microseconds: labels at powers
// of ten, and at 2 and 5 times those where they fit, as far apart as max labels
// would be.
type timeTicks struct{ max int }

// timeLabels are the multiples of powers of ten that are labelled, to be tried in
// this order. The later ones are for short axes whose range holds no two powers.
var timeLabels = [][]int{{1, 2, 5}, {1, 5}, {1}, {5}, {2}}

func (t timeTicks) Ticks(lo, hi float64) []plot.Tick {
	within := func(v float64) bool { return v >= lo*(1-1e-9) && v <= hi*(1+1e-9) }
	first, last := int(math.Floor(math.Log10(lo)+1e-9)), int(math.Floor(math.Log10(hi)+1e-9))
	var chosen map[float64]bool
	fits := func(every, offset int, multiples []int) bool {
		chosen = make(map[float64]bool)
		before := 0.0
		for e := first; e <= last; e++ {
			for _, m := range multiples {
				v := float64(m) * math.Pow10(e)
				if !within(v) || (e-first)%every != offset {
					continue
				}
				if before > 0 && math.Log(v/before)*float64(t.max) < 0.85*math.Log(hi/lo) {
					return false
				}
				chosen[v], before = true, v
			}
		}
		return len(chosen) > 1
	}
	found := slices.ContainsFunc(timeLabels, func(m []int) bool { return fits(1, 0, m) })
	for every := 2; !found && every <= last-first; every++ {
		for offset := 0; !found && offset < every; offset++ {
			found = fits(every, offset, []int{1})
		}
	}
	if !found {
		// A range that the user chose may hold no two of them.
		return linearTicks(t).label(lo, hi, timeLabel)
	}
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow10(e)
			if !within(v) {
				continue
			}
			tick := plot.Tick{Value: v}
			if chosen[v] {
				tick.Label = timeLabel(v)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// timeLabel writes microseconds in the unit that makes the number short.
func timeLabel(us float64) string {
	unit := "µs"
	switch {
	case us >= 999_999:
		us, unit = us/1e6, "s"
	case us >= 999.999:
		us, unit = us/1e3, "ms"
	case us < 0.0999:
		us, unit = us*1e3, "ns"
	}
	return strconv.FormatFloat(us, 'g', 4, 64) + " " + unit
}

// timeRange rounds a range of times outwards to 1, 2 or 5 times a power of ten
// and leaves a little room at both ends.
func timeRange(lo, hi float64) (float64, float64) {
	round := func(x float64, up bool) float64 {
		p := math.Pow(10, math.Floor(math.Log10(x)))
		best := p
		for _, m := range []float64{1, 2, 5, 10} {
			v := m * p
			if up && v >= x*(1-1e-9) {
				return v
			}
			if !up && v <= x*(1+1e-9) {
				best = v
			}
		}
		return best
	}
	a, b := round(lo, false), round(hi, true)
	if a == b {
		a, b = a/2, b*2
	}
	room := math.Pow(b/a, 1.0/40)
	return a / room, b * room
}

// linearTicks divide a linear axis into at most max steps, at multiples of 1, 2
// or 5 times a power of ten.
type linearTicks struct{ max int }

func (t linearTicks) Ticks(lo, hi float64) []plot.Tick {
	decimals := max(0, -int(math.Floor(math.Log10(t.step(lo, hi))+1e-9)))
	return t.label(lo, hi, func(v float64) string { return strconv.FormatFloat(v, 'f', decimals, 64) })
}

func (t linearTicks) label(lo, hi float64, name func(float64) string) []plot.Tick {
	step := t.step(lo, hi)
	var ticks []plot.Tick
	// Nothing that is drawn is below zero.
	for i := max(0, math.Ceil(lo/step-1e-9)); i*step <= hi*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: name(i * step)})
	}
	return ticks
}

// step is the least that divides the axis into no more than max.
func (t linearTicks) step(lo, hi float64) float64 {
	for p := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(t.max)))); ; p *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if (hi-lo)/(m*p) <= float64(t.max) {
				return m * p
			}
		}
	}
}

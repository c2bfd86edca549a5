package plots

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// sizeTicks are ticks of a logarithmic axis of bytes: one at each power of two,
// and labels at as many of them as fit, in binary units: 512, 1K, 32M, 8G.
type sizeTicks struct{}

// sizeSteps are the distances in powers of two between labels, to be tried in
// this order; maxSizeLabels is what fits beside each other.
var sizeSteps = []int{1, 2, 5, 10}

const maxSizeLabels = 16

func (sizeTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Ceil(math.Log2(lo)-1e-9)), int(math.Floor(math.Log2(hi)+1e-9))
	step := sizeSteps[len(sizeSteps)-1]
	for _, s := range sizeSteps {
		if (last-first)/s+1 <= maxSizeLabels {
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
// of ten, and at 2 and 5 times those where the range is short.
type timeTicks struct{}

func (timeTicks) Ticks(lo, hi float64) []plot.Tick {
	short := hi/lo < 150
	var ticks []plot.Tick
	for e := int(math.Floor(math.Log10(lo) + 1e-9)); e <= int(math.Floor(math.Log10(hi)+1e-9)); e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow10(e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || short && (m == 2 || m == 5) {
				t.Label = timeLabel(v)
			}
			ticks = append(ticks, t)
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

// rateTicks are ticks of a linear axis that begins at zero.
type rateTicks struct{}

func (rateTicks) Ticks(lo, hi float64) []plot.Tick {
	step := rateStep(hi)
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= hi*(1+1e-9); i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', decimals, 64)})
	}
	return ticks
}

// rateStep is 1, 2 or 5 times a power of ten and gives five to eleven steps up to
// hi.
func rateStep(hi float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(hi)))
	switch m := hi / p; {
	case m < 2:
		return p / 5
	case m < 5:
		return p / 2
	}
	return p
}

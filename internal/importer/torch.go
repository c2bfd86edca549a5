package importer

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// torchTrial is one run of the PyTorch script of the MSCCL++ discussion on NVLS
// in containers. The script prints "bandwidth" by one of several formulas,
// and does not say by which; the numbers do.
type torchTrial struct {
	line   int // of its first line
	gpu    string
	ranks  int
	tokens uint64
	gib    printed
	dtype  string
	iters  int
	warmup int
	trials int

	values  []torchValue
	median  bool // "Median Results:" was seen
	elapsed *printed
	rate    *printed
	latency *printed
}

// torchValue is one line of a trial, or the three of the medians.
type torchValue struct {
	line                   int
	elapsed, rate, latency printed
}

// hidden is the row length of the script's tensor, in elements.
const hidden = 8192

var (
	reTensor = regexp.MustCompile(`^Tensor size: (\d+) elements \((\d+\.\d+) GB for (\w+)\)$`)
	reTrial  = regexp.MustCompile(`^Trial (\d+): Elapsed time = (\S+) ms, Bandwidth = (\S+) GB/s, Latency = (\S+) us$`)
	reMedian = regexp.MustCompile(`^(Elapsed time|Bandwidth|Latency) = (\S+) (ms|GB/s|us)$`)
)

// torchText reads a line of the script's output.
func (s *stream) torchText(t []byte, n int) bool {
	start := func() *torchTrial {
		if s.torch == nil {
			s.torch = &torchTrial{line: n}
		}
		return s.torch
	}
	number := func(prefix string, to *int) bool {
		rest, ok := bytes.CutPrefix(t, []byte(prefix))
		if !ok || !digits(rest) {
			return false
		}
		*to, _ = strconv.Atoi(string(rest))
		return true
	}
	switch t[0] {
	case 'R':
		if rest, ok := bytes.CutPrefix(t, []byte("Running on ")); ok && s.table == nil {
			s.closeTorch()
			start().gpu = string(rest)
			return true
		}
	case 'N':
		if !bytes.HasPrefix(t, []byte("Number of ")) {
			return false
		}
		var x int
		if number("Number of GPUs: ", &x) {
			if s.torch != nil && s.torch.tokens != 0 {
				s.closeTorch()
			}
			start().ranks = x
			return true
		}
		x2 := s.torch
		if x2 == nil {
			return false
		}
		return number("Number of iterations: ", &x2.iters) || number("Number of warmup iterations: ", &x2.warmup) || number("Number of trials: ", &x2.trials)
	case 'T':
		if m := reTensor.FindSubmatch(t); m != nil {
			if s.torch != nil && s.torch.tokens != 0 {
				s.closeTorch()
			}
			x := start()
			x.tokens, _ = strconv.ParseUint(string(m[1]), 10, 64)
			x.gib, _ = parse(m[2])
			x.dtype = string(m[3])
			return true
		}
		if !bytes.HasPrefix(t, []byte("Trial ")) || !bytes.Contains(t, []byte("Elapsed time")) {
			return false
		}
		m := reTrial.FindSubmatch(t)
		v := torchValue{line: n}
		ok := m != nil
		for i, to := range []*printed{&v.elapsed, &v.rate, &v.latency} {
			var is bool
			if ok {
				*to, is = parse(m[2+i])
			}
			ok = ok && is
		}
		if !ok {
			s.unreadable(n, fmt.Sprintf("%q is no trial of the script", t))
			return true
		}
		x := start()
		if x.values = append(x.values, v); len(x.values) > maxTimes {
			s.log.full(n, maxTimes, "trials of one run")
		}
		return true
	case 'M':
		if s.torch != nil && bytes.Equal(t, []byte("Median Results:")) {
			s.torch.median = true
			return true
		}
	case 'E', 'B', 'L':
		if s.torch == nil || !s.torch.median {
			return false
		}
		m := reMedian.FindSubmatch(t)
		if m == nil {
			return false
		}
		v, ok := parse(m[2])
		if !ok {
			s.unreadable(n, fmt.Sprintf("%s is %q", m[1], m[2]))
			return true
		}
		switch string(m[1]) + string(m[3]) {
		case "Elapsed timems":
			s.torch.elapsed = &v
		case "BandwidthGB/s":
			s.torch.rate = &v
		case "Latencyus":
			s.torch.latency = &v
		default:
			s.log.problems.at(s.log.name, n, "the unit is not known", string(t), "")
			return true
		}
		if s.torch.elapsed != nil && s.torch.rate != nil && s.torch.latency != nil {
			s.closeTorch()
		}
		return true
	}
	return false
}

// closeTorch makes a row of a run of the script.
func (s *stream) closeTorch() {
	x := s.torch
	s.torch = nil
	if x == nil {
		return
	}
	if x.elapsed == nil || x.rate == nil {
		x.latency = nil // the log ends among the medians
	}
	if len(x.values) == 0 && x.latency == nil {
		return
	}
	p, name := s.log.problems, s.log.name
	if x.tokens == 0 {
		p.at(name, x.line, "the size of the tensor is not known", "the line \"Tensor size: …\" is missing", "give the whole log")
		return
	}
	width := bytesOf(x.dtype)
	if width == 0 {
		p.at(name, x.line, "the data type is not known", x.dtype, "")
		return
	}
	size, _ := x.size()
	if !x.gib.agrees(float64(size)/(1<<30), float64(size)/(1<<30)) {
		p.at(name, x.line, "the size of the tensor contradicts itself",
			fmt.Sprintf("%d tokens of %d elements of %s are %.4g GiB, and the script says %g", x.tokens, hidden, x.dtype, float64(size)/(1<<30), x.gib.value), "")
		return
	}
	tab := s.log.open(x.line, "PyTorch script")
	tab.closed, tab.ranks, tab.trial = true, x.ranks, x
	if tab.worldSize() > 0 {
		tab.torch()
	}
	// Else NCCL's log may tell the ranks later.
}

// torch makes the row of a run of the script whose number of ranks is known.
func (t *table) torch() {
	x, tab := t.trial, t
	t.trial = nil
	defer t.seal()
	p, name, ranks := t.log.problems, t.log.name, t.worldSize()
	size, elements := x.size()
	all := x.values
	if x.latency != nil {
		all = append(all, torchValue{line: x.line, elapsed: *x.elapsed, rate: *x.rate, latency: *x.latency})
	}
	formula := ""
	for _, v := range all {
		if v.latency.value <= 0 {
			p.at(name, v.line, "the numbers contradict each other", "the latency is 0", "")
			return
		}
		if x.iters > 0 && !v.latency.agrees(v.elapsed.low()*1e3/float64(x.iters), v.elapsed.high()*1e3/float64(x.iters)) {
			p.at(name, v.line, "the numbers contradict each other", fmt.Sprintf("%g ms of %d iterations are not %g µs each", v.elapsed.value, x.iters, v.latency.value), "")
			return
		}
		f := torchFormula(size, ranks, v)
		if f == "" || formula != "" && f != formula {
			p.at(name, v.line, "the formula of the bandwidth is not known",
				fmt.Sprintf("%d bytes in %g µs on %d ranks, and the script says %g GB/s; it is neither 2·bytes/time nor 2·(n−1)/n·bytes/time, in GiB or GB", size, v.latency.value, ranks, v.rate.value), "")
			return
		}
		formula = f
	}
	r := result.Row{Mode: "pytorch", Size: size, Count: elements, DataType: x.dtype, Op: "sum", Placement: result.InPlace}
	for _, v := range x.values {
		r.Times = append(r.Times, v.latency.value)
	}
	r.Iterations = result.Summarize(r.Times)
	if x.latency != nil {
		r.Time = x.latency.value
	} else {
		r.Time = r.Iterations.P50
		tab.closed = false
		tab.cut = "the medians are missing; the time is the median of the trials that are there"
	}
	if x.trials > 0 && len(x.values) < x.trials && tab.cut == "" {
		tab.note("%d of %d trials are in the log", len(x.values), x.trials)
	}
	r.AlgBW = result.AlgBW(size, r.Time)
	r.BusBW = result.BusBW(r.AlgBW, ranks)
	if x.gpu != "" {
		tab.devices = []result.Device{{Name: x.gpu}}
	}
	if x.iters > 0 {
		tab.sweep = &result.Sweep{MinBytes: size, MaxBytes: size, Warmup: x.warmup, Iters: x.iters, Cycles: 1}
	}
	shown := all[len(all)-1].rate.value
	tab.note("the script's bandwidth is %s (%g for the median); converted to bus bandwidth, 2(n−1)/n·bytes/time in GB/s with n = %d: %.2f", formula, shown, ranks, r.BusBW)
	tab.note("time is the median of %d trials; each trial is the mean of %d calls and stands as one iteration", max(len(x.values), 1), max(x.iters, 1))
	tab.note("the script does not tell which library reduced")
	tab.append(x.line, r, 0)
}

// size gives the bytes and elements of the tensor.
func (x *torchTrial) size() (bytes, elements uint64) {
	elements = x.tokens * hidden
	return elements * bytesOf(x.dtype), elements
}

// torchFormula finds by which formula the script made its bandwidth of a
// latency; "" when by none of the four.
func torchFormula(size uint64, ranks int, v torchValue) string {
	bytes := float64(size)
	seconds := v.latency.value * 1e-6
	var found string
	for _, f := range []struct {
		name         string
		factor, unit float64
	}{
		{"2·bytes/time in GiB/s", 2, 1 << 30},
		{"2·(n−1)/n·bytes/time in GiB/s", result.BusFactor(ranks), 1 << 30},
		{"2·bytes/time in GB/s", 2, 1e9},
		{"2·(n−1)/n·bytes/time in GB/s", result.BusFactor(ranks), 1e9},
	} {
		// Both numbers have three decimals; the script rounds no earlier.
		want := f.factor * bytes / seconds / f.unit
		slack := want*(v.latency.half/v.latency.value+1e-5) + v.rate.half
		if math.Abs(want-v.rate.value) <= slack {
			if found != "" {
				return ""
			}
			found = f.name
		}
	}
	return found
}

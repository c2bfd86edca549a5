package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// series is one line of a chart.
type series struct {
	key
	imported bool // from a log of another program
	label    string
	points   []point  // by rising size, one for each size
	repeated []uint64 // sizes that have several rows
}

// key is what the rows of one line have in common.
type key struct {
	run      int    // index into the runs of the chart
	mode     string // that ran
	title    string // of the mode: what was asked for, where that is another one
	graph    int
	datatype string
	op       string
	inPlace  bool
}

// point is the measurement of one size.
type point struct {
	size, time, busBW float64  // bytes, µs, GB/s
	share             *float64 // of the links' peak, 1 = all of it; nil when not known
	spread            *spread  // of iterations; nil when not known
}

// spread is of iterations, in µs. The median is 0 where an imported log has none.
type spread struct{ min, p50, p99 float64 }

// spreadOf gives the spread of r's iterations, nil when it cannot stand on an
// axis.
func spreadOf(r result.Row) *spread {
	var s spread
	switch {
	case r.Iterations != nil:
		s = spread{r.Iterations.Min, r.Iterations.P50, r.Iterations.P99}
		if s.p50 < s.min || s.p50 > s.p99 {
			return nil
		}
	case r.Range != nil:
		s = spread{min: r.Range.Min, p99: r.Range.P99}
	}
	if s.min < minTime || s.min > s.p99 || s.p99 > maxTime {
		return nil
	}
	return &s
}

// Bounds of what an axis is made for. A result file may hold any number, and
// ticks of a range like 1e-300 to 1e300 have no end.
const (
	minTime = 1e-6 // µs
	maxTime = 1e15 // µs, 30 years
	minRate = 1e-9 // GB/s, a byte a second
	maxRate = 1e12 // GB/s
)

// drawable tells whether r can stand on the axes at all.
func drawable(r result.Row) bool {
	return r.Size > 0 && r.Time >= minTime && r.Time <= maxTime && r.BusBW <= maxRate
}

// hasSpread tells whether p can stand in a chart of Spread.
func (p point) hasSpread() bool { return p.spread != nil }

// hasShare tells whether p can stand in a chart of LinkShare.
func (p point) hasShare() bool { return p.share != nil && *p.share >= 0 && *p.share <= maxRate }

// collect makes the lines of a chart, in the order in which the rows were
// measured. Out-of-place rows are drawn; a mode that has only in-place rows is
// drawn by those and says so. Rows that are not drawable, as those of no time, are
// left out and counted.
func collect(runs []*result.Run, o Options) (all []series, left int) {
	rows := make(map[key][]result.Row)
	for i, run := range runs {
		for _, r := range run.Rows {
			if !drawable(r) {
				left++
				continue
			}
			k := key{i, r.Mode, r.Title(), r.Graph, r.DataType, r.Op, r.Placement == result.InPlace}
			if rows[k] == nil {
				all = append(all, series{key: k, imported: run.Tool != ""})
			}
			rows[k] = append(rows[k], r)
		}
	}
	all = slices.DeleteFunc(all, func(s series) bool {
		other := s.key
		other.inPlace = false
		return s.inPlace && rows[other] != nil
	})
	for i := range all {
		all[i].points, all[i].repeated = points(rows[all[i].key])
		all[i].label = clean(label(all[i], all, runs, o))
	}
	distinguish(all)
	return all, left
}

// points sorts rows by size. Of several of the same size, as a repeated sweep
// has, the one of the median time stands for all, or of an even number the mean of
// the two middle ones; repeated lists such sizes.
func points(rows []result.Row) (out []point, repeated []uint64) {
	slices.SortStableFunc(rows, func(a, b result.Row) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Time, b.Time))
	})
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Size == rows[0].Size {
			n++
		}
		if n > 1 {
			repeated = append(repeated, rows[0].Size)
		}
		out = append(out, middle(rows[(n-1)/2], rows[n/2]))
		rows = rows[n:]
	}
	return out, repeated
}

// middle is the point between two rows of one size, of which the second may be the
// first. Bandwidths follow from its time. Its band holds those of both.
func middle(a, b result.Row) point {
	p := point{float64(a.Size), a.Time, a.BusBW, a.LinkShare, spreadOf(a)}
	if p.time += (b.Time - a.Time) / 2; p.time == a.Time {
		return p
	}
	p.busBW *= a.Time / p.time
	if p.share != nil {
		share := *p.share * (a.Time / p.time)
		p.share = &share
	}
	if s := spreadOf(b); p.spread == nil || s == nil {
		p.spread = nil
	} else {
		p.spread = &spread{min(p.spread.min, s.min), p.spread.p50 + (s.p50-p.spread.p50)/2, max(p.spread.p99, s.p99)}
	}
	return p
}

// label names s by the name of its run, if it has one, or else by its mode; and
// by whatever tells it from the other lines.
func label(s series, all []series, runs []*result.Run, o Options) string {
	name := o.name(s.run, runs[s.run])
	// The lines that s could be taken for: a name tells a run's lines from others.
	near := slices.DeleteFunc(slices.Clone(all), func(x series) bool { return name != "" && x.run != s.run })
	differ := func(of func(series) string) bool {
		return slices.ContainsFunc(near, func(x series) bool { return of(x) != of(s) })
	}
	var words []string
	// A name does not hide that another mode ran than was asked for.
	if title := func(x series) string { return x.title }; name == "" || differ(title) || s.title != s.mode {
		words = append(words, s.title)
	}
	if s.graph > 0 && (name == "" || differ(func(x series) string { return fmt.Sprint(x.graph) })) {
		w := "graph"
		if slices.ContainsFunc(near, func(x series) bool { return x.graph > 0 && x.graph != s.graph }) {
			w += fmt.Sprintf(" x%d", s.graph)
		}
		words = append(words, w)
	}
	if s.inPlace {
		words = append(words, "in-place")
	}
	for _, of := range []func(series) string{
		func(x series) string { return x.datatype },
		func(x series) string { return x.op },
	} {
		if differ(of) {
			words = append(words, of(s))
		}
	}
	if name == "" {
		words = append(words, origin(s, all, runs, o)...)
	}
	if l := runs[s.run].Label(); l != "" && slices.ContainsFunc(runs, func(r *result.Run) bool { return r.Label() == "" }) {
		words = append(words, l)
	}
	switch text := strings.Join(words, ", "); {
	case name == "":
		return text
	case text == "":
		return name
	default:
		return name + ": " + text
	}
}

// origin tells the run of s from the other runs without a name: by its machine,
// or where another has the same, by its file or its id.
func origin(s series, all []series, runs []*result.Run, o Options) []string {
	mine, alike, others := Machine(runs[s.run]), false, false
	for _, x := range all {
		if x.run != s.run && o.name(x.run, runs[x.run]) == "" {
			others = true
			alike = alike || Machine(runs[x.run]) == mine
		}
	}
	id := runs[s.run].ID
	switch {
	case !others:
		return nil
	case !alike:
		return []string{mine}
	case s.run < len(o.Files):
		return []string{o.Files[s.run]}
	case id != "":
		return []string{"run " + id[:min(len(id), 6)]}
	}
	return []string{fmt.Sprintf("result %d", s.run+1)}
}

// distinguish numbers lines whose labels are the same all the same, as those of
// two runs that were given one name.
func distinguish(all []series) {
	seen := make(map[string]int)
	for i := range all {
		l := all[i].label
		if seen[l]++; seen[l] > 1 {
			all[i].label = fmt.Sprintf("%s (%d)", l, seen[l])
		}
	}
}

// Machine names the GPUs of a run and their number: "8 × NVIDIA H200". Ranks
// are counted beside when they share GPUs.
func Machine(r *Run) string {
	// A log may not tell UUIDs, or not all GPUs; then each rank has its own.
	var seen []string
	for _, d := range r.Devices {
		id := cmp.Or(d.UUID, fmt.Sprintf("rank %d", d.Rank))
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	gpus := len(seen)
	if len(r.Devices) < r.WorldSize {
		gpus = r.WorldSize
	}
	s := fmt.Sprintf("%d × %s", gpus, cmp.Or(r.DeviceName(), "unknown GPU"))
	if gpus != r.WorldSize {
		s = fmt.Sprintf("%d ranks on %s", r.WorldSize, s)
	}
	return s
}

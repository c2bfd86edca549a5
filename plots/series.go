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
	label  string
	points []point // by rising size, one for each size
}

// key is what the rows of one line have in common.
type key struct {
	run      int // index into the runs of the chart
	mode     string
	graph    int
	datatype string
	op       string
	inPlace  bool
}

// point is the measurement of one size.
type point struct {
	size, time, busBW float64 // bytes, µs, GB/s
}

// collect makes the lines of a chart, in the order in which the rows were
// measured. Out-of-place rows are drawn; a mode that has only in-place rows is
// drawn by those and says so. Rows of no size or no time cannot stand on a
// logarithmic axis and are left out.
func collect(runs []*result.Run) []series {
	var all []series
	rows := make(map[key][]result.Row)
	for i, run := range runs {
		for _, r := range run.Rows {
			if r.Size == 0 || r.Time <= 0 {
				continue
			}
			k := key{i, r.Mode, r.Graph, r.DataType, r.Op, r.Placement == result.InPlace}
			if rows[k] == nil {
				all = append(all, series{key: k})
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
		all[i].points = points(rows[all[i].key])
		all[i].label = label(all[i], all, runs)
	}
	return all
}

// points sorts rows by size. Of several of the same size, as a repeated sweep
// has, the one of the median time stands for all.
func points(rows []result.Row) []point {
	slices.SortStableFunc(rows, func(a, b result.Row) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Time, b.Time))
	})
	var out []point
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Size == rows[0].Size {
			n++
		}
		m := rows[(n-1)/2]
		out = append(out, point{float64(m.Size), m.Time, m.BusBW})
		rows = rows[n:]
	}
	return out
}

// label names s by its mode and by whatever tells it from the other lines.
func label(s series, all []series, runs []*result.Run) string {
	differ := func(of func(series) string) bool {
		return slices.ContainsFunc(all, func(x series) bool { return of(x) != of(s) })
	}
	words := []string{s.mode}
	if s.graph > 0 {
		words = append(words, "graph")
		if slices.ContainsFunc(all, func(x series) bool { return x.graph > 0 && x.graph != s.graph }) {
			words[len(words)-1] += fmt.Sprintf(" x%d", s.graph)
		}
	}
	if s.inPlace {
		words = append(words, "in-place")
	}
	// In the order of what a reader looks for; a run's id only tells runs apart
	// that are alike in all else.
	type part = func(series) string
	parts := []part{
		func(x series) string { return x.datatype },
		func(x series) string { return x.op },
		func(x series) string { return machine(runs[x.run]) },
	}
	for _, of := range parts {
		if differ(of) {
			words = append(words, of(s))
		}
	}
	if slices.ContainsFunc(all, func(x series) bool { return x.run != s.run && machine(runs[x.run]) == machine(runs[s.run]) }) {
		id := runs[s.run].ID
		words = append(words, "run "+id[:min(len(id), 6)])
	}
	if l := runs[s.run].Label(); l != "" && slices.ContainsFunc(runs, func(r *result.Run) bool { return r.Label() == "" }) {
		words = append(words, l)
	}
	return strings.Join(words, ", ")
}

// machine names the GPUs of a run and their number: "8 × NVIDIA H200". Ranks
// are counted beside when they share GPUs.
func machine(r *result.Run) string {
	var seen []string
	for _, d := range r.Devices {
		if !slices.Contains(seen, d.UUID) {
			seen = append(seen, d.UUID)
		}
	}
	gpus := cmp.Or(len(seen), r.WorldSize)
	s := fmt.Sprintf("%d × %s", gpus, cmp.Or(r.DeviceName(), "unknown GPU"))
	if gpus != r.WorldSize {
		s = fmt.Sprintf("%d ranks on %s", r.WorldSize, s)
	}
	return s
}

package result

import (
	"encoding/csv"
	"io"
	"strconv"
)

// column is one column of the CSV format.
type column struct {
	name  string
	value func(*Run, *Row) string
}

// columns in the order of the file: what the run was, what the row was, what
// was measured. Units are in the names. New columns go at the end.
var columns = []column{
	{"run_id", func(r *Run, _ *Row) string { return r.ID }},
	{"state", func(r *Run, _ *Row) string { return string(r.Status.State) }},
	{"simulated", func(r *Run, _ *Row) string { return strconv.FormatBool(r.Simulated) }},
	{"shared_gpu", func(r *Run, _ *Row) string { return strconv.FormatBool(r.SharedGPU) }},
	{"world_size", func(r *Run, _ *Row) string { return strconv.Itoa(r.WorldSize) }},
	{"device", func(r *Run, _ *Row) string { return r.DeviceName() }},
	{"driver", func(r *Run, _ *Row) string { return r.Driver }},
	{"mode", func(_ *Run, w *Row) string { return w.Mode }},
	{"algorithm", func(_ *Run, w *Row) string { return w.Algorithm }},
	{"graph", func(_ *Run, w *Row) string { return strconv.Itoa(w.Graph) }},
	{"datatype", func(_ *Run, w *Row) string { return w.DataType }},
	{"op", func(_ *Run, w *Row) string { return w.Op }},
	{"placement", func(_ *Run, w *Row) string { return string(w.Placement) }},
	{"cycle", func(_ *Run, w *Row) string { return strconv.Itoa(w.Cycle) }},
	{"size_bytes", func(_ *Run, w *Row) string { return strconv.FormatUint(w.Size, 10) }},
	{"count", func(_ *Run, w *Row) string { return strconv.FormatUint(w.Count, 10) }},
	{"time_us", func(_ *Run, w *Row) string { return number(w.Time) }},
	{"algbw_gb_s", func(_ *Run, w *Row) string { return number(w.AlgBW) }},
	{"busbw_gb_s", func(_ *Run, w *Row) string { return number(w.BusBW) }},
	{"linkbw_gb_s", func(_ *Run, w *Row) string { return optional(w.LinkBW) }},
	{"link_share", func(_ *Run, w *Row) string { return optional(w.LinkShare) }},
	{"wrong", func(_ *Run, w *Row) string { return elements(w.Wrong) }},
	{"iterations", func(_ *Run, w *Row) string {
		if w.Iterations == nil {
			return ""
		}
		return strconv.Itoa(w.Iterations.N)
	}},
	{"min_us", statistic(func(s *Stats) float64 { return s.Min })},
	{"p50_us", statistic(func(s *Stats) float64 { return s.P50 })},
	{"p99_us", statistic(func(s *Stats) float64 { return s.P99 })},
	{"max_us", statistic(func(s *Stats) float64 { return s.Max })},
	{"mean_us", statistic(func(s *Stats) float64 { return s.Mean })},
	{"host_us", func(_ *Run, w *Row) string { return optional(w.HostTime) }},
	{"asked", func(_ *Run, w *Row) string { return w.Title() }},
	{"checked", func(_ *Run, w *Row) string { return elements(w.Checked) }},
}

func statistic(of func(*Stats) float64) func(*Run, *Row) string {
	return func(_ *Run, w *Row) string {
		if w.Iterations == nil {
			return ""
		}
		return number(of(w.Iterations))
	}
}

func elements(n *uint64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatUint(*n, 10)
}

// number writes the shortest text that reads back as the same value.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return number(*x)
}

// EncodeCSV writes a header and one line for each row of each run: every
// combination of size, mode, placement, graph and cycle is a line of its own,
// with what is constant in a run repeated. What is not known is empty.
func EncodeCSV(out io.Writer, runs ...*Run) error {
	w := csv.NewWriter(out)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	if err := w.Write(line); err != nil {
		return err
	}
	for _, r := range runs {
		for i := range r.Rows {
			for j, c := range columns {
				line[j] = c.value(r, &r.Rows[i])
			}
			if err := w.Write(line); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// WriteCSVFile writes the CSV of runs to path, replacing the file whole.
func WriteCSVFile(path string, runs ...*Run) error {
	return Replace(path, func(w io.Writer) error { return EncodeCSV(w, runs...) })
}

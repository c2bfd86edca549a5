package plots

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

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

// common is a number that all runs have and that is a measurement's, in the
// unit of the number; otherwise 0.
func common(runs []*result.Run, of func(*result.Run) float64) float64 {
	for _, r := range runs {
		if len(r.Labels()) > 0 || of(r) != of(runs[0]) {
			return 0
		}
	}
	return of(runs[0])
}

// linkPeak is the peak of one GPU's links in GB/s, linkLimit what they were
// measured to carry; 0 when not the same for all runs.
func linkPeak(runs []*result.Run) float64 {
	return common(runs, (*result.Run).LinkPeak) / 1e9
}

func linkLimit(runs []*result.Run) float64 {
	return common(runs, func(r *result.Run) float64 { return r.LinkLimit })
}

// facts say what was measured where and when: what was reduced on which GPUs;
// then software and date. What differs between runs is joined.
func facts(runs []*result.Run, all []series) [][]string {
	list := func(of func(*result.Run) []string) string {
		var out []string
		for _, r := range runs {
			for _, s := range of(r) {
				if s != "" && !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
		return strings.Join(out, ", ")
	}
	one := func(of func(*result.Run) string) string {
		return list(func(r *result.Run) []string { return []string{of(r)} })
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
	program := one(func(r *result.Run) string {
		switch {
		case r.Tool != "":
			return r.Tool
		case r.Version != "":
			return "nvls-allreduce " + r.Version
		}
		return ""
	})
	groups := [][]string{
		{one(Machine), strings.Join(what, ", "), strings.Join(place, ", ")},
		{
			one(func(r *result.Run) string { return r.Driver }), list(func(r *result.Run) []string { return r.Libraries }),
			one((*result.Run).MPIName), program,
			one(func(r *result.Run) string {
				if r.Start.IsZero() {
					return ""
				}
				return r.Start.Format("2006-01-02")
			}),
		},
	}
	for i := range groups {
		groups[i] = slices.DeleteFunc(groups[i], func(s string) bool { return s == "" })
	}
	return groups
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

// notes say what a chart leaves out or sums up.
func (c *chart) notes(left int) []string {
	var out []string
	if left > 0 {
		out = append(out, fmt.Sprintf("%s without a usable size or time not drawn", counted(left, "row")))
	}
	if n := len(c.all); n > maxApart {
		out = append(out, fmt.Sprintf("%d lines, more than can be told apart well", n))
	}
	if r := repeatedSizes(c.all); r != "" {
		out = append(out, r+" measured more than once: the median is drawn")
	}
	if c.moved {
		out = append(out, "markers that would hide each other stand side by side on their lines")
	}
	for _, p := range c.panels {
		for _, x := range []struct {
			what  string
			lines []string
		}{{p.lacking, p.missing}, {"median of iterations", p.medianless}} {
			if n := len(x.lines); n > 2 {
				out = append(out, fmt.Sprintf("no %s known: %d of %s", x.what, n, counted(len(c.all), "line")))
			} else if n > 0 {
				out = append(out, fmt.Sprintf("no %s known: %s", x.what, strings.Join(x.lines, "; ")))
			}
		}
		if p.outside > 0 {
			out = append(out, fmt.Sprintf("%s outside the range of the %s axis", counted(p.outside, "point"), p.kind))
		}
	}
	return out
}

// repeatedSizes names the sizes that any line has several times, or counts them
// if they are many.
func repeatedSizes(all []series) string {
	var sizes []uint64
	for _, s := range all {
		sizes = append(sizes, s.repeated...)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	if len(sizes) > 5 {
		return counted(len(sizes), "size")
	}
	var words []string
	for _, s := range sizes {
		words = append(words, bytesLabel(s))
	}
	return strings.Join(words, ", ")
}

// counted writes a number of things: "1 row", "2 rows".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

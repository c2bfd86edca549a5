package result

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Printer writes a run as text while it is measured: the table of nccl-tests,
// column for column, one for each mode, and everything else on lines that begin
// with '#'. Programs that read nccl-tests take columns from the right, so a row
// has no column more.
//
// Call Header once, then for each mode Table, Row for each size, EndTable, and
// at last Footer. The first error of the writer is kept and returned by all
// later calls.
type Printer struct {
	// Unverified says that a check did not look at every element, so that no wrong
	// ones found means nothing.
	Unverified bool

	w   io.Writer
	run *Run
	err error

	title string
	rows  []*Row // of the current table
}

// NewPrinter makes a printer of run. It reads the run's description in Header
// and its rows in Footer; fields may be filled in between.
func NewPrinter(w io.Writer, run *Run) *Printer { return &Printer{w: w, run: run} }

func (p *Printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// mark is what follows a heading or a total of a run that is no measurement.
func (p *Printer) mark() string {
	if l := p.run.Label(); l != "" {
		return "  [" + l + "]"
	}
	return ""
}

// Header writes what is known before the first measurement.
func (p *Printer) Header() error {
	r, s := p.run, p.run.Sweep
	step, unit := fmt.Sprint(s.StepBytes), "bytes"
	if s.StepFactor > 1 {
		step, unit = fmt.Sprintf("%g", s.StepFactor), "factor"
	}
	p.printf("# nvls-allreduce version %s%s\n", r.Version, p.mark())
	p.printf("# Collective test starting: all_reduce_perf\n")
	p.printf("# nThread 1 nGpus 1 minBytes %d maxBytes %d step: %s(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: %d unalign: 0\n",
		s.MinBytes, s.MaxBytes, step, unit, s.Warmup, s.Iters, s.Check, s.Graph)
	p.printf("#\n")
	if r.Simulated {
		p.printf("# SIMULATED: the device is software; no number below is a measurement of hardware.\n")
	}
	if r.SharedGPU {
		p.printf("# SHARED GPU: ranks share a GPU and run one after another; no number below is a measurement.\n")
	}
	p.printf("# Run %s started %s\n", r.ID, r.Start.Format(time.RFC3339))
	p.printf("# Launcher %s, MPI %s, container %s\n",
		cmp.Or(r.Launcher, "unknown"), cmp.Or(r.MPI, "none"), cmp.Or(r.Container, "none"))
	p.printf("# Driver %s\n", cmp.Or(r.Driver, "unknown"))
	p.printf("# Using devices\n")
	for _, d := range r.Devices {
		p.printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n",
			d.Rank, 0, d.PID, d.Host, d.Ordinal, cmp.Or(d.PCI, "no PCI"), d.Name)
	}
	for _, d := range r.Decisions {
		where := "all sizes"
		if d.SizeBytes != 0 {
			where = fmt.Sprintf("%d bytes", d.SizeBytes)
		}
		p.printf("# Mode %s, %s: %s: %s\n", d.Requested, where, d.Outcome(), d.Reason)
	}
	return p.err
}

// Table begins the table of rows that have one title: Row.Title. algorithms are those that will run, as
// far as they are known before; the title leaves out their launch geometry,
// which EndTable gives for each size. graph is the number of graph launches, 0
// for none.
func (p *Printer) Table(title string, algorithms []string, graph int) error {
	p.title, p.rows = title, nil
	if names := shapes(algorithms); len(names) > 0 {
		p.title += " (" + strings.Join(names, ", ") + ")"
	}
	if graph > 0 {
		p.title += fmt.Sprintf(", CUDA graph launched %d times", graph)
	} else {
		p.title += ", no CUDA graph"
	}
	p.printf("#\n# %s%s\n#\n", p.title, p.mark())
	p.printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "", "", "", "")
	p.printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size", "count", "type", "redop", "root",
		"time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong")
	p.printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "(B)", "(elements)", "", "", "",
		"(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "")
	return p.err
}

// Row writes one size: both placements of the same call. Either may be nil when
// it was not measured; its columns are then N/A.
func (p *Printer) Row(out, in *Row) error {
	r := cmp.Or(out, in)
	if r == nil {
		return p.err
	}
	p.printf("%12d  %12d  %8s  %6s  %6s", r.Size, r.Count, r.DataType, r.Op, "-1")
	for _, x := range []*Row{out, in} {
		if x == nil {
			p.printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A")
			continue
		}
		wrong := "N/A"
		if x.Wrong != nil {
			wrong = fmt.Sprintf("%.6g", float64(*x.Wrong))
		}
		p.printf("  %s  %s  %s  %6s", fit(x.Time, 7), fit(x.AlgBW, 6), fit(x.BusBW, 6), wrong)
		p.rows = append(p.rows, x)
	}
	p.printf("\n")
	for _, x := range []*Row{out, in} {
		if x != nil && x.FirstWrong != nil {
			f := x.FirstWrong
			p.printf("# WRONG %s: first at rank %d, element %d: expected %s (%s), got %s (%s)\n",
				x.Placement, f.Rank, f.Index, f.Expected.Bits, f.Expected.Value, f.Got.Bits, f.Got.Value)
		}
	}
	return p.err
}

// EndTable writes, on '#' lines, what the table has no columns for: the rate of
// the links and its share of their peak, and the spread over iterations.
func (p *Printer) EndTable() error {
	if len(p.rows) == 0 {
		return p.err
	}
	p.printf("#\n# Links (GB/s carried by one GPU in one direction) and iterations (us, device events, slowest rank)%s\n", p.mark())
	p.printf("# %10s  %5s  %7s  %6s  %7s  %7s  %7s  %7s  %7s  %s\n",
		"size", "place", "link", "share", "min", "p50", "p99", "max", "host", "algorithm")
	for _, r := range p.rows {
		var s struct{ min, p50, p99, max *float64 }
		if i := r.Iterations; i != nil {
			s.min, s.p50, s.p99, s.max = &i.Min, &i.P50, &i.P99, &i.Max
		}
		place := "out"
		if r.Placement == InPlace {
			place = "in"
		}
		p.printf("# %10d  %5s  %s  %s  %s  %s  %s  %s  %s  %s\n", r.Size, place, fitPtr(r.LinkBW, 7), percent(r.LinkShare, 6),
			fitPtr(s.min, 7), fitPtr(s.p50, 7), fitPtr(s.p99, 7), fitPtr(s.max, 7), fitPtr(r.HostTime, 7), cmp.Or(r.Algorithm, "unknown"))
	}
	p.rows = nil
	return p.err
}

// Footer writes the totals of all rows of the run and its status. "Out of
// bounds values" counts failed checks (rows), as in nccl-tests, and the average
// is over all rows; each mode's average is beside it.
func (p *Printer) Footer() error {
	r, t := p.run, p.run.Totals()
	verdict := "OK"
	switch {
	case t.FailedChecks > 0:
		verdict = "FAILED"
	case p.Unverified:
		verdict = "INCOMPLETE"
	}
	p.printf("#\n# %-20s : %d %s\n", "Out of bounds values", t.FailedChecks, verdict)
	if t.Checked < len(r.Rows) {
		p.printf("# %-20s : %d of %d rows were checked\n", "Verification", t.Checked, len(r.Rows))
	}
	verdict = ""
	if r.MinBusBW > 0 {
		verdict = " OK"
		if !t.Meets(r.MinBusBW) {
			verdict = " FAILED"
		}
	}
	p.printf("# %-20s : %.6g%s%s\n", "Avg bus bandwidth", t.AvgBusBW, verdict, p.mark())
	for _, m := range t.Modes {
		graph := ""
		if m.Graph > 0 {
			graph = ", graph"
		}
		p.printf("#   %s%s: average %.6g GB/s, largest %.6g GB/s%s\n", m.Mode, graph, m.AvgBusBW, m.MaxBusBW, p.mark())
	}
	if r.MinBusBW > 0 {
		p.printf("# %-20s : %.6g GB/s, from the average of every mode\n", "Required", r.MinBusBW)
	}
	p.printf("#\n")
	switch r.Status.State {
	case Complete:
		p.printf("# Collective test concluded: all_reduce_perf\n")
	default:
		p.printf("# Run %s: %s\n", r.Status.State, cmp.Or(r.Status.Reason, "not finished"))
	}
	p.printf("#\n")
	return p.err
}

// EncodeText writes a whole run as text, as it would have been printed while it
// was measured.
func EncodeText(w io.Writer, r *Run) error {
	p := NewPrinter(w, r)
	p.Header()
	for i := 0; i < len(r.Rows); {
		first := &r.Rows[i]
		end := i
		var algorithms []string
		for end < len(r.Rows) && sameTable(first, &r.Rows[end]) {
			algorithms = append(algorithms, r.Rows[end].Algorithm)
			end++
		}
		p.Table(first.Title(), algorithms, first.Graph)
		for i < end {
			out, in := &r.Rows[i], (*Row)(nil)
			i++
			if out.Placement == InPlace {
				out, in = nil, out
			} else if i < end && r.Rows[i].Placement == InPlace && sameCall(out, &r.Rows[i]) {
				in = &r.Rows[i]
				i++
			}
			p.Row(out, in)
		}
		p.EndTable()
	}
	return p.Footer()
}

func sameTable(a, b *Row) bool {
	return a.Title() == b.Title() && a.Graph == b.Graph && a.Cycle == b.Cycle
}

func sameCall(a, b *Row) bool {
	return a.Size == b.Size && a.DataType == b.DataType && a.Op == b.Op
}

// shapes cuts launch geometry ("16x512") from algorithms and keeps each
// different rest once.
func shapes(algorithms []string) []string {
	var out []string
	for _, a := range algorithms {
		words := strings.Fields(a)
		if i := slices.IndexFunc(words, func(w string) bool { return w[0] >= '0' && w[0] <= '9' }); i >= 0 {
			words = words[:i]
		}
		if s := strings.Join(words, " "); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/container"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/report"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// record is what a run has found so far, and how rank 0 tells it. On the other
// ranks it keeps silent. A signal may end the run at any moment, so everything
// is under locks: two, because a launcher that ends a job may read no output any
// more, and files must then be written while a print is stuck.
type record struct {
	b *bench

	mu        sync.Mutex
	run       *result.Run // does not change any more once ended
	said      int         // decisions that the header or a line has told
	ended     bool
	swept     bool  // every size has been measured once
	unwritten error // of what end wrote
	concluded atomic.Bool
	saved     time.Time // when the JSON file was last written while running

	out     sync.Mutex // never taken while mu is held
	printer *result.Printer
	stdout  *checkedWriter
	progressLine
}

func newRecord(b *bench) *record {
	c := b.cfg
	r := &record{b: b, run: &result.Run{
		Version: b.process.Version, Start: time.Now(), ID: b.world.ID().String(), Host: b.world.Host(),
		Status:    result.Status{State: result.Running},
		Container: string(container.Here()), Launcher: b.world.Launcher(), MPI: b.world.Library(),
		WorldSize: b.world.Size(), Args: b.process.Args, Env: result.Environ(b.process.Environ), Modes: c.Modes(),
		Simulated: c.Run.Device == configs.DeviceSim, MinBusBW: c.Output.MinBusBW,
		Config: map[string]string{}, Rows: []result.Row{},
		Sweep: result.Sweep{MinBytes: uint64(c.Sweep.MinBytes), MaxBytes: uint64(c.Sweep.MaxBytes), Warmup: c.Timing.Warmup,
			Iters: c.Timing.Iters, Check: c.Timing.Check, Graph: c.Timing.Graph, Cycles: c.Timing.Cycles},
	}}
	if c.Sweep.Factor > 1 {
		r.run.Sweep.StepFactor = c.Sweep.Factor
	} else {
		r.run.Sweep.StepBytes = uint64(c.Sweep.StepBytes)
	}
	for line := range strings.Lines(c.Canonical()) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			r.run.Config[k] = v
		}
	}
	r.stdout = &checkedWriter{w: b.process.Stdout}
	r.printer = result.NewPrinter(r.stdout, r.run)
	r.progressLine = newProgressLine(b.process.Stderr)
	return r
}

// checkedWriter keeps the first error. The run goes on for its files.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
	return len(b), nil
}

func (r *record) first() bool { return r.b.world.Rank() == 0 }

// line prints one comment line at once.
func (r *record) line(format string, args ...any) {
	r.print(func() { fmt.Fprintf(r.stdout, "# %s\n", oneLine(fmt.Sprintf(format, args...))) })
}

// oneLine keeps a text on one line, for a line of standard output that has no '#'
// is a row of the table.
func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") }

// footprint says, before anything is allocated, what will be.
func (r *record) footprint(m result.Memory) {
	r.change(func() { r.run.Memory = m })
	staging := ""
	if m.Staging > 0 {
		staging = fmt.Sprintf(", %s staging for copy-in", collective.FormatBytes(m.Staging))
	}
	if m.NCCLBuffers > 0 {
		staging += fmt.Sprintf(", 2 x %s buffers that NCCL allocates for nccl-symmetric", collective.FormatBytes(m.NCCLBuffers/2))
	}
	r.line("Memory on each device: 2 x %s send and receive buffers, %s signals and scratch%s; rounded up to the driver's granularity",
		collective.FormatBytes(m.Buffers/2), collective.FormatBytes(m.Control), staging)
}

// begin records the devices and prints the header. It is collective.
func (r *record) begin(ctx context.Context) error {
	host, _ := os.Hostname()
	info := r.b.group.Devices()[r.b.group.Rank()]
	all, err := gather(ctx, r.b.node, "describe devices", result.Device{
		Rank: r.b.world.Rank(), LocalRank: r.b.node.Rank(), Host: host, PID: os.Getpid(), Ordinal: info.Ordinal,
		UUID: info.UUID.String(), Name: info.Name, PCI: info.PCI, ComputeCapability: info.ComputeCapability(), SMs: info.SMs,
		MemoryBytes: info.MemoryBytes, Links: info.Link.Links, LinkPeak: info.Link.PeakBytesPerSecond,
	})
	if err != nil {
		return err
	}
	r.change(func() {
		r.run.Devices = all
		r.run.Driver = r.b.group.Driver().Version()
		r.run.SharedGPU = r.b.group.SharesGPU()
		r.said = len(r.run.Decisions)
	})
	r.print(func() { r.printer.Header() })
	if note := r.b.world.Evidence().Note; note != "" {
		r.line("%s", note)
	}
	for _, words := range r.b.cfg.Unused() {
		r.line("%s", words)
	}
	for _, d := range r.b.cfg.DTypes() {
		if words := r.b.cfg.Rounding(d.Size()); words != "" {
			r.line("Sizes of %s: %s", d, words)
		}
	}
	r.save()
	return nil
}

// saveEvery is how often a running job writes its JSON file.
const saveEvery = time.Second

// save writes what there is, marked as running: a launcher may kill all ranks at
// once when one dies, and then this is what is left. An error waits for the end,
// when the file is written again.
func (r *record) save() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.b.cfg.Output; r.first() && !r.ended && o.JSON != "" && time.Since(r.saved) >= saveEvery {
		_ = result.WriteFile(o.JSON, r.run)
		r.saved = time.Now()
	}
}

// change changes the run, unless it has ended.
func (r *record) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		f()
	}
}

// print prints on rank 0.
func (r *record) print(f func()) {
	if r.first() {
		r.out.Lock()
		defer r.out.Unlock()
		r.clear()
		f()
	}
}

func (r *record) linkPeak() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run.LinkPeak()
}

// decide records a decision; it is printed with the header, or with the next
// table if that was before.
func (r *record) decide(d result.Decision) {
	d.Reason = oneLine(d.Reason)
	r.change(func() {
		if !slices.Contains(r.run.Decisions, d) { // as in the cycle before
			r.run.Decisions = append(r.run.Decisions, d)
		}
	})
}

// note records, and prints at once, what a reader of the numbers must know.
func (r *record) note(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	r.change(func() { r.run.Notes = append(r.run.Notes, text) })
	r.line("%s", text)
}

// decideNow records a decision and prints it.
func (r *record) decideNow(d result.Decision) {
	r.decide(d)
	r.tell()
}

// tell prints the decisions that were not printed yet.
func (r *record) tell() {
	r.mu.Lock()
	news := r.run.Decisions[r.said:]
	r.said = len(r.run.Decisions)
	r.mu.Unlock()
	for _, d := range news {
		where := ""
		if d.SizeBytes != 0 {
			where = fmt.Sprintf(", %d bytes", d.SizeBytes)
		}
		r.line("Mode %s%s: %s: %s", d.Requested, where, d.Outcome(), d.Reason)
	}
}

func (r *record) table(title string, graph, cycle int) {
	r.tell()
	if cycle > 0 {
		r.line("Cycle %d", cycle+1)
	}
	r.print(func() { r.printer.Table(title, nil, graph) })
}

func (r *record) add(out, in *result.Row) {
	r.change(func() { r.run.Rows = append(r.run.Rows, *out, *in) })
	r.print(func() { r.printer.Row(out, in) })
	r.save()
}

func (r *record) endTable() { r.print(func() { r.printer.EndTable() }) }

// wrongData is the error of a run that found wrong elements.
func (r *record) wrongData() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.run.Rows {
		if row.Wrong == nil || *row.Wrong == 0 {
			continue
		}
		f := &failure.Error{Code: failure.WrongData, What: fmt.Sprintf("wrong data: %s %s of %s, %d bytes, %s: %d wrong elements", row.Mode, row.Op, row.DataType, row.Size, row.Placement, *row.Wrong),
			Do: "do not trust this node's all-reduce in this mode; run again with --check 10 and compare the modes", By: failure.User}
		if w := row.FirstWrong; w != nil {
			f.Why = fmt.Sprintf("first at rank %d, element %d: expected %s (%s), got %s (%s)", w.Rank, w.Index, w.Expected.Bits, w.Expected.Value, w.Got.Bits, w.Got.Value)
		}
		return f
	}
	return nil
}

// tooSlow is the error of a run below the required bandwidth.
func (r *record) tooSlow() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	least := r.run.MinBusBW
	if totals := r.run.Totals(); least > 0 && !totals.Meets(least) {
		var words []string
		for _, m := range totals.Modes {
			words = append(words, fmt.Sprintf("%s %.6g", m.Mode, m.AvgBusBW))
		}
		return &failure.Error{Code: failure.WrongData, What: fmt.Sprintf("bus bandwidth is below the required %g GB/s", least),
			Why: "averages in GB/s: " + strings.Join(words, ", "), Do: "see the table for sizes; the average is over all of them", By: failure.User}
	}
	return nil
}

// finish ends the record of a run that came to err: status, files, footer. The
// error says that a file could not be written.
func (r *record) finish(err error) error {
	status := result.Status{State: result.Complete}
	if err != nil {
		status = result.Status{State: result.Failed, Reason: oneLine(err.Error())}
	}
	e := r.end(status)
	r.conclude(e)
	if e == nil && r.stdout.err != nil {
		e = failure.Wrap(failure.Internal, r.stdout.err, "cannot write to standard output")
		fmt.Fprintf(r.b.process.Stderr, "nvls-allreduce: %v\n", e)
	}
	return e
}

// end sets the status and writes the files. Only the first call counts.
func (r *record) end(status result.Status) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return r.unwritten
	}
	r.ended = true
	r.run.Status, r.run.End = status, time.Now()
	if r.first() {
		r.unwritten = r.write()
	}
	return r.unwritten
}

// conclude prints the end, once: totals, and the files that were written or the
// reason why not all were.
func (r *record) conclude(err error) {
	if r.concluded.Swap(true) {
		return
	}
	r.tell()
	if r.run.Driver != "" {
		r.print(func() { r.printer.Footer() })
	}
	if err != nil && r.first() {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(r.b.process.Stderr, "nvls-allreduce: %s\n", strings.TrimRight(line, "\n"))
		}
		return
	}
	o := r.b.cfg.Output
	for _, f := range []string{o.JSON, o.CSV, o.Plot, o.Report, o.Tuning} {
		if f != "" && !(f == o.Plot && len(r.run.Rows) == 0) && !(f == o.Tuning && !r.tuned()) {
			r.line("Wrote %s", f)
		} else if f != "" && f == o.Tuning {
			r.line("Not written: %s: not every size was tuned", f)
		}
	}
}

// tryOutputs finds out before anything is measured whether the files can be
// written.
func (r *record) tryOutputs() error {
	if !r.first() {
		return nil
	}
	o := r.b.cfg.Output
	var errs []error
	for _, path := range []string{o.JSON, o.CSV, o.Plot, o.Tuning} {
		if path != "" {
			errs = append(errs, result.CheckWritable(path))
		}
	}
	if o.Report != "" {
		errs = append(errs, result.CheckWritable(strings.TrimRight(o.Report, "/")))
	}
	return errors.Join(errs...)
}

// write writes the files that were asked for. A chart needs rows.
func (r *record) write() error {
	r.b.enter("write the results")
	var errs []error
	o := r.b.cfg.Output
	if o.JSON != "" {
		errs = append(errs, result.WriteFile(o.JSON, r.run))
	}
	if o.CSV != "" {
		errs = append(errs, result.WriteCSVFile(o.CSV, r.run))
	}
	if o.Plot != "" && len(r.run.Rows) > 0 {
		errs = append(errs, plots.WriteFile(o.Plot, []*result.Run{r.run}, plots.Options{}))
	}
	if o.Report != "" {
		errs = append(errs, report.Write(o.Report, []*result.Run{r.run}, plots.Options{}))
	}
	if r.tuned() {
		errs = append(errs, tuning.WriteFile(o.Tuning, r.b.learned))
	}
	if err := errors.Join(errs...); err != nil {
		f := failure.Wrap(failure.Internal, err, "cannot write the results")
		f.Where = fmt.Sprintf("rank %d on %s", r.b.world.Rank(), r.b.world.Host())
		return f
	}
	return nil
}

// tuned tells whether mode auto has made choices that are to be saved: for every
// size, or large messages would be given the ways of small ones.
func (r *record) tuned() bool {
	t := r.b.learned
	return t != nil && len(t.Choices) > 0 && r.swept
}

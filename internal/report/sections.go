package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// nameOfSeveral is the name of run i, and why its numbers are no measurement. A
// run alone does without a name and has that in the headings.
func (b *builder) nameOfSeveral(i int) string {
	if !b.several() {
		return unknown
	}
	return strings.Join(append([]string{b.runName(i)}, b.runs[i].Labels()...), " · ")
}

// summary has a row for each mode of each run: its latency and its bandwidth.
func (b *builder) summary() *table {
	u := " (" + unit(b.runs...) + ")"
	t := &table{Columns: slices.Concat(constant("result"), text("mode"), constant("type", "op", "graph", "place"),
		number("smallest size", "its time (µs)", "best busbw"+u, "at size", "link share (%)", "mean busbw"+u, "rows", "wrong rows"))}
	type key struct {
		mode, datatype, op string
		graph              int
		place              result.Placement
	}
	for i, r := range b.runs {
		var order []key
		rows := make(map[key][]result.Row)
		for _, row := range r.Rows {
			k := key{row.Title(), row.DataType, row.Op, row.Graph, row.Placement}
			if rows[k] == nil {
				order = append(order, k)
			}
			rows[k] = append(rows[k], row)
		}
		for _, k := range order {
			least, most, sum := rows[k][0], rows[k][0], 0.0
			for _, row := range rows[k] {
				if row.Size < least.Size {
					least = row
				}
				if row.BusBW > most.BusBW {
					most = row
				}
				sum += row.BusBW
			}
			t.Rows = append(t.Rows, []string{b.nameOfSeveral(i), k.mode, k.datatype, k.op, graph(k.graph), place(k.place),
				collective.FormatBytes(least.Size), decimal(least.Time), decimal(most.BusBW), collective.FormatBytes(most.Size),
				percent(most.LinkShare), decimal(sum / float64(len(rows[k]))), fmt.Sprint(len(rows[k])), wrong(rows[k])})
		}
	}
	return t
}

// place is short, for tables are wide.
func place(p result.Placement) string {
	if p == result.InPlace {
		return "in"
	}
	return "out"
}

func graph(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d launches", n)
}

// wrong counts the rows with wrong data, of those that were checked.
func wrong(rows []result.Row) string {
	checked, bad := 0, 0
	for _, r := range rows {
		if r.Wrong != nil {
			checked++
			if *r.Wrong > 0 {
				bad++
			}
		}
	}
	if checked == 0 {
		return "not checked"
	}
	return fmt.Sprintf("%d of %d", bad, checked)
}

// decisions say which mode ran and why not another.
func (b *builder) decisions(r *result.Run) {
	t := &table{Columns: slices.Concat(text("asked for", "size", "ran"), long("because"))}
	for _, d := range r.Decisions {
		size := "all"
		if d.SizeBytes != 0 {
			size = collective.FormatBytes(d.SizeBytes)
		}
		t.Rows = append(t.Rows, []string{d.Requested, size, cmp.Or(d.Chosen, "nothing"), d.Reason})
	}
	if t.Rows != nil {
		b.table(t)
	}
}

// verification says what was checked and names what was wrong.
func (b *builder) verification() {
	checks := &table{Columns: slices.Concat(constant("result"), number("rows", "checked", "wrong rows", "wrong elements"))}
	first := &table{Columns: slices.Concat(constant("result"), text("mode", "size", "type", "op", "place"), number("wrong elements", "rank", "index"), text("expected", "got"))}
	for i, r := range b.runs {
		n := r.Totals()
		if len(r.Rows) == 0 {
			continue
		}
		bad, elements := unknown, unknown
		if n.Checked > 0 {
			bad, elements = fmt.Sprint(n.FailedChecks), fmt.Sprint(n.WrongElements)
		}
		checks.Rows = append(checks.Rows, []string{b.nameOfSeveral(i), fmt.Sprint(len(r.Rows)), fmt.Sprint(n.Checked), bad, elements})
		for _, row := range r.Rows {
			if row.Wrong == nil || *row.Wrong == 0 {
				continue
			}
			line := []string{b.nameOfSeveral(i), row.Title(), collective.FormatBytes(row.Size), row.DataType, row.Op, place(row.Placement), fmt.Sprint(*row.Wrong)}
			if f := row.FirstWrong; f != nil {
				line = append(line, fmt.Sprint(f.Rank), fmt.Sprint(f.Index), f.Expected.Bits+" ("+f.Expected.Value+")", f.Got.Bits+" ("+f.Got.Value+")")
			} else {
				line = append(line, unknown, unknown, unknown, unknown)
			}
			first.Rows = append(first.Rows, line)
		}
	}
	if checks.Rows == nil {
		return
	}
	b.heading("Verification")
	b.table(checks)
	if first.Rows != nil {
		b.warning("Wrong data. The first wrong element of each row:")
		b.table(first)
	}
}

// measurements is the table of all rows.
func (b *builder) measurements(r *result.Run) {
	if len(r.Rows) == 0 {
		b.text("No row was measured.")
		return
	}
	u := " (" + unit(r) + ")"
	t := &table{Columns: slices.Concat(text("mode"), constant("algorithm", "type", "op", "graph", "cycle", "place"), number("size (B)", "time (µs)",
		"algbw"+u, "busbw"+u, "link"+u, "share (%)", "min (µs)", "p50 (µs)", "p99 (µs)", "max (µs)", "host (µs)", "wrong"))}
	for _, row := range r.Rows {
		var least, median, p99, most *float64
		if s := row.Iterations; s != nil {
			least, median, p99, most = &s.Min, &s.P50, &s.P99, &s.Max
		} else if s := row.Range; s != nil {
			least, p99, most = &s.Min, &s.P99, &s.Max
		}
		bad := unknown
		if row.Wrong != nil {
			bad = fmt.Sprint(*row.Wrong)
		}
		t.Rows = append(t.Rows, []string{row.Title(), cmp.Or(row.Algorithm, unknown), row.DataType, row.Op, graph(row.Graph), fmt.Sprint(row.Cycle), place(row.Placement),
			fmt.Sprint(row.Size), decimal(row.Time), decimal(row.AlgBW), decimal(row.BusBW), optional(row.LinkBW), percent(row.LinkShare),
			optional(least), optional(median), optional(p99), optional(most), optional(row.HostTime), bad})
	}
	b.table(t)
}

// terms explains the columns of measurements.
const terms = "Place is out of place or in place. Time is the mean of all launches by the host's clock; min to max are single iterations by device events, of the slowest rank. " +
	"Bus bandwidth is that of nccl-tests, in 10⁹ bytes per second; link is what one GPU's links carried in their busier direction, share its part of their peak."

// predictions of an imported log are no measurements and stand apart.
func (b *builder) predictions(r *result.Run) {
	t := &table{Columns: slices.Concat(text("size", "function", "algorithm", "protocol", "kernel"), number("predicted (µs)", "lines"))}
	for _, p := range r.Predictions {
		t.Rows = append(t.Rows, []string{collective.FormatBytes(p.Size), cmp.Or(p.Function, unknown), cmp.Or(p.Algorithm, unknown),
			cmp.Or(p.Protocol, unknown), cmp.Or(p.Kernel, unknown), optional(p.Time), fmt.Sprint(p.Seen)})
	}
	if t.Rows != nil {
		b.table(t)
	}
}

// environment says on what and how it was measured.
func (b *builder) environment(r *result.Run) {
	t := &table{Columns: slices.Concat(text("what"), long("value"))}
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	add("program", program(r))
	add("run", r.ID)
	if !r.Start.IsZero() {
		add("start", r.Start.Format("2006-01-02 15:04:05 -0700"))
		if !r.End.IsZero() {
			add("duration", r.End.Sub(r.Start).Round(1e6).String())
		}
	}
	add("status", strings.TrimSuffix(string(r.Status.State)+": "+r.Status.Reason, ": "))
	add("host", r.Host)
	add("ranks", fmt.Sprint(r.WorldSize))
	add("GPUs", plots.Machine(r))
	add("driver", r.Driver)
	add("libraries", strings.Join(r.Libraries, ", "))
	add("links of a GPU", links(r))
	if r.LinkLimit > 0 {
		add("measured limit of its links", decimal(r.LinkLimit)+" GB/s in one direction")
	}
	add("launcher", r.Launcher)
	mpi, container := r.MPI, r.Container
	if r.Tool == "" {
		// This program knows when there is none; a log may only be silent.
		mpi, container = cmp.Or(mpi, "none"), cmp.Or(container, "none")
	}
	add("MPI", mpi)
	add("container", container)
	add("Slurm job", slurmJob(r.Env))
	if m := r.Memory; m.Buffers > 0 {
		add("device memory of a rank", fmt.Sprintf("%s buffers, %s staging, %s control",
			collective.FormatBytes(m.Buffers), collective.FormatBytes(m.Staging), collective.FormatBytes(m.Control)))
	}
	b.table(t)
	if len(r.Args) > 0 {
		b.text("Command line:")
		b.add(block{Code: commandLine(r.Args)})
	}
	b.devices(r)
	b.pairs("Configuration:", "key", r.Config)
	var environ []string
	for k, v := range r.Env {
		environ = append(environ, k+"="+v)
	}
	b.pairs("Variables of the environment (those of a fixed list only):", "variable", result.Environ(environ))
}

func links(r *result.Run) string {
	peak := r.LinkPeak()
	if peak == 0 {
		return ""
	}
	s := fmt.Sprintf("%.4g GB/s in one direction, at their peak", peak/1e9)
	if n := r.Devices[0].Links; n > 0 {
		s = fmt.Sprintf("%d NVLinks, %s", n, s)
	}
	return s
}

// slurmJob puts in words what Slurm told the job.
func slurmJob(env map[string]string) string {
	var words []string
	for _, x := range []struct{ name, variable string }{
		{"", "SLURM_JOB_ID"}, {"name", "SLURM_JOB_NAME"}, {"partition", "SLURM_JOB_PARTITION"}, {"nodes", "SLURM_JOB_NODELIST"},
		{"tasks", "SLURM_NTASKS"}, {"GPUs on the node", "SLURM_GPUS_ON_NODE"}, {"cluster", "SLURM_CLUSTER_NAME"},
	} {
		if v := env[x.variable]; v != "" {
			words = append(words, strings.TrimSpace(x.name+" "+v))
		}
	}
	return strings.Join(words, ", ")
}

// devices lists the GPU of each rank.
func (b *builder) devices(r *result.Run) {
	t := &table{Columns: slices.Concat(number("rank"), constant("host"), text("GPU"), constant("UUID", "PCI", "capability"),
		constant("SMs", "memory", "links"))}
	for _, d := range r.Devices {
		t.Rows = append(t.Rows, []string{fmt.Sprint(d.Rank), cmp.Or(d.Host, unknown), d.Name, cmp.Or(d.UUID, unknown), cmp.Or(d.PCI, unknown),
			cmp.Or(d.ComputeCapability, unknown), count(uint64(d.SMs)), memory(d.MemoryBytes), count(uint64(d.Links))})
	}
	if t.Rows != nil {
		b.text("Devices:")
		b.table(t)
	}
}

func count(n uint64) string {
	if n == 0 {
		return unknown
	}
	return fmt.Sprint(n)
}

func memory(n uint64) string {
	if n == 0 {
		return unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// pairs is a table of names and values in the order of the names.
func (b *builder) pairs(title, name string, values map[string]string) {
	t := &table{Columns: slices.Concat(text(name), long("value"))}
	for k, v := range values {
		t.Rows = append(t.Rows, []string{k, v})
	}
	if t.Rows == nil {
		return
	}
	slices.SortFunc(t.Rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	b.text(title)
	b.table(t)
}

// commandLine quotes what a shell would take apart.
func commandLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		plain := a != "" && !strings.ContainsFunc(a, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%", r)
		})
		if out[i] = a; !plain {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

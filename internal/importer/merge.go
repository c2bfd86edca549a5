package importer

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// merge makes one run of all tables of all logs. Faults go to p and are given.
func (x *Imported) merge(logs []*log, o Options, p *problems) error {
	run := &result.Run{Version: o.Version, Status: result.Status{State: result.Complete}, Rows: []result.Row{}, Devices: []result.Device{}, Modes: []string{}}
	x.Run = run
	var n notes
	for _, l := range logs {
		x.tables = append(x.tables, l.usable(&n)...)
	}
	x.label = labels(x.tables)
	run.WorldSize = worldSize(logs, x.tables, o, p)
	if err := p.err(); err != nil {
		return err
	}
	in := newReader(&x.set.spool, &x.set.kinds)
	for _, t := range x.tables {
		if err := t.chosen(in); err != nil {
			return err
		}
		x.NumRows += t.rows
	}
	x.set.apart(x.tables, x.label, &n)
	var tools []string
	var faults few
	modes := map[string]bool{}
	for _, t := range x.tables {
		for _, m := range t.modes {
			if m = x.mode(t, m); !modes[m] {
				modes[m] = true
				run.Modes = append(run.Modes, m)
			}
		}
		addUnique(&tools, t.tool)
		t.describe(run, &n)
		if t.cut != "" {
			faults.add(t.name() + ": " + t.cut)
		}
		if t.failed != "" {
			faults.add(t.failed)
		}
	}
	if faults.n > 0 {
		run.Status = result.Status{State: result.Failed, Reason: faults.some(kept)}
	}
	for _, l := range logs {
		run.Predictions = append(run.Predictions, l.tuning.list...)
		if l.tuning.text != "" {
			addUnique(&run.Libraries, "NCCL "+l.tuning.text)
		}
		if len(l.tuning.list) > 0 {
			n.add(l.name, "tuning lines of NCCL are predictions of its model and stand apart from the rows")
		}
		if l.tuning.left > 0 {
			n.add(l.name, fmt.Sprintf("%d tuning lines were left out: only the first %d different ones are kept", l.tuning.left, maxPredictions))
		}
	}
	run.Tool = cmp.Or(strings.Join(tools, ", "), "NCCL's tuning lines")
	run.Notes = n.list()
	localRanks(run)
	return nil
}

// mode is what the rows of t in a mode are called.
func (x *Imported) mode(t *table, mode string) string {
	if x.set.mixed[mode] {
		return x.label.mode(t, mode)
	}
	return mode
}

// Rows gives the rows in the order of the logs. Each is new.
func (x *Imported) Rows() iter.Seq2[*result.Row, error] {
	return func(yield func(*result.Row, error) bool) {
		in := newReader(&x.set.spool, &x.set.kinds)
		for _, t := range x.tables {
			// A table has few modes, and mostly one.
			from, to := "", ""
			on := true
			err := in.table(t, func(r *result.Row, marks byte) bool {
				if marks&noBus != 0 {
					r.BusBW = result.BusBW(r.AlgBW, x.Run.WorldSize)
				}
				if r.Mode == "nccl" && r.Algorithm == "" {
					r.Algorithm, _ = t.log.tuning.only(choice{t.number, r.Size})
				}
				if f, ok := result.LinkFactor(r.Mode, r.Algorithm, x.Run.WorldSize); ok {
					link := r.AlgBW * f
					r.LinkBW = &link
				}
				if r.Mode != from {
					from, to = r.Mode, x.mode(t, r.Mode)
				}
				r.Mode = to
				on = yield(r, nil)
				return on
			})
			if err != nil {
				yield(nil, err)
				return
			}
			if !on {
				return
			}
		}
	}
}

// usable gives the tables of l that are of all-reduce and have rows, and notes
// the others. A log that has nothing at all is a fault.
func (l *log) usable(n *notes) []*table {
	var out []*table
	var left []string
	for _, t := range l.tables {
		why := ""
		switch {
		case t.skip != "":
			why = "the table was left out: " + t.skip
		case t.rows == 0 && t.trial == nil:
			why = "the table has no rows"
		default:
			out = append(out, t)
			continue
		}
		n.add(t.name(), why)
		left = append(left, t.name()+": "+why)
	}
	if len(out) == 0 && len(l.tuning.list) == 0 {
		why := "there is no table of nccl-tests, MSCCL++, osu_allreduce or the PyTorch script, and no tuning line of NCCL"
		if len(left) > 0 {
			why = some(left, 3)
		}
		l.problems.at(l.name, 0, "nothing to import", why, "")
	}
	return out
}

// worldSize finds the number of ranks that all tables share.
func worldSize(logs []*log, tables []*table, o Options, p *problems) int {
	ranks, of := 0, ""
	for _, t := range tables {
		n := t.worldSize()
		switch {
		case n == 0:
			why := "the log does not tell it"
			if t.ratios != nil {
				why += likely(t.ratios.narrow)
			}
			p.at(t.log.name, t.line, "the number of ranks is not known", why, "give --ranks N")
		case t.ranks > 0 && o.Ranks > 0 && t.ranks != o.Ranks:
			p.at(t.log.name, t.line, "the number of ranks contradicts --ranks", fmt.Sprintf("the log tells %d, and --ranks is %d", t.ranks, o.Ranks), "")
		case ranks != 0 && n != ranks:
			p.at(t.log.name, t.line, "mixed numbers of ranks", fmt.Sprintf("%d here, %d at %s; bandwidths of different numbers of ranks are no series", n, ranks, of),
				"import them into separate results")
		default:
			ranks, of = n, t.name()
			// The log told the ranks after these rows.
			if x := t.ratios; x != nil && t.fits(x.low, n) && x.high != x.low {
				t.fits(x.high, n)
			}
		}
	}
	if len(tables) > 0 {
		return ranks
	}
	// Predictions only.
	for _, l := range logs {
		n := cmp.Or(o.Ranks, l.tuning.ranks())
		switch {
		case n == 0:
			p.at(l.name, 0, "the number of ranks is not known", "the log has no table, and its NCCL lines name none or several", "give --ranks N")
		case ranks != 0 && n != ranks:
			p.at(l.name, 0, "mixed numbers of ranks", fmt.Sprintf("%d here, %d in another log", n, ranks), "import them into separate results")
		}
		ranks = n
	}
	return ranks
}

// chosen notes what NCCL's tuning lines tell of the algorithms of t's rows.
func (t *table) chosen(in *reader) error {
	if t.log.tuning.lost[t.number] {
		t.note("algorithms are not named: NCCL's tuning lines have too many sizes")
	}
	if t.log.tuning.chosen[t.number] == nil {
		return nil
	}
	var several []string
	n := 0
	named := false
	seen := map[uint64]bool{} // sizes of several
	err := in.table(t, func(r *result.Row, _ byte) bool {
		if r.Mode != "nccl" || r.Algorithm != "" {
			return true
		}
		switch names := t.log.tuning.names(choice{t.number, r.Size}); {
		case len(names) == 1:
			named = true
		case len(names) > 1 && !seen[r.Size]:
			seen[r.Size] = true
			if n++; len(several) < kept {
				several = append(several, fmt.Sprintf("%d (%s)", r.Size, strings.Join(names, ", ")))
			}
		}
		return true
	})
	if named {
		t.note("algorithms are what NCCL's tuning lines between these rows chose")
	}
	if n > 0 {
		all := few{several, n}
		t.note("NCCL chose several algorithms at a size, which are left out there: %s", all.some(4))
	}
	return err
}

// describe adds to run what t tells of libraries, devices, sweep and command.
func (t *table) describe(run *result.Run, n *notes) {
	addUnique(&run.Libraries, t.libraries...)
	for _, text := range t.notes {
		n.add(t.name(), text)
	}
	if t.split != "" {
		n.add(t.name(), t.split)
	}
	switch {
	case len(t.devices) == 0:
	case len(run.Devices) == 0:
		run.Devices, run.Host = slices.Clone(t.devices), t.devices[0].Host
	}
	if len(run.Devices) > 0 && t.gpu != "" && t.gpu != run.Devices[0].Name {
		n.add(t.name(), fmt.Sprintf("measured on %s; the devices of the result are those of the first table", t.gpu))
	}
	switch {
	case t.sweep == nil:
	case run.Sweep == result.Sweep{}:
		run.Sweep = *t.sweep
	case run.Sweep != *t.sweep:
		n.add(t.name(), "measured with another sweep; that of the result is the first table's")
	}
	if l := t.log; l.args != nil && run.Args == nil {
		run.Args, run.Env = l.args, l.env
	}
}

// localRanks numbers the ranks of each host.
func localRanks(run *result.Run) {
	next := map[string]int{}
	for i := range run.Devices {
		d := &run.Devices[i]
		d.LocalRank = next[d.Host]
		next[d.Host]++
	}
}

package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// merge makes one run of all tables of all logs. Faults go to p.
func merge(logs []*log, o Options, p *problems) *result.Run {
	run := &result.Run{Version: o.Version, Status: result.Status{State: result.Complete}, Rows: []result.Row{}, Devices: []result.Device{}, Modes: []string{}}
	var tables []*table
	var n notes
	for _, l := range logs {
		tables = append(tables, l.usable(&n)...)
	}
	run.WorldSize = worldSize(logs, tables, o, p)
	if len(p.list) > 0 {
		return nil
	}
	rows := 0
	for _, t := range tables {
		t.cycles()
		t.finish(run.WorldSize)
		rows += len(t.rows)
	}
	apart(tables, &n)
	run.Rows = make([]result.Row, 0, rows)
	var tools, faults []string
	modes := map[string]bool{}
	for _, t := range tables {
		for i := range t.rows {
			if m := t.rows[i].Mode; !modes[m] {
				modes[m] = true
				run.Modes = append(run.Modes, m)
			}
		}
		run.Rows = append(run.Rows, t.rows...)
		addUnique(&tools, t.tool)
		t.describe(run, &n)
		if t.cut != "" {
			faults = append(faults, t.name()+": "+t.cut)
		}
		if t.failed != "" {
			faults = append(faults, t.failed)
		}
	}
	if len(faults) > 0 {
		run.Status = result.Status{State: result.Failed, Reason: some(faults, 5)}
	}
	for _, l := range logs {
		run.Predictions = append(run.Predictions, l.tuning.predictions...)
		if l.tuning.text != "" {
			addUnique(&run.Libraries, "NCCL "+l.tuning.text)
		}
		if len(l.tuning.predictions) > 0 {
			n.add(l.name, "tuning lines of NCCL are predictions of its model and stand apart from the rows")
		}
	}
	run.Tool = cmp.Or(strings.Join(tools, ", "), "NCCL's tuning lines")
	run.Notes = n.list()
	localRanks(run)
	return run
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
		case len(t.rows) == 0 && !t.unsized:
			why = "the table has no rows"
		default:
			out = append(out, t)
			continue
		}
		n.add(t.name(), why)
		left = append(left, t.name()+": "+why)
	}
	if len(out) == 0 && len(l.tuning.predictions) == 0 {
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
			if len(t.ratios) > 0 {
				best := slices.MinFunc(t.ratios, func(a, b ratio) int { return cmp.Compare(a.high/a.low, b.high/b.low) })
				why += likely(best)
			}
			p.at(t.log.name, t.line, "the number of ranks is not known", why, "give --ranks N")
		case t.ranks > 0 && o.Ranks > 0 && t.ranks != o.Ranks:
			p.at(t.log.name, t.line, "the number of ranks contradicts --ranks", fmt.Sprintf("the log tells %d, and --ranks is %d", t.ranks, o.Ranks), "")
		case ranks != 0 && n != ranks:
			p.at(t.log.name, t.line, "mixed numbers of ranks", fmt.Sprintf("%d here, %d at %s; bandwidths of different numbers of ranks are no series", n, ranks, of),
				"import them into separate results")
		default:
			ranks, of = n, t.name()
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

// finish fills in what is known only at the end of a log: algorithms, links.
func (t *table) finish(ranks int) {
	var several []string
	named := false
	for i := range t.rows {
		r := &t.rows[i]
		if r.Mode == "nccl" && r.Algorithm == "" {
			switch c := t.log.tuning.chosen[choice{t.number, r.Size}]; len(c) {
			case 0:
			case 1:
				r.Algorithm, named = c[0], true
			default:
				addUnique(&several, fmt.Sprintf("%d (%s)", r.Size, strings.Join(c, ", ")))
			}
		}
		if f, ok := result.LinkFactor(r.Mode, r.Algorithm, ranks); ok {
			link := r.AlgBW * f
			r.LinkBW = &link
		}
	}
	if named {
		t.note("algorithms are what NCCL's tuning lines between these rows chose")
	}
	if len(several) > 0 {
		t.note("NCCL chose several algorithms at a size, which are left out there: %s", some(several, 4))
	}
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
	case t.devices[0].Name != run.Devices[0].Name:
		n.add(t.name(), fmt.Sprintf("measured on %s; the devices of the result are those of the first table", t.devices[0].Name))
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

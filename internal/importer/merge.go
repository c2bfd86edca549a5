package importer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// merge makes one run of all tables of all logs. Faults go to p.
func merge(logs []*log, o Options, p *problems) *result.Run {
	run := &result.Run{Version: o.Version, Status: result.Status{State: result.Complete}, Rows: []result.Row{}, Devices: []result.Device{}, Modes: []string{}}
	var tables []*table
	for _, l := range logs {
		tables = append(tables, l.usable(run)...)
	}
	run.WorldSize = worldSize(logs, tables, o, p)
	if len(p.list) > 0 {
		return nil
	}
	repeated(tables)
	for _, t := range tables {
		t.finish(run)
	}
	apart(tables)
	n := 0
	for _, t := range tables {
		n += len(t.rows)
	}
	run.Rows = make([]result.Row, 0, n)
	for _, t := range tables {
		run.Rows = append(run.Rows, t.rows...)
		describe(run, t)
	}
	for _, l := range logs {
		run.Predictions = append(run.Predictions, l.tuning.predictions...)
		addUnique(&run.Libraries, prefixed("NCCL ", l.tuning.text)...)
		if len(l.tuning.predictions) > 0 {
			addUnique(&run.Notes, l.name+": tuning lines of NCCL are predictions of its model and stand apart from the rows")
		}
	}
	if run.Tool == "" {
		run.Tool = "NCCL's tuning lines"
	}
	for i := range run.Rows {
		addUnique(&run.Modes, run.Rows[i].Mode)
	}
	localRanks(run)
	return run
}

func prefixed(prefix, s string) []string {
	if s == "" {
		return nil
	}
	return []string{prefix + s}
}

// addUnique appends what is not there yet.
func addUnique(list *[]string, words ...string) {
	for _, w := range words {
		if !slices.Contains(*list, w) {
			*list = append(*list, w)
		}
	}
}

// usable gives the tables of l that are of all-reduce and have rows, and notes
// the others. A log that has nothing at all is a fault.
func (l *log) usable(run *result.Run) []*table {
	var out []*table
	var skipped, empty []string
	for _, t := range l.tables {
		switch {
		case t.skip != "":
			skipped = append(skipped, t.name()+": the table was left out: "+t.skip)
		case len(t.rows) == 0 && !t.unsized:
			empty = append(empty, t.name()+": the table has no rows")
		default:
			out = append(out, t)
		}
	}
	if len(out) == 0 && len(l.tuning.predictions) == 0 {
		why := "there is no table of nccl-tests, MSCCL++, osu_allreduce or the PyTorch script, and no tuning line of NCCL"
		if found := append(skipped, empty...); len(found) > 0 {
			why = strings.Join(found, "; ")
		}
		l.problems.at(l.name, 0, "nothing to import", why, "")
	}
	addUnique(&run.Notes, append(skipped, empty...)...)
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
		n := o.Ranks
		if n == 0 {
			n = l.tuning.ranks()
		}
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
func (t *table) finish(run *result.Run) {
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
		if f, ok := result.LinkFactor(r.Mode, r.Algorithm, run.WorldSize); ok {
			link := r.AlgBW * f
			r.LinkBW = &link
		}
	}
	if named {
		t.note("%s: algorithms are what NCCL's tuning lines between these rows chose", t.name())
	}
	if len(several) > 0 {
		t.note("%s: NCCL chose several algorithms at a size, which are left out there: %s", t.name(), some(several, 4))
	}
}

// some joins the first n of list and counts the rest.
func some(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}

// rowKey is what makes two rows the same measurement.
type rowKey struct {
	mode, datatype, op string
	placement          result.Placement
	graph              int
	size               uint64
}

func keyOf(r *result.Row) rowKey {
	return rowKey{r.Mode, r.DataType, r.Op, r.Placement, r.Graph, r.Size}
}

// repeated numbers the cycles of rows that stand several times in a table, and
// names them.
func repeated(tables []*table) {
	for _, t := range tables {
		seen := make(map[rowKey]int, len(t.rows))
		var sizes []uint64 // repeated, each once, in order
		twice := map[uint64]bool{}
		most := 1
		for i := range t.rows {
			k := keyOf(&t.rows[i])
			t.rows[i].Cycle = seen[k]
			seen[k]++
			if seen[k] == 2 && !twice[k.size] {
				twice[k.size] = true
				sizes = append(sizes, k.size)
			}
			most = max(most, seen[k])
		}
		if len(sizes) == 0 {
			continue
		}
		var named []string
		for _, size := range sizes[:min(4, len(sizes))] {
			var at []string
			for i := range t.rows {
				if t.rows[i].Size == size && len(at) <= 4 {
					addUnique(&at, fmt.Sprint(t.rows[i].Source.Line))
				}
			}
			if at[0] == "0" { // JSON has no lines
				named = append(named, fmt.Sprint(size))
				continue
			}
			named = append(named, fmt.Sprintf("%d (lines %s)", size, some(at, 3)))
		}
		if more := len(sizes) - len(named); more > 0 {
			named = append(named, fmt.Sprintf("%d more", more))
		}
		t.note("%s: sizes stand up to %d times and are all kept, as cycles: %s", t.name(), most, strings.Join(named, ", "))
	}
}

// apart gives the rows of several tables that measure the same another mode
// each, named by the table, so that no chart and no comparison mixes them.
func apart(tables []*table) {
	owner := map[rowKey]*table{}
	mixed := map[string]bool{}
	for _, t := range tables {
		for i := range t.rows {
			k := keyOf(&t.rows[i])
			if o := owner[k]; o != nil && o != t {
				mixed[k.mode] = true
			} else {
				owner[k] = t
			}
		}
	}
	if len(mixed) == 0 {
		return
	}
	for _, t := range tables {
		label := t.label(tables)
		for i := range t.rows {
			if r := &t.rows[i]; mixed[r.Mode] {
				t.note("%s: other tables measured %s at the same sizes; this one is kept as mode %q", t.name(), r.Mode, r.Mode+" ("+label+")")
				r.Mode += " (" + label + ")"
			}
		}
	}
}

// label names t among tables by the shortest that tells it apart.
func (t *table) label(tables []*table) string {
	short := func(l *log) string {
		base := filepath.Base(l.name)
		return cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
	}
	name := short(t.log)
	alone := true
	for _, o := range tables {
		if o != t && o.log == t.log {
			alone = false
		}
		if o.log != t.log && short(o.log) == short(t.log) {
			name = t.log.name
		}
	}
	if !alone {
		name += fmt.Sprintf(" table %d", t.number)
	}
	return name
}

// describe adds to run what t tells of tool, devices, sweep and state.
func describe(run *result.Run, t *table) {
	var tools []string
	if run.Tool != "" {
		tools = strings.Split(run.Tool, ", ")
	}
	addUnique(&tools, t.tool)
	run.Tool = strings.Join(tools, ", ")
	addUnique(&run.Libraries, t.libraries...)
	addUnique(&run.Notes, t.notes...)
	if t.split != "" {
		addUnique(&run.Notes, t.name()+": "+t.split)
	}
	switch {
	case len(t.devices) == 0:
	case len(run.Devices) == 0:
		run.Devices, run.Host = slices.Clone(t.devices), t.devices[0].Host
	case t.devices[0].Name != run.Devices[0].Name:
		addUnique(&run.Notes, fmt.Sprintf("%s: measured on %s; the devices of the result are those of the first table", t.name(), t.devices[0].Name))
	}
	if t.sweep != nil && run.Sweep == (result.Sweep{}) {
		run.Sweep = *t.sweep
	} else if t.sweep != nil && run.Sweep != *t.sweep {
		addUnique(&run.Notes, t.name()+": measured with another sweep; that of the result is the first table's")
	}
	if l := t.log; l.args != nil && run.Args == nil {
		run.Args, run.Env = l.args, l.env
	}
	var why []string
	if t.cut != "" {
		why = append(why, t.name()+": "+t.cut)
	}
	if t.failed != "" {
		why = append(why, t.failed)
	}
	if len(why) > 0 {
		run.Status.State = result.Failed
		run.Status.Reason = strings.Join(append(prefixed("", run.Status.Reason), why...), "; ")
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

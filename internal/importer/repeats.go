package importer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// repeats numbers the rows of a table that measure the same, and remembers the
// sizes that do.
type repeats struct {
	series map[int]*sizeSet
	named  []repeated // the first sizes
	sizes  int        // that stand several times
	most   int        // times that a size stands
}

// repeated is a size with the lines where it stands: the first, and how many.
type repeated struct {
	size  uint64
	lines []int
	n     int
	last  int
}

const (
	namedSizes = 4
	namedLines = 3
)

func newRepeats() *repeats { return &repeats{series: map[int]*sizeSet{}, most: 1} }

func (x *repeated) at(line int) {
	if line == x.last {
		return // both halves of a line
	}
	x.last = line
	if x.n++; len(x.lines) < namedLines {
		x.lines = append(x.lines, line)
	}
}

// count adds a row and gives its cycle.
func (x *repeats) count(set *set, series int, size uint64, line int) (cycle int) {
	sizes := x.series[series]
	if sizes == nil {
		sizes = &sizeSet{}
		x.series[series] = sizes
	}
	cycle = sizes.count(size, line)
	if cycle == 0 {
		set.sizes++
	}
	x.most = max(x.most, cycle+1)
	for i := range x.named {
		if x.named[i].size == size {
			x.named[i].at(line)
			return cycle
		}
	}
	if cycle != 1 {
		return cycle
	}
	// The second of its series, and perhaps the first second of its size.
	var lines []int
	for n, s := range x.series {
		e, ok := s.get(size)
		switch {
		case !ok:
		case n != series && e.n > 1:
			return cycle
		default:
			lines = append(lines, int(e.line))
		}
	}
	if x.sizes++; len(x.named) < namedSizes {
		r := repeated{size: size}
		slices.Sort(lines)
		for _, l := range append(lines, line) {
			r.at(l)
		}
		x.named = append(x.named, r)
	}
	return cycle
}

// note names the repeated sizes, with their lines if the log has lines; "" when
// there are none.
func (x *repeats) note(lines bool) string {
	if x.sizes == 0 {
		return ""
	}
	var named []string
	for _, r := range x.named {
		text := fmt.Sprint(r.size)
		if lines {
			var at few
			for _, l := range r.lines {
				at.add(fmt.Sprint(l))
			}
			at.n = r.n
			text += " (lines " + at.some(namedLines) + ")"
		}
		named = append(named, text)
	}
	all := few{named, x.sizes}
	return fmt.Sprintf("sizes stand up to %d times and are all kept, as cycles: %s", x.most, all.some(namedSizes))
}

// set is what the tables of all logs of an import share.
type set struct {
	spool  spool
	kinds  kinds
	tables int
	// owned are the sizes of sealed tables by series, and mixed the modes of which
	// several tables have the same.
	owned map[int]*sizeSet
	mixed map[string]bool
	sizes int // in all sets
}

// join adds the sizes of a table that has all its rows.
func (s *set) join(t *table) {
	for series, sizes := range t.repeats.series {
		mode := s.kinds.list[series].mode
		owned := s.owned[series]
		switch {
		case s.mixed[mode]:
			s.sizes -= sizes.len()
		case owned == nil:
			s.owned[series] = sizes
		default:
			before := owned.len()
			sizes.all(func(size uint64) {
				if owned.count(size, 0) > 0 {
					s.mixed[mode] = true
				}
			})
			s.sizes += owned.len() - before - sizes.len()
		}
	}
}

// apart tells of the tables that measure the same: their rows get another mode
// each, named by the table, so that no chart and no comparison mixes them.
func (s *set) apart(tables []*table, label labelling, n *notes) {
	var order []string
	places, names := map[string]*few{}, map[string]*few{}
	for _, t := range tables {
		for _, mode := range t.modes {
			if !s.mixed[mode] {
				continue
			}
			if names[mode] == nil {
				order = append(order, mode)
				places[mode], names[mode] = &few{}, &few{}
			}
			places[mode].add(t.name())
			names[mode].add(label.mode(t, mode))
		}
	}
	for _, mode := range order {
		n.addAll(places[mode], fmt.Sprintf("measured %s at the same sizes as other tables; each is kept as a mode of its own: %s", mode, names[mode].some(4)))
	}
}

// labelling names tables by the shortest that tells them apart.
type labelling struct {
	logs   map[string]map[*log]bool // by their short names
	tables map[*log]int
}

func labels(tables []*table) labelling {
	l := labelling{map[string]map[*log]bool{}, map[*log]int{}}
	for _, t := range tables {
		s := short(t.log.name)
		if l.logs[s] == nil {
			l.logs[s] = map[*log]bool{}
		}
		l.logs[s][t.log] = true
		l.tables[t.log]++
	}
	return l
}

func short(name string) string {
	base := filepath.Base(name)
	return cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
}

// mode is the name of a mode of t.
func (l labelling) mode(t *table, mode string) string {
	name := short(t.log.name)
	if len(l.logs[name]) > 1 {
		name = t.log.name
	}
	if l.tables[t.log] > 1 {
		name += fmt.Sprintf(" table %d", t.number)
	}
	return mode + " (" + name + ")"
}

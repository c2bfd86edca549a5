package importer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

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

// cycles numbers the rows of t that measure the same, and names them.
func (t *table) cycles() {
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
		return
	}
	var named []string
	for _, size := range sizes {
		if t.line == 0 || len(named) == 4 { // JSON has no lines
			named = append(named, fmt.Sprint(size))
			continue
		}
		var at []string
		last := 0
		for i := range t.rows {
			if r := &t.rows[i]; r.Size == size && r.Source.Line != last {
				last = r.Source.Line
				at = append(at, fmt.Sprint(last))
			}
		}
		named = append(named, fmt.Sprintf("%d (lines %s)", size, some(at, 3)))
	}
	t.note("sizes stand up to %d times and are all kept, as cycles: %s", most, some(named, 4))
}

// apart gives the rows of several tables that measure the same another mode
// each, named by the table, so that no chart and no comparison mixes them.
func apart(tables []*table, n *notes) {
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
	label := labels(tables)
	places, names := map[string][]string{}, map[string][]string{}
	var order []string
	for _, t := range tables {
		var done []string // modes of this table
		for i := range t.rows {
			r := &t.rows[i]
			mode := r.Mode
			if !mixed[mode] {
				continue
			}
			r.Mode = label.mode(t, mode)
			if slices.Contains(done, mode) {
				continue
			}
			done = append(done, mode)
			if names[mode] == nil {
				order = append(order, mode)
			}
			places[mode] = append(places[mode], t.name())
			names[mode] = append(names[mode], r.Mode)
		}
	}
	for _, mode := range order {
		for _, p := range places[mode] {
			n.add(p, fmt.Sprintf("measured %s at the same sizes as other tables; each is kept as a mode of its own: %s", mode, some(names[mode], 4)))
		}
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

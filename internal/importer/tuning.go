package importer

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// tuning is what NCCL's log tells of the choices of its model.
type tuning struct {
	list   []result.Prediction    // the first different ones
	known  map[[2]uint64]*seen    // by two hashes of the text of the line
	left   int                    // lines of further ones
	chosen map[int]map[uint64]int // number in sets, by table and size
	pairs  int                    // in chosen
	lost   map[int]bool           // tables of which they are too many
	sets   [][]string             // of algorithms, each in the order of their lines

	sizes   map[int]bool // of communicators
	text    string       // NCCL's version as printed
	release [2]int       // NCCL's version; 0, 0 when not told
}

// seen is a line that was read before; logs repeat each for every call.
type seen struct {
	index int // of its prediction
	table int // the last table that it was counted for
}

// choice is a size within one table of the log.
type choice struct {
	table int
	size  uint64
}

// seeds of the hashes of lines.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// The five forms of INFO TUNING lines since NCCL 2.20, in two expressions.
// Source: enqueue.cc of the releases.
var (
	reModel = regexp.MustCompile(`^(?:(\w+): +)?(\d+) Bytes -> Algo (\w+) proto (\w+)(?: time (\S+)| channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})$`)
	reOther = regexp.MustCompile(`^(\w+) \[(Symmetric|Copy Engine|Hierarchical CE)\]: +(\d+) Bytes -> (?:Kernel (\S+) nchannels (\d+) nthreads (\d+)(?: nWorks (\d+))?|(cudaMemcpy\w*))$`)
)

// Names of algorithms by index. Up to 2.12 there were three; NCCL 2.14 split
// CollNet and later releases only appended.
var (
	algorithms    = []string{"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
	algorithms212 = []string{"Tree", "Ring", "CollNet"}
	protocols     = []string{"LL", "LL128", "Simple"}
)

// tuned reads one tuning line.
func (s *stream) tuned(message []byte, n int) {
	l := s.log
	t := &l.tuning
	if t.known == nil {
		t.known = map[[2]uint64]*seen{}
		t.chosen = map[int]map[uint64]int{}
	}
	table := l.current()
	key := [2]uint64{maphash.Bytes(seeds[0], message), maphash.Bytes(seeds[1], message)}
	k := t.known[key]
	if k != nil {
		t.list[k.index].Seen++
		if k.table == table {
			return
		}
	}
	p, why := t.parse(string(message))
	if why != "" {
		l.problems.at(l.name, n, "cannot read a tuning line of NCCL", why, "repair or remove the line")
		return
	}
	switch {
	case k != nil:
		k.table = table
	case len(t.list) == maxPredictions:
		t.left++
	default:
		p.Seen = 1
		p.Source = result.Source{File: l.name, Line: n}
		t.known[key] = &seen{len(t.list), table}
		t.list = append(t.list, p)
	}
	if p.Function != "" && p.Function != "AllReduce" {
		return
	}
	t.choose(choice{table, p.Size}, l.word(algorithmOf(p)))
	if len(t.sets) > maxSets {
		l.full(n, maxSets, "different choices at a size in tuning lines of NCCL")
	}
}

// choose adds an algorithm to those of a choice.
func (t *tuning) choose(c choice, algorithm string) {
	if t.lost[c.table] {
		return
	}
	sizes := t.chosen[c.table]
	if t.pairs >= maxChoices {
		t.pairs -= len(sizes)
		delete(t.chosen, c.table)
		if t.lost == nil {
			t.lost = map[int]bool{}
		}
		t.lost[c.table] = true
		return
	}
	if sizes == nil {
		sizes = map[uint64]int{}
		t.chosen[c.table] = sizes
	}
	set, ok := sizes[c.size]
	var names []string
	if ok {
		if names = t.sets[set]; slices.Contains(names, algorithm) {
			return
		}
	} else {
		t.pairs++
	}
	names = append(slices.Clip(names), algorithm)
	at := slices.IndexFunc(t.sets, func(s []string) bool { return slices.Equal(s, names) })
	if at < 0 {
		at = len(t.sets)
		t.sets = append(t.sets, names)
	}
	sizes[c.size] = at
}

// names are the algorithms of a choice.
func (t *tuning) names(c choice) []string {
	if set, ok := t.chosen[c.table][c.size]; ok {
		return t.sets[set]
	}
	return nil
}

// only is the algorithm of a choice that has one.
func (t *tuning) only(c choice) (string, bool) {
	if n := t.names(c); len(n) == 1 {
		return n[0], true
	}
	return "", false
}

// current is the number of the table that lines of NCCL's log now belong to:
// the open one, else the next.
func (l *log) current() int {
	if n := len(l.tables); n > 0 && !l.tables[n-1].closed && l.tables[n-1].cut == "" {
		return n
	}
	return len(l.tables) + 1
}

// algorithmOf is how a row names the choice, in the words of result.LinkFactor.
func algorithmOf(p result.Prediction) string {
	if p.Kernel != "" {
		return p.Algorithm + " " + p.Kernel
	}
	return strings.ToLower(p.Algorithm + " " + p.Protocol)
}

// parse reads the text after "NCCL INFO "; why is not empty when it cannot.
func (t *tuning) parse(s string) (p result.Prediction, why string) {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	if m := reOther.FindStringSubmatch(s); m != nil {
		size, err := strconv.ParseUint(m[3], 10, 64)
		if err != nil {
			return p, err.Error()
		}
		p = result.Prediction{Size: size, Function: m[1], Algorithm: strings.ToLower(m[2]), Kernel: m[4],
			Channels: number(m[5]), Threads: number(m[6]), Works: number(m[7])}
		if p.Kernel == "" {
			p.Kernel = m[8]
		}
		return p, ""
	}
	m := reModel.FindStringSubmatch(s)
	if m == nil {
		return p, fmt.Sprintf("%q has none of the five forms of NCCL 2.20 to 2.30", s)
	}
	size, err := strconv.ParseUint(m[2], 10, 64)
	if err != nil {
		return p, err.Error()
	}
	names := algorithms
	if t.release != [2]int{} && t.release[0] == 2 && t.release[1] <= 12 {
		names = algorithms212
	}
	p = result.Prediction{Size: size, Function: m[1]}
	if p.Algorithm, why = named(m[3], names, "algorithm"); why != "" {
		return p, why
	}
	if p.Protocol, why = named(m[4], protocols, "protocol"); why != "" {
		return p, why
	}
	if m[5] != "" {
		x, ok := parse([]byte(m[5]))
		if !ok {
			return p, fmt.Sprintf("the time is %q", m[5])
		}
		p.Time = &x.value
	}
	if m[6] != "" {
		low, high := number(m[6]), number(m[7])
		if high < low {
			return p, fmt.Sprintf("the channels go from %d to %d", low, high)
		}
		p.Channels = high - low + 1
	}
	return p, ""
}

// named gives the name of an index, or a name as this package spells it.
// Releases of NCCL differ in the case of letters.
func named(s string, names []string, what string) (name, why string) {
	if digits([]byte(s)) {
		i, err := strconv.Atoi(s)
		if err != nil || i >= len(names) {
			return "", fmt.Sprintf("%s %s is not known: there are %d", what, s, len(names))
		}
		return names[i], ""
	}
	for _, n := range names {
		if strings.EqualFold(n, s) || strings.EqualFold(n, strings.ReplaceAll(s, "_", "")) {
			return n, ""
		}
	}
	return "", fmt.Sprintf("%s %q is not known: %s", what, s, strings.Join(names, ", "))
}

// version reads "2.20.5+cuda12.4".
func (t *tuning) version(b []byte) {
	parts := bytes.SplitN(b, []byte("."), 3)
	if len(parts) < 2 {
		return
	}
	major, ok := count(parts[0])
	minor, ok2 := count(parts[1])
	if ok && ok2 && major < 100 && minor < 1000 {
		t.release = [2]int{int(major), int(minor)}
		text, _, _ := bytes.Cut(b, []byte("+"))
		t.text = string(bytes.TrimSpace(text))
	}
}

func (t *tuning) communicator(ranks int) {
	if t.sizes == nil {
		t.sizes = map[int]bool{}
	}
	t.sizes[ranks] = true
}

// ranks is the number of ranks of the log's communicators when all have the
// same; 0 else.
func (t *tuning) ranks() int {
	if len(t.sizes) != 1 {
		return 0
	}
	return slices.Collect(maps.Keys(t.sizes))[0]
}

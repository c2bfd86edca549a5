package importer

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// tuning is what NCCL's log tells of the choices of its model.
type tuning struct {
	predictions []result.Prediction
	known       map[string]*seen    // by the text of the line
	chosen      map[choice][]string // algorithms, each once
	sizes       map[int]bool        // of communicators
	words       map[string]string   // names of types and operations, each once
	text        string              // NCCL's version as printed
	release     [2]int              // NCCL's version; 0, 0 when not told
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
	if l.tuning.known == nil {
		l.tuning.known = map[string]*seen{}
		l.tuning.chosen = map[choice][]string{}
	}
	t := &l.tuning
	table := l.current()
	k := t.known[string(message)]
	if k != nil {
		t.predictions[k.index].Seen++
		if k.table == table {
			return
		}
	}
	p, why := t.parse(string(message))
	if why != "" {
		l.problems.at(l.name, n, "cannot read a tuning line of NCCL", why, "repair or remove the line")
		return
	}
	if k == nil {
		p.Seen = 1
		p.Source = result.Source{File: l.name, Line: n}
		k = &seen{index: len(t.predictions)}
		t.known[string(message)] = k
		t.predictions = append(t.predictions, p)
	}
	k.table = table
	if p.Function != "" && p.Function != "AllReduce" {
		return
	}
	c := choice{table, p.Size}
	if a := algorithmOf(p); !slices.Contains(t.chosen[c], a) {
		t.chosen[c] = append(t.chosen[c], a)
	}
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

// word gives b as a string, the same one for the same word: a log has few
// names of types and operations and many rows.
func (l *log) word(b []byte) string {
	if w, ok := l.tuning.words[string(b)]; ok {
		return w
	}
	if l.tuning.words == nil {
		l.tuning.words = map[string]string{}
	}
	w := string(b)
	l.tuning.words[w] = w
	return w
}

package mutation

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	jump  = regexp.MustCompile(`^\s*(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$L__BB\w+);`)
	leave = regexp.MustCompile(`^\s*(@!?%p\d+\s+)?(?:ret|exit);`)
	label = regexp.MustCompile(`^(\$L__BB\w+):`)
)

// flow is which lines can come right behind each line of a kernel: found out once, for
// all of its mutants.
type flow struct {
	once sync.Once
	next [][]int
}

// of gives it for some lines.
func (f *flow) of(lines []string) [][]int {
	f.once.Do(func() {
		to := map[string]int{}
		for i, l := range lines {
			if n := label.FindStringSubmatch(l); n != nil {
				to[n[1]] = i
			}
		}
		f.next = make([][]int, len(lines))
		for i, l := range lines {
			j, r := jump.FindStringSubmatch(l), leave.FindStringSubmatch(l)
			if j != nil {
				f.next[i] = append(f.next[i], to[j[2]])
			}
			if ends := j != nil && j[1] == "" || r != nil && r[1] == ""; !ends && i+1 < len(lines) {
				f.next[i] = append(f.next[i], i+1)
			}
		}
	})
	return f.next
}

// behind gives the lines, counted from 0, that execution can come to from behind
// line at, on every path up to a line for which stop holds, that one included.
// The order of lines in the text says nothing: compilers move blocks about.
func (m *Mutant) behind(at int, stop func(l string) bool) map[int]bool {
	follow := m.flow.of(m.lines)
	reached := map[int]bool{}
	next := follow[at]
	for len(next) > 0 {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		if reached[i] {
			continue
		}
		reached[i] = true
		if stop == nil || !stop(m.lines[i]) {
			next = append(slices.Clip(next), follow[i]...)
		}
	}
	return reached
}

// passes tells whether execution can come from behind line at to a line that
// fits, without one in between for which stop holds.
func (m *Mutant) passes(at int, fits *regexp.Regexp, stop func(l string) bool) bool {
	for i := range m.behind(at, stop) {
		if fits.MatchString(m.lines[i]) {
			return true
		}
	}
	return false
}

// dataAccess is a load or store of a message, a packet, a slot or a staging buffer.
var dataAccess = regexp.MustCompile(`(?:ld|st)\.global\.v4|(?:ld|st)\.volatile\.(?:global\.)?[ubf]\d|(?:ld|st)\.relaxed|multimem\.|cp\.async\.bulk\.global`)

// anyAccess is one of those, or of a counter by which ranks synchronise.
var anyAccess = regexp.MustCompile(dataAccess.String() + `|st\.release|ld\.acquire`)

func isBarrier(l string) bool { return strings.Contains(l, "bar.sync") }

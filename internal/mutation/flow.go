package mutation

import (
	"regexp"
	"strings"
)

var (
	jump  = regexp.MustCompile(`^\s*(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$L__BB\w+);`)
	leave = regexp.MustCompile(`^\s*(@!?%p\d+\s+)?(?:ret|exit);`)
	label = regexp.MustCompile(`^(\$L__BB\w+):`)
)

// behind gives the lines, counted from 0, that execution can come to from behind
// line at, on every path up to a line for which stop holds, that one included.
// The order of lines in the text says nothing: compilers move blocks about.
func (m *Mutant) behind(at int, stop func(l string) bool) map[int]bool {
	to := map[string]int{}
	for i, l := range m.lines {
		if n := label.FindStringSubmatch(l); n != nil {
			to[n[1]] = i
		}
	}
	reached := map[int]bool{}
	next := m.follow(at, to)
	for len(next) > 0 {
		i := next[0]
		next = next[1:]
		if reached[i] {
			continue
		}
		reached[i] = true
		if stop == nil || !stop(m.lines[i]) {
			next = append(next, m.follow(i, to)...)
		}
	}
	return reached
}

// follow gives the lines that can come right behind line i.
func (m *Mutant) follow(i int, to map[string]int) (next []int) {
	l := m.lines[i]
	j, r := jump.FindStringSubmatch(l), leave.FindStringSubmatch(l)
	if j != nil {
		next = append(next, to[j[2]])
	}
	if ends := j != nil && j[1] == "" || r != nil && r[1] == ""; !ends && i+1 < len(m.lines) {
		next = append(next, i+1)
	}
	return next
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

// otherAccess is one of a message, or an announcement.
var otherAccess = regexp.MustCompile(dataAccess.String() + `|st\.release`)

func isBarrier(l string) bool { return strings.Contains(l, "bar.sync") }

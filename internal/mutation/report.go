package mutation

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report writes what came of all mutants as Markdown, for docs/mutation.md.
// which, unless empty, says what flag chose the kernels.
func Report(w io.Writer, all []Outcome, seeds uint64, which string) error {
	var b strings.Builder
	killed, equivalent := 0, 0
	for _, o := range all {
		if o.Killed() {
			killed++
		} else if o.Why() != "" {
			equivalent++
		}
	}
	fmt.Fprintf(&b, "# Mutants of the kernels\n\n")
	fmt.Fprintf(&b, "Made by `make mutation`; do not edit. How it works is in [proof.md](proof.md).\n\n")
	if which != "" {
		fmt.Fprintf(&b, "Not all kernels: those that `-mutation.kernels %s` chose.\n\n", which)
	}
	fmt.Fprintf(&b, "%d mutants: %d found out, %d not and explained below, %d not explained. Each ran up to %d rounds of 5 calls among 2 and 4 ranks, and half as many among 8, wherever its line was reached; where these never came, up to %d calls in which waits fail.\n\n",
		len(all), killed, equivalent, len(all)-killed-equivalent, seeds, impatientSeeds)
	byModule(&b, all)
	byKind(&b, all)
	survivors(&b, all)
	_, err := io.WriteString(w, b.String())
	return err
}

// count adds up outcomes by a name, in the order of first appearance.
func count(all []Outcome, name func(Outcome) string, column func(Outcome) string) (names []string, sums map[string]map[string]int) {
	sums = map[string]map[string]int{}
	for _, o := range all {
		n := name(o)
		if sums[n] == nil {
			names, sums[n] = append(names, n), map[string]int{}
		}
		sums[n]["all"]++
		sums[n][column(o)]++
	}
	return names, sums
}

func fate(o Outcome) string {
	if o.Killed() {
		return o.By
	}
	return "not found out"
}

// name is a mutant's module as Markdown.
func name(m *Mutant) string {
	if n, element, ok := strings.Cut(m.module(), " "); ok {
		return fmt.Sprintf("`%s` %s", n, element)
	}
	return fmt.Sprintf("`%s`", m.module())
}

// entry is a line of a list of mutants.
func entry(m *Mutant) string {
	if m.Line == 0 {
		return fmt.Sprintf("- %s, %s: %s", name(m), m.Kind, m.Old)
	}
	return fmt.Sprintf("- %s, line %d, %s: `%s`", name(m), m.Line, m.Kind, m.Old)
}

// byModule has a row for each kernel. Its text is told by a hash, so that a test can
// see what an older report says nothing of.
func byModule(b *strings.Builder, all []Outcome) {
	names, sums := count(all, func(o Outcome) string { return name(o.Mutant) }, fate)
	texts := map[string]string{}
	for _, o := range all {
		texts[name(o.Mutant)] = o.text()
	}
	fmt.Fprintf(b, "## By kernel\n\n| kernel | mutants | found out | text |\n|---|--:|--:|---|\n")
	for _, n := range names {
		fmt.Fprintf(b, "| %s | %d | %d | %s |\n", n, sums[n]["all"], sums[n]["all"]-sums[n]["not found out"], texts[n])
	}
}

// text is a hash of the kernel as it ships.
func (m *Mutant) text() string {
	if m.lines == nil {
		return "–"
	}
	return fmt.Sprintf("%.6x", sha256.Sum256([]byte(labels.ReplaceAllString(strings.Join(m.lines, "\n"), "$$L__BB_"))))
}

func byKind(b *strings.Builder, all []Outcome) {
	names, sums := count(all, func(o Outcome) string { return o.Kind }, fate)
	_, total := count(all, func(Outcome) string { return "" }, fate)
	var columns []string
	for c := range total[""] {
		if c != "all" && c != "not found out" {
			columns = append(columns, c)
		}
	}
	slices.Sort(columns)
	columns = append(columns, "not found out")
	fmt.Fprintf(b, "\n## By what is broken, and how it was found out\n\n| broken | mutants | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)+1))
	for _, n := range names {
		fmt.Fprintf(b, "| %s | %d |", n, sums[n]["all"])
		for _, c := range columns {
			fmt.Fprintf(b, " %d |", sums[n][c])
		}
		fmt.Fprintln(b)
	}
}

func survivors(b *strings.Builder, all []Outcome) {
	section := func(title string, of func(Outcome) bool) {
		fmt.Fprintf(b, "\n## %s\n", title)
		for i := range len(excuses) + 1 {
			e := &excuse{title: "Not explained", why: "A stronger workload, or an argument, is missing."}
			if i < len(excuses) {
				e = &excuses[i]
			}
			var list []string
			why := ""
			for _, o := range all {
				if o.Killed() || !of(o) {
					continue
				}
				if w := o.Why(); w == "" && i == len(excuses) || w != "" && o.excuse() == e {
					list, why = append(list, entry(o.Mutant)), w
				}
			}
			if len(list) == 0 {
				continue
			}
			if why == "" {
				why = e.why
			}
			fmt.Fprintf(b, "\n### %s (%d)\n\n%s\n\n%s\n", e.title, len(list), why, strings.Join(list, "\n"))
		}
	}
	section("Not found out", func(o Outcome) bool { return o.Tried > 0 })
	section("Never executed", func(o Outcome) bool { return o.Tried == 0 })
}

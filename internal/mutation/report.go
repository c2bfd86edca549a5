package mutation

import (
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
	fmt.Fprintf(&b, "%d mutants: %d found out, %d not and explained below, %d not explained. Each ran up to %d rounds of 5 calls among 2 and 4 ranks, and half as many among 8, wherever its line was reached.\n\n",
		len(all), killed, equivalent, len(all)-killed-equivalent, seeds)
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

func byModule(b *strings.Builder, all []Outcome) {
	names, sums := count(all, func(o Outcome) string { return fmt.Sprintf("`%s_sum` of %s", o.Family, o.Element) }, fate)
	fmt.Fprintf(b, "## By kernel\n\n| kernel | mutants | found out |\n|---|--:|--:|\n")
	for _, n := range names {
		fmt.Fprintf(b, "| %s | %d | %d |\n", n, sums[n]["all"], sums[n]["all"]-sums[n]["not found out"])
	}
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
	fmt.Fprintf(b, "\n## Not found out\n")
	for _, e := range append(slices.Clone(excuses), excuse{}) {
		var list []string
		for _, o := range all {
			if !o.Killed() && o.Why() == e.why {
				list = append(list, fmt.Sprintf("- `%s_sum` of %s, line %d, %s: `%s`", o.Family, o.Element, o.Line, o.Kind, o.Old))
			}
		}
		if len(list) == 0 {
			continue
		}
		title, why := e.title, e.why
		if why == "" {
			title, why = "Not explained", "A stronger workload, or an argument, is missing."
		}
		fmt.Fprintf(b, "\n### %s (%d)\n\n%s\n\n%s\n", title, len(list), why, strings.Join(list, "\n"))
	}
}

package compare

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Names are what the two results are called, their files as a rule.
type Names struct{ A, B string }

// Method says how rows were judged; every format but benchfmt carries it.
const Method = "medians; 95 % confidence intervals of the medians from order statistics (no assumption on the distribution); " +
	"faster and slower mean that the intervals do not overlap; iterations of one run tell the noise within it, not between runs"

// headings of a table, and which columns are numbers. The last one is there when
// there are goals.
var headings = []string{"size (B)", "mode", "placement", "type", "op", "A (us)", "A ±", "B (us)", "B ±", "A busbw", "B busbw", "B/A", "verdict", "time, goal"}

func number(column int) bool {
	return column == 0 || column >= 5 && column < len(headings)-2
}

// columns are the headings of this comparison.
func (c *Comparison) columns() []string {
	if len(c.Goals) == 0 {
		return headings[:len(headings)-1]
	}
	return headings
}

// cells writes a row.
func (c *Comparison) cells(r *Row) []string {
	mode := r.Mode
	if c.ModeA != "" {
		mode = r.ModeA + " > " + r.ModeB
	}
	if r.Graph {
		mode += ", graph"
	}
	return append([]string{
		fmt.Sprint(r.Size), mode, string(r.Placement), cmp.Or(r.DataType, "?"), cmp.Or(r.Op, "?"),
		figure(r.A.Median, 2), spread(r.A), figure(r.B.Median, 2), spread(r.B),
		figure(r.BusA, 2), figure(r.BusB, 2), figure(r.Ratio, 3), verdictOf(r),
	}, goalCell(c, r)...)
}

// figure writes x with so many decimals, or with more where fewer than two digits
// of it would be seen: a small number is not nothing. Zero is written as zero.
func figure(x float64, decimals int) string { return digits(x, decimals, 2) }

// percentage writes a share as figure does, with at least one digit.
func percentage(share float64) string { return digits(100*share, 1, 1) + "%" }

func digits(x float64, decimals, least int) string {
	switch size := math.Abs(x); {
	case size > 0 && size < 1e-6:
		return fmt.Sprintf("%.1e", x)
	case size > 0:
		decimals = max(decimals, least-1-int(math.Floor(math.Log10(size))))
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

func verdictOf(r *Row) string {
	if r.Basis == Averages && r.Verdict != Undecided {
		return string(r.Verdict) + " (averages)"
	}
	return string(r.Verdict)
}

// goalCell is the cell of the last column, if there is one.
func goalCell(c *Comparison, r *Row) []string {
	switch {
	case len(c.Goals) == 0:
		return nil
	case r.Goal == nil:
		return []string{""}
	case r.Met():
		return []string{fmt.Sprintf("≤ %g: met", *r.Goal)}
	}
	return []string{fmt.Sprintf("≤ %g: MISSED", *r.Goal)}
}

func spread(e Estimate) string {
	s, ok := e.Spread()
	if !ok {
		return "N/A"
	}
	return percentage(s)
}

// describe names a result in one line.
func describe(name string, r *result.Run) string {
	by := "nvls-allreduce " + r.Version
	if r.Tool != "" {
		by = r.Tool
	}
	s := fmt.Sprintf("%s: %s, %d ranks on %s", name, by, r.WorldSize, cmp.Or(r.DeviceName(), "unknown GPUs"))
	if !r.Start.IsZero() {
		s += ", " + r.Start.Format("2006-01-02 15:04:05 -0700")
	}
	if r.Status.State != result.Complete {
		s += fmt.Sprintf(", not complete: %s %s", r.Status.State, r.Status.Reason)
	}
	return s
}

// notes are the lines under a table.
func (c *Comparison) notes() []string {
	var out []string
	n := c.Count()
	var verdicts []string
	for _, v := range []Verdict{Faster, Slower, Same, Undecided, Wrong} {
		if n[v] > 0 {
			verdicts = append(verdicts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	out = append(out, fmt.Sprintf("B against A: %s.", strings.Join(verdicts, ", ")))
	out = append(out, "Method: "+Method+".")
	averages, few := 0, 0
	for i := range c.Rows {
		switch r := &c.Rows[i]; {
		case r.Basis == Averages:
			averages++
		case r.A.Low == nil || r.B.Low == nil:
			few++
		}
	}
	if averages > 0 {
		out = append(out, fmt.Sprintf("Rows with averages only, on one side or both: %d; with fewer than 6 cycles of the sweep no noise estimate is possible there.", averages))
	}
	if few > 0 {
		out = append(out, fmt.Sprintf("Rows with fewer than 6 iterations, on one side or both: %d; no noise estimate is possible there.", few))
	}
	for _, side := range []struct {
		name    string
		missing []string
	}{{"A", c.MissingA}, {"B", c.MissingB}} {
		if len(side.missing) > 0 {
			out = append(out, fmt.Sprintf("%s has no rows of mode %s; the others count.", side.name, strings.Join(side.missing, ", ")))
		}
	}
	if c.partial > 0 {
		out = append(out, fmt.Sprintf("Rows where a side lacks some of its modes: %d; the fastest of the others counts there.", c.partial))
	}
	if strings.Contains(c.ModeA+c.ModeB, modeSeparator) {
		out = append(out, "Of several modes the one of the least median is taken at each size, which favours the side that has more of them.")
	}
	if len(c.Goals) > 0 {
		out = append(out, c.goalNote())
	}
	for _, side := range []struct {
		name string
		keys []Key
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(side.keys) == 0 {
			continue
		}
		var list []string
		for _, k := range side.keys[:min(5, len(side.keys))] {
			list = append(list, k.String())
		}
		if more := len(side.keys) - len(list); more > 0 {
			list = append(list, fmt.Sprintf("%d more", more))
		}
		out = append(out, fmt.Sprintf("Only in %s (%d): %s.", side.name, len(side.keys), strings.Join(list, "; ")))
	}
	return out
}

// goalNote counts the goals that are met.
func (c *Comparison) goalNote() string {
	rows, met := 0, 0
	for _, r := range c.Rows {
		if r.Goal != nil {
			rows++
			if r.Met() {
				met++
			}
		}
	}
	var goals []string
	for _, g := range c.Goals {
		goals = append(goals, g.String())
	}
	return fmt.Sprintf("Goals (sizes = largest part of A's time): %s. Met in %d of %d rows.", strings.Join(goals, ", "), met, rows)
}

// WriteText writes a table for terminals.
func (c *Comparison) WriteText(out io.Writer, names Names) error {
	w := bufio.NewWriter(out)
	mark := c.writeSides(w, names)
	fmt.Fprintln(w)
	table := [][]string{c.columns()}
	for i := range c.Rows {
		table = append(table, c.cells(&c.Rows[i]))
	}
	writeAligned(w, table, number, mark)
	fmt.Fprintln(w)
	for _, n := range c.notes() {
		fmt.Fprintln(w, n+mark)
	}
	return w.Flush()
}

// writeSides says what A and B are, and gives the label that every line carries.
func (c *Comparison) writeSides(w io.Writer, names Names) (mark string) {
	if l := c.A.Label(); l != "" {
		mark = "  [" + l + "]"
	}
	fmt.Fprintf(w, "A = %s%s\nB = %s%s\n", describe(names.A, c.A), mark, describe(names.B, c.B), mark)
	return mark
}

// writeAligned writes a table whose columns are as wide as they need to be, those
// of numbers to the right, and mark after each line. Columns without a word below
// their heading are left out.
func writeAligned(w io.Writer, table [][]string, number func(column int) bool, mark string) {
	width := make([]int, len(table[0]))
	for _, line := range table[1:] {
		for i, s := range line {
			if s != "" {
				width[i] = max(width[i], utf8.RuneCountInString(s), utf8.RuneCountInString(table[0][i]))
			}
		}
	}
	for _, line := range table {
		var b strings.Builder
		for i, s := range line {
			if width[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if number(i) {
				b.WriteString(pad + s + "  ")
			} else {
				b.WriteString(s + pad + "  ")
			}
		}
		fmt.Fprintf(w, "%s%s\n", strings.TrimRight(b.String(), " "), mark)
	}
}

// WriteMarkdown writes the same as a table of Markdown.
func (c *Comparison) WriteMarkdown(out io.Writer, names Names) error {
	w := bufio.NewWriter(out)
	if l := c.A.Label(); l != "" {
		fmt.Fprintf(w, "**%s**\n\n", l)
	}
	fmt.Fprintf(w, "- A = %s\n- B = %s\n\n", escape(describe(names.A, c.A)), escape(describe(names.B, c.B)))
	line := func(cells []string) {
		for _, s := range cells {
			fmt.Fprintf(w, "| %s ", escape(s))
		}
		fmt.Fprintln(w, "|")
	}
	line(c.columns())
	for i := range c.columns() {
		if number(i) {
			fmt.Fprint(w, "|---:")
		} else {
			fmt.Fprint(w, "|---")
		}
	}
	fmt.Fprintln(w, "|")
	for i := range c.Rows {
		line(c.cells(&c.Rows[i]))
	}
	fmt.Fprintln(w)
	for _, n := range c.notes() {
		fmt.Fprintf(w, "%s\n\n", escape(n))
	}
	return w.Flush()
}

// escape keeps text of a file from being read as Markdown.
var markdown = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "`", "\\`", "\n", " ")

func escape(s string) string { return markdown.Replace(s) }

package report

import (
	"fmt"
	"slices"
	"strconv"
)

// table is a table with a heading for each column.
type table struct {
	Columns []column
	Rows    [][]string
	Same    []string // what was the same in all rows and has no column: "type float"
}

// column is one column of a table.
type column struct {
	Name   string
	Number bool // aligned to the right
	Long   bool // text that may be broken into lines
	drop   bool // if all rows have the same
}

func text(names ...string) []column   { return columns(names, column{}) }
func long(names ...string) []column   { return columns(names, column{Long: true}) }
func number(names ...string) []column { return columns(names, column{Number: true}) }

// constant columns are left out where all rows have the same.
func constant(names ...string) []column { return columns(names, column{drop: true}) }

func columns(names []string, like column) []column {
	out := make([]column, len(names))
	for i, n := range names {
		like.Name = n
		out[i] = like
	}
	return out
}

// condense takes out the constant columns that are the same in all rows, and any
// column of which nothing is known.
func (t *table) condense() {
	for i := len(t.Columns) - 1; i >= 0; i-- {
		c := t.Columns[i]
		if len(t.Rows) == 0 || slices.ContainsFunc(t.Rows, func(r []string) bool { return r[i] != t.Rows[0][i] }) {
			continue
		}
		if !c.drop && t.Rows[0][i] != unknown {
			continue
		}
		if v := t.Rows[0][i]; v != unknown {
			t.Same = append([]string{c.Name + " " + v}, t.Same...)
		}
		t.Columns = slices.Delete(t.Columns, i, i+1)
		for j, r := range t.Rows {
			t.Rows[j] = slices.Delete(r, i, i+1)
		}
	}
}

// decimal writes x with the digits that a reader needs: two after the point, fewer
// where there are many before it.
func decimal(x float64) string {
	digits := 2
	switch {
	case x >= 10_000:
		digits = 0
	case x >= 1000:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// optional is decimal for what may not be known.
func optional(x *float64) string {
	if x == nil {
		return unknown
	}
	return decimal(*x)
}

// percent writes a share.
func percent(x *float64) string {
	if x == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f", 100**x)
}

package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Totals are computed from the rows of a run.
type Totals struct {
	// AvgBusBW is the mean over all rows in GB/s, the number that nccl-tests
	// prints last. Over a sweep from small sizes it says little.
	AvgBusBW      float64     `json:"avg_busbw_gb_s"`
	Checked       int         `json:"checked_rows"`   // rows that were verified
	FailedChecks  int         `json:"failed_checks"`  // verified rows with a wrong element
	WrongElements uint64      `json:"wrong_elements"` // over all rows and ranks
	Modes         []ModeTotal `json:"modes,omitempty"`
}

// ModeTotal is the part of Totals of one mode, with graphs or without.
type ModeTotal struct {
	Mode     string  `json:"mode"`
	Graph    int     `json:"graph"`
	Rows     int     `json:"rows"`
	AvgBusBW float64 `json:"avg_busbw_gb_s"`
	MaxBusBW float64 `json:"max_busbw_gb_s"`
}

// Totals sums up the rows measured so far, modes in the order of their first
// row.
func (r *Run) Totals() Totals {
	var t totaller
	for i := range r.Rows {
		t.add(&r.Rows[i])
	}
	return t.Totals
}

// totaller sums up rows as they come.
type totaller struct {
	Totals
	rows  int
	index map[modeKey]int // in Modes
}

type modeKey struct {
	mode  string
	graph int
}

func (t *totaller) add(row *Row) {
	if row.Wrong != nil {
		t.Checked++
		t.WrongElements += *row.Wrong
		if *row.Wrong > 0 {
			t.FailedChecks++
		}
	}
	// Running means, so that no sum of large numbers overflows.
	t.rows++
	t.AvgBusBW += (row.BusBW - t.AvgBusBW) / float64(t.rows)
	k := modeKey{row.Mode, row.Graph}
	at, ok := t.index[k]
	if !ok {
		if t.index == nil {
			t.index = map[modeKey]int{}
		}
		at = len(t.Modes)
		t.index[k] = at
		t.Modes = append(t.Modes, ModeTotal{Mode: row.Mode, Graph: row.Graph})
	}
	m := &t.Modes[at]
	m.Rows++
	m.MaxBusBW = max(m.MaxBusBW, row.BusBW)
	m.AvgBusBW += (row.BusBW - m.AvgBusBW) / float64(m.Rows)
}

// encode writes t as the last field of a result file. Modes are written one by
// one: an imported log can have many thousands.
func (t Totals) encode(w io.Writer) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("  ", "  ")
	bare := t
	bare.Modes = nil
	if err := e.Encode(bare); err != nil {
		return err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(t.Modes) == 0 {
		_, err := w.Write(text)
		return err
	}
	const end = "\n  }"
	if _, err := fmt.Fprintf(w, "%s,\n    \"modes\": [", bytes.TrimSuffix(text, []byte(end))); err != nil {
		return err
	}
	e.SetIndent("      ", "  ")
	for i := range t.Modes {
		b.Reset()
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n      ")
		if err := e.Encode(&t.Modes[i]); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n"))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n    ]"+end)
	return err
}

// Meets reports whether the average bus bandwidth of every mode reaches
// required GB/s. The average over modes would hide a slow one behind a fast one.
// A run without rows meets nothing.
func (t Totals) Meets(required float64) bool {
	if len(t.Modes) == 0 {
		return false
	}
	for _, m := range t.Modes {
		if m.AvgBusBW < required {
			return false
		}
	}
	return true
}

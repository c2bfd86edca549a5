package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// rowWriter appends rows as JSON as encoding/json would indent them inside a
// result file, byte for byte, at a fraction of its time: an imported log can have
// millions.
type rowWriter struct {
	b   []byte
	err error
}

const (
	rowIndent = "\n      " // before a field of a row
	next      = "," + rowIndent
)

// row appends r from its brace on.
func (w *rowWriter) row(r *Row) {
	w.raw("{" + rowIndent + `"mode": `)
	w.text(r.Mode)
	if len(r.Requested) > 0 {
		w.raw(next + `"requested": `)
		w.value(r.Requested)
	}
	if r.Algorithm != "" {
		w.raw(next + `"algorithm": `)
		w.text(r.Algorithm)
	}
	w.raw(next + `"size_bytes": `)
	w.uint(r.Size)
	w.raw(next + `"count": `)
	w.uint(r.Count)
	w.raw(next + `"datatype": `)
	w.text(r.DataType)
	w.raw(next + `"op": `)
	w.text(r.Op)
	w.raw(next + `"placement": `)
	w.text(string(r.Placement))
	w.raw(next + `"graph": `)
	w.int(r.Graph)
	w.raw(next + `"cycle": `)
	w.int(r.Cycle)
	w.raw(next + `"time_us": `)
	w.float(r.Time)
	w.raw(next + `"algbw_gb_s": `)
	w.float(r.AlgBW)
	w.raw(next + `"busbw_gb_s": `)
	w.float(r.BusBW)
	w.raw(next + `"linkbw_gb_s": `)
	w.optional(r.LinkBW)
	w.raw(next + `"link_share": `)
	w.optional(r.LinkShare)
	w.raw(next + `"wrong": `)
	if r.Wrong == nil {
		w.raw("null")
	} else {
		w.uint(*r.Wrong)
	}
	if r.Checked != nil {
		w.raw(next + `"checked": `)
		w.uint(*r.Checked)
	}
	// Rare or short, so left to encoding/json.
	if r.FirstWrong != nil {
		w.raw(next + `"first_wrong": `)
		w.value(r.FirstWrong)
	}
	if s := r.Iterations; s != nil {
		w.raw(next + `"iterations": {`)
		w.raw(rowIndent + `  "n": `)
		w.int(s.N)
		w.floats([]string{"min_us", "p50_us", "p99_us", "max_us", "mean_us"}, s.Min, s.P50, s.P99, s.Max, s.Mean)
	}
	if len(r.Times) > 0 {
		w.raw(next + `"iteration_times_us": [`)
		for i, t := range r.Times {
			if i > 0 {
				w.raw(",")
			}
			w.raw(rowIndent + "  ")
			w.float(t)
		}
		w.raw(rowIndent + "]")
	}
	if s := r.Range; s != nil {
		w.raw(next + `"iteration_range": {`)
		names, values := []string{"min_us", "p99_us", "max_us", "cv_percent"}, []float64{s.Min, s.P99, s.Max, s.CV}
		if s.N != 0 {
			w.raw(rowIndent + `  "n": `)
			w.int(s.N)
			w.floats(names, values...)
		} else {
			w.raw(rowIndent + `  "min_us": `)
			w.float(s.Min)
			w.floats(names[1:], values[1:]...)
		}
	}
	w.raw(next + `"host_us": `)
	w.optional(r.HostTime)
	if s := r.Source; s != nil {
		w.raw(next + `"source": {`)
		w.raw(rowIndent + `  "file": `)
		w.text(s.File)
		w.raw(next + `  "line": `)
		w.int(s.Line)
		if s.Table != 0 {
			w.raw(next + `  "table": `)
			w.int(s.Table)
		}
		w.raw(rowIndent + "}")
	}
	w.raw("\n    }")
}

func (w *rowWriter) raw(s string)  { w.b = append(w.b, s...) }
func (w *rowWriter) uint(n uint64) { w.b = strconv.AppendUint(w.b, n, 10) }
func (w *rowWriter) int(n int)     { w.b = strconv.AppendInt(w.b, int64(n), 10) }

// floats appends the later fields of an object inside a row, and its end.
func (w *rowWriter) floats(names []string, values ...float64) {
	for i, n := range names {
		w.raw(next + `  "`)
		w.raw(n)
		w.raw(`": `)
		w.float(values[i])
	}
	w.raw(rowIndent + "}")
}

// text appends a string; one with characters that JSON escapes goes through
// encoding/json.
func (w *rowWriter) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			w.value(s)
			return
		}
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

// float appends a number as encoding/json does: as ECMAScript prints it.
func (w *rowWriter) float(f float64) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		w.fail(fmt.Errorf("%g is no number of JSON", f))
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	w.b = strconv.AppendFloat(w.b, f, format, -1, 64)
	// e-09 becomes e-9.
	if n := len(w.b); format == 'e' && n >= 4 && w.b[n-4] == 'e' && w.b[n-3] == '-' && w.b[n-2] == '0' {
		w.b[n-2] = w.b[n-1]
		w.b = w.b[:n-1]
	}
}

func (w *rowWriter) optional(f *float64) {
	if f == nil {
		w.raw("null")
	} else {
		w.float(*f)
	}
}

// value appends v, a field of a row, by encoding/json.
func (w *rowWriter) value(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("      ", "  ")
	if err := e.Encode(v); err != nil {
		w.fail(err)
		return
	}
	w.b = append(w.b, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func (w *rowWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

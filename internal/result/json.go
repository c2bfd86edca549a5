package result

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// Schema names the JSON format that this package writes and reads;
// docs/results.md describes it. Fields may be added under the same name; it
// changes when a field is removed or means something else.
const Schema = "nvls-allreduce/1"

// file is the layout of a result file. Schema and totals are no part of Run,
// so that neither can be stale.
type file struct {
	Schema string `json:"schema"`
	*Run
	Totals Totals `json:"totals"`
}

// Encode writes r as indented JSON with schema and totals. It fails on a run
// that Validate refuses, and on numbers that JSON has not (NaN, infinities).
func Encode(w io.Writer, r *Run) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return EncodeRows(w, r, func(yield func(*Row, error) bool) {
		for i := range r.Rows {
			if !yield(&r.Rows[i], nil) {
				return
			}
		}
	})
}

// EncodeRows is Encode for rows that do not fit in memory: they come from rows
// one by one and not from r. A row is not used after the next is asked for. It
// ends with the first error of rows.
func EncodeRows(w io.Writer, r *Run, rows iter.Seq2[*Row, error]) error {
	// The run without its rows, which go between the two halves, and totals, which
	// are known only after them.
	shell := *r
	shell.Rows = []Row{}
	if err := shell.Validate(); err != nil {
		return err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(struct {
		Schema string `json:"schema"`
		*Run
	}{Schema, &shell}); err != nil {
		return err
	}
	// No text holds this: line ends are escaped in strings, and only fields of the
	// run itself have two spaces before them.
	head, tail, _ := strings.Cut(b.String(), "\n  \"rows\": []")
	b = bytes.Buffer{}
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteString(head)
	out.WriteString("\n  \"rows\": [")
	var total totaller
	var text rowWriter
	n := 0
	for row, err := range rows {
		if err == nil {
			err = row.validate()
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		total.add(row)
		text.b = append(text.b[:0], "\n    "...)
		if n > 0 {
			text.b = append(text.b[:0], ",\n    "...)
		}
		text.row(row)
		if text.err != nil {
			return fmt.Errorf("row %d: %w", n, text.err)
		}
		if _, err := out.Write(text.b); err != nil {
			return err
		}
		n++
	}
	if n > 0 {
		out.WriteString("\n  ")
	}
	out.WriteByte(']')
	out.WriteString(strings.TrimSuffix(tail, "\n}\n"))
	out.WriteString(",\n  \"totals\": ")
	if err := total.encode(out); err != nil {
		return err
	}
	out.WriteString("\n}\n")
	return out.Flush()
}

// Decode reads one result file. A schema of another version is refused: its
// fields may mean something else. Totals in the file are ignored, for they
// follow from the rows.
func Decode(in io.Reader) (*Run, error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

func decode(raw []byte) (*Run, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("not a result file: it is empty")
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("not a result file: its %s is a JSON %s", cmp.Or(kind.Field, "top level"), kind.Value)
		}
		return nil, fmt.Errorf("not a result file: %w", err)
	}
	switch {
	case head.Schema == Schema:
	case head.Schema == "":
		return nil, fmt.Errorf("not a result file: it names no schema; this program reads %q", Schema)
	default:
		return nil, fmt.Errorf("schema is %q, this program reads %q", head.Schema, Schema)
	}
	f := file{Run: new(Run)}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if err := f.Run.Validate(); err != nil {
		return nil, err
	}
	return f.Run, nil
}

// WriteFile writes r as JSON to path, replacing the file at once and whole. It
// may be called while the run goes on, with status running, and again later.
func WriteFile(path string, r *Run) error {
	return Replace(path, func(w io.Writer) error { return Encode(w, r) })
}

// maxResult bounds what is read of a result file. A job's has some hundred
// kilobytes; one of imported logs is eight times as long as they.
const maxResult = 2 << 30

// ReadFile reads a result file. Errors are failures with code Usage.
func ReadFile(path string) (*Run, error) {
	raw, err := userfile.Read(path, maxResult)
	var r *Run
	if err == nil {
		r, err = decode(raw)
	}
	if err != nil {
		e := failure.Wrap(failure.Usage, err, "cannot read results from %s", path)
		e.Do, e.By = "give a JSON file that this program wrote (--output_file)", failure.User
		return nil, e
	}
	return r, nil
}

// Validate says what is wrong with r's fields, all faults joined; nil when
// nothing is.
func (r *Run) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch r.Status.State {
	case Running, Complete:
	case Interrupted, Failed:
		if r.Status.Reason == "" {
			bad("status is %s without a reason", r.Status.State)
		}
	default:
		bad("unknown state %q", r.Status.State)
	}
	if r.WorldSize < 1 {
		bad("world size is %d", r.WorldSize)
	}
	if n := len(r.Devices); n != 0 && n != r.WorldSize && (r.Tool == "" || n > r.WorldSize) {
		bad("%d devices for a world of %d", len(r.Devices), r.WorldSize)
	}
	if !finite(r.LinkLimit) {
		bad("link limit is %g GB/s", r.LinkLimit)
	}
	for i := range r.Rows {
		if err := r.Rows[i].validate(); err != nil {
			bad("row %d (%s, %d bytes): %w", i, r.Rows[i].Mode, r.Rows[i].Size, err)
		}
	}
	for i := range r.Predictions {
		if p := &r.Predictions[i]; p.Time != nil && !finite(*p.Time) {
			bad("prediction %d (%d bytes): time %g µs is no number from 0 up", i, p.Size, *p.Time)
		}
	}
	return errors.Join(errs...)
}

// What a row may say at most: a year, in µs, and far more than any link or memory
// carries, in GB/s. In-place copies of one rank are the fastest rows there are.
const (
	longestTime = 365 * 24 * 3600 * 1e6
	widestBand  = 1e12
)

func (r *Row) validate() error {
	switch {
	case r.Mode == "":
		return errors.New("no mode")
	case r.Placement != OutOfPlace && r.Placement != InPlace:
		return fmt.Errorf("unknown placement %q", r.Placement)
	case !finite(r.Time, r.AlgBW, r.BusBW):
		return fmt.Errorf("time %g µs, algbw %g, busbw %g: not all are numbers from 0 up", r.Time, r.AlgBW, r.BusBW)
	case r.Time > longestTime || r.AlgBW > widestBand || r.BusBW > widestBand:
		return fmt.Errorf("time %g µs, algbw %g, busbw %g: no all-reduce takes that long or is that fast", r.Time, r.AlgBW, r.BusBW)
	case r.FirstWrong != nil && (r.Wrong == nil || *r.Wrong == 0):
		return errors.New("a first wrong element, but none counted")
	}
	return nil
}

// finite reports whether all of v are numbers from 0 up.
func finite(v ...float64) bool {
	for _, x := range v {
		if !(x >= 0) || math.IsInf(x, 1) {
			return false
		}
	}
	return true
}

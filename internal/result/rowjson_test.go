package result

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plain is what encoding/json makes of a row inside a file.
func plain(r *Row) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("    ", "  ")
	err := e.Encode(r)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// Any row at all: every field of Row is drawn by reflection, so a field that the
// writer forgets fails here. Numbers that JSON has not are errors of both.
func TestRowWriterIsPlainJSON(t *testing.T) {
	failed, wrote := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Make[Row]().Draw(t, "row")
		want, err := plain(&r)
		var w rowWriter
		w.row(&r)
		if err != nil {
			failed++
			if w.err == nil {
				t.Fatalf("encoding/json says %v, and this wrote\n%s", err, w.b)
			}
			return
		}
		wrote++
		if w.err != nil || string(w.b) != want {
			t.Fatalf("%v\n%s\nwant\n%s", w.err, w.b, want)
		}
	})
	if wrote == 0 {
		t.Errorf("no row could be written, %d could not", failed)
	}
}

// The edges of how a number is printed, and texts that need an escape.
func TestRowWriterEdges(t *testing.T) {
	one := 1.0
	for _, f := range []float64{0, 1e-6, 9.999999e-7, 1e-9, 1e-10, 1e-100, 1e20, 1e21, 1.5e300, 123456.789, 0.1, 5e-324, -1e-7} {
		r := Row{Mode: "a", Time: f, LinkBW: &f, LinkShare: &one, Times: []float64{f}, Range: &Range{N: 2, Min: f}}
		check(t, &r)
	}
	for _, s := range []string{"", `"`, `\`, "<&>", "\u2028", "\x7f", "\xff", "nccl (läufe)", "a\tb", "plain"} {
		check(t, &Row{Mode: s, Algorithm: s, Source: &Source{File: s, Line: 3}})
	}
	// A row with all fields, so that none of them can be left out by the types of
	// chance.
	var r Row
	fill(reflect.ValueOf(&r).Elem())
	check(t, &r)
}

func check(t *testing.T, r *Row) {
	t.Helper()
	want, err := plain(r)
	var w rowWriter
	w.row(r)
	if err != nil || w.err != nil || string(w.b) != want {
		t.Errorf("%v %v\n%s\nwant\n%s", err, w.err, w.b, want)
	}
}

// fill gives every field of v a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(9)
	default:
		panic("no value for a field of type " + v.Type().String())
	}
}

func BenchmarkEncodeRow(b *testing.B) {
	link := 460.5
	r := Row{Mode: "nccl", Size: 1 << 30, Count: 1 << 28, DataType: "float", Op: "sum", Placement: InPlace,
		Time: 4183.2, AlgBW: 256.68, BusBW: 449.19, LinkBW: &link, Source: &Source{File: "run.log", Line: 18, Table: 1}}
	var w rowWriter
	for b.Loop() {
		w.b = w.b[:0]
		w.row(&r)
	}
}

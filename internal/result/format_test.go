package result_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := result.EncodeText(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "run.txt", b.Bytes())
}

func TestTextSharedGPUInterrupted(t *testing.T) {
	r := sample()
	r.Simulated, r.SharedGPU = false, true
	r.Status = result.Status{State: result.Interrupted, Reason: "SIGTERM"}
	r.MinBusBW = 100
	r.Rows = r.Rows[:2]
	var b bytes.Buffer
	if err := result.EncodeText(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "shared.txt", b.Bytes())
}

// The lines of nccl-tests 2.19.6 for the same numbers, made with its printf
// strings.
func TestTextLooksLikeNCCLTests(t *testing.T) {
	r := sample()
	r.Simulated = false
	r.Rows = nil
	for _, p := range []result.Placement{result.OutOfPlace, result.InPlace} {
		r.Rows = append(r.Rows, result.Row{Mode: "nvls-zero-copy", Size: 268435456, Count: 67108864, DataType: "float", Op: "sum",
			Placement: p, Time: 976.30, AlgBW: 274.95, BusBW: 481.16, Wrong: ptr(uint64(0))})
	}
	var b bytes.Buffer
	if err := result.EncodeText(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#                                                              out-of-place                       in-place          \n" +
			"#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n" +
			"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)        \n" +
			"   268435456      67108864     float     sum      -1   976.30  274.95  481.16       0   976.30  274.95  481.16       0\n",
		"# Out of bounds values : 0 OK\n",
		"# Avg bus bandwidth    : 481.16\n",
		"# Collective test concluded: all_reduce_perf\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no such lines:\n%s\nin\n%s", want, &b)
		}
	}
}

// The title of a table names a mode that was replaced, and rows that were asked for
// otherwise have a table of their own.
func TestTextTitles(t *testing.T) {
	r := sample()
	row := func(requested ...string) result.Row {
		return result.Row{Mode: "ring", Requested: requested, Algorithm: "ring 2x64", Size: 64, Count: 16, DataType: "float", Op: "sum", Placement: result.OutOfPlace}
	}
	r.Rows = []result.Row{row(), row("nvls-zero-copy"), row("nvls-zero-copy")}
	var b bytes.Buffer
	if err := result.EncodeText(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n# ring (ring), no CUDA graph", "\n# nvls-zero-copy (ran as ring) (ring), no CUDA graph"} {
		if n := strings.Count(b.String(), want); n != 1 {
			t.Errorf("%d of %q in\n%s", n, want, &b)
		}
	}
}

// Programs that read nccl-tests' table take fields from the right end of lines
// that do not begin with '#'.
func TestTextReadFromTheRight(t *testing.T) {
	r := sample()
	r.Rows = r.Rows[:6]
	var b bytes.Buffer
	if err := result.EncodeText(&b, r); err != nil {
		t.Fatal(err)
	}
	var got [][3]float64 // size, out-of-place busbw, in-place busbw
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 13 {
			t.Fatalf("%d columns: %q", len(f), line)
		}
		var v [3]float64
		for i, s := range []string{f[0], f[len(f)-6], f[len(f)-2]} {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			v[i] = x
		}
		got = append(got, v)
	}
	var want [][3]float64
	for i := 0; i < len(r.Rows); i += 2 {
		want = append(want, [3]float64{float64(r.Rows[i].Size), r.Rows[i].BusBW, r.Rows[i+1].BusBW})
	}
	within := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 0.005 })
	if d := cmp.Diff(want, got, within); d != "" {
		t.Error(d)
	}
}

// The printer stops at the first error of its writer and keeps it.
func TestPrinterKeepsError(t *testing.T) {
	full := errors.New("no space")
	p := result.NewPrinter(writerFunc(func([]byte) (int, error) { return 0, full }), sample())
	p.Header()
	if err := p.Footer(); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// What is no measurement says so at the top, on every table and at the totals.
func TestTextLabels(t *testing.T) {
	for _, c := range []struct {
		label string
		set   func(*result.Run)
	}{
		{"SIMULATED", func(r *result.Run) { r.Simulated, r.SharedGPU = true, false }},
		{"SHARED GPU - NOT A MEASUREMENT", func(r *result.Run) { r.Simulated, r.SharedGPU = false, true }},
	} {
		r := sample()
		c.set(r)
		var b bytes.Buffer
		if err := result.EncodeText(&b, r); err != nil {
			t.Fatal(err)
		}
		labelled := 0
		for line := range strings.Lines(b.String()) {
			for _, start := range []string{"# nvls-allreduce version", "# nvls-zero-copy (", "# auto (", "# nccl,", "# Links", "# Avg bus"} {
				if !strings.HasPrefix(line, start) {
					continue
				}
				labelled++
				if !strings.Contains(line, "["+c.label+"]") {
					t.Errorf("no label %q: %q", c.label, line)
				}
			}
		}
		if labelled != 8 {
			t.Errorf("%d lines that need the label %q, want 8", labelled, c.label)
		}
		r.Simulated, r.SharedGPU = false, false
		b.Reset()
		if err := result.EncodeText(&b, r); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), c.label) {
			t.Errorf("a measurement is labelled %q", c.label)
		}
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := result.EncodeCSV(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "run.csv", b.Bytes())

	lines, err := csv.NewReader(&b).ReadAll() // fails on lines of different length
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1+len(sample().Rows) {
		t.Errorf("%d lines", len(lines))
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := result.Encode(&b, sample()); err != nil {
		t.Fatal(err)
	}
	golden(t, "run.json", b.Bytes())
	got, err := result.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	positive := rapid.Float64Range(1e-3, 1e12)
	count := rapid.Uint64()
	text := rapid.String().Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s })
	row := rapid.Custom(func(t *rapid.T) result.Row {
		r := result.Row{
			Mode: "m" + text.Draw(t, "mode"), Algorithm: text.Draw(t, "algorithm"),
			Size: count.Draw(t, "size"), Count: count.Draw(t, "count"), DataType: text.Draw(t, "type"), Op: text.Draw(t, "op"),
			Placement: rapid.SampledFrom([]result.Placement{result.OutOfPlace, result.InPlace}).Draw(t, "placement"),
			Graph:     rapid.IntRange(0, 100).Draw(t, "graph"), Cycle: rapid.IntRange(0, 9).Draw(t, "cycle"),
			Time: positive.Draw(t, "time"), AlgBW: positive.Draw(t, "algbw"), BusBW: positive.Draw(t, "busbw"),
			LinkBW: rapid.Ptr(positive, true).Draw(t, "link"), LinkShare: rapid.Ptr(positive, true).Draw(t, "share"),
			Wrong: rapid.Ptr(count, true).Draw(t, "wrong"), HostTime: rapid.Ptr(positive, true).Draw(t, "host"),
		}
		if times := rapid.SliceOf(positive).Draw(t, "times"); len(times) > 0 {
			r.Times, r.Iterations = times, result.Summarize(times)
		}
		if r.Wrong != nil && *r.Wrong > 0 {
			r.FirstWrong = &result.FirstWrong{Rank: 1, Index: count.Draw(t, "index"),
				Expected: result.Element{Bits: text.Draw(t, "bits"), Value: "NaN"}}
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		want := sample()
		want.Start = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "start"), 0).UTC()
		want.Host = text.Draw(t, "host name")
		want.Rows = rapid.SliceOfN(row, 1, 5).Draw(t, "rows")
		want.Name, want.Tool = text.Draw(t, "name"), text.Draw(t, "tool")
		want.Notes = rapid.SliceOfN(text, 1, 3).Draw(t, "notes")
		want.Libraries = rapid.SliceOfN(text, 1, 3).Draw(t, "libraries")
		want.Config = rapid.MapOfN(text, text, 1, 3).Draw(t, "config")
		want.Env = rapid.MapOfN(text, text, 1, 3).Draw(t, "environment")
		want.LinkLimit = positive.Draw(t, "link limit")
		want.Rows[0].Range = &result.Range{N: 3, Min: positive.Draw(t, "range"), P99: 2, Max: 3, CV: 0.5}
		want.Rows[0].Source = &result.Source{File: text.Draw(t, "file"), Line: 3, Table: 1}
		want.Predictions = []result.Prediction{{Size: count.Draw(t, "predicted size"), Algorithm: text.Draw(t, "predicted algorithm"),
			Time: rapid.Ptr(positive, true).Draw(t, "predicted time"), Seen: 1}}
		var b bytes.Buffer
		if err := result.Encode(&b, want); err != nil {
			t.Fatal(err)
		}
		got, err := result.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// Other programs see numbers as numbers and the unknown as null.
func TestJSONTypes(t *testing.T) {
	var b bytes.Buffer
	if err := result.Encode(&b, sample()); err != nil {
		t.Fatal(err)
	}
	var f struct {
		Schema string
		Rows   []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if f.Schema != "nvls-allreduce/1" {
		t.Errorf("schema %q", f.Schema)
	}
	for i, row := range f.Rows {
		for _, key := range []string{"size_bytes", "count", "graph", "time_us", "algbw_gb_s", "busbw_gb_s"} {
			if _, ok := row[key].(float64); !ok {
				t.Errorf("row %d: %s is %#v", i, key, row[key])
			}
		}
	}
	for i, key := range map[int]string{4: "wrong", 6: "linkbw_gb_s"} {
		if v, present := f.Rows[i][key]; v != nil || !present {
			t.Errorf("row %d: %s is %#v, want null", i, key, v)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := result.Encode(&b, sample()); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("sample has no %s", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct{ in, want string }{
		"empty":           {"", "not a result file"},
		"text":            {"# nvls-allreduce", "not a result file"},
		"cut off":         {good[:len(good)/2], "not a result file"},
		"two files":       {good + good, "not a result file"},
		"no schema":       {replace(`"schema": "nvls-allreduce/1",`, ""), "names no schema"},
		"next version":    {replace("nvls-allreduce/1", "nvls-allreduce/2"), `schema is "nvls-allreduce/2", this program reads "nvls-allreduce/1"`},
		"state":           {replace(`"complete"`, `"done"`), `unknown state "done"`},
		"no reason":       {replace(`"complete"`, `"failed"`), "without a reason"},
		"placement":       {replace(`"in-place"`, `"inside"`), `row 1 (nvls-zero-copy, 1024 bytes): unknown placement "inside"`},
		"number as text":  {replace(`"time_us": 6.25`, `"time_us": "6.25"`), "time_us"},
		"negative time":   {replace(`"time_us": 6.25`, `"time_us": -6.25`), "time -6.25"},
		"no mode":         {replace(`"mode": "nvls-zero-copy"`, `"mode": ""`), "no mode"},
		"world":           {replace(`"world_size": 4`, `"world_size": 0`), "world size is 0"},
		"devices":         {replace(`"world_size": 4`, `"world_size": 8`), "4 devices for a world of 8"},
		"wrong uncounted": {replace(`"wrong": 1234567`, `"wrong": 0`), "none counted"},
	} {
		if _, err := result.Decode(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	// A file of the same schema with a new field is read.
	if _, err := result.Decode(strings.NewReader(replace(`"id":`, `"new_field": 1, "id":`))); err != nil {
		t.Errorf("new field: %v", err)
	}
}

func TestEncodeRefusesNaN(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		r := sample()
		r.Rows[0].Time = x
		if err := result.Encode(&bytes.Buffer{}, r); err == nil || !strings.Contains(err.Error(), "row 0") {
			t.Errorf("time %g: %v", x, err)
		}
		r = sample()
		r.Rows[0].LinkBW = &x
		if err := result.Encode(&bytes.Buffer{}, r); err == nil {
			t.Errorf("link %g was written", x)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	link := filepath.Join(dir, "latest.json")
	if err := os.Symlink("out.json", link); err != nil {
		t.Fatal(err)
	}
	partial := sample()
	partial.Status.State, partial.End = result.Running, time.Time{}
	partial.Rows = partial.Rows[:1]
	for _, r := range []*result.Run{partial, sample()} {
		if err := result.WriteFile(path, r); err != nil {
			t.Fatal(err)
		}
		got, err := result.ReadFile(link)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, got); d != "" {
			t.Error(d)
		}
	}
	// Through the link, which stays one.
	if err := result.WriteFile(link, partial); err != nil {
		t.Fatal(err)
	}
	if got, err := result.ReadFile(path); err != nil || got.Status.State != result.Running {
		t.Errorf("through the link: %v", err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}

	// What cannot be written leaves the old file and no other.
	bad := sample()
	bad.Rows[0].Time = math.NaN()
	if err := result.WriteFile(path, bad); err == nil {
		t.Error("NaN was written")
	}
	if got, err := result.ReadFile(path); err != nil || got.Status.State != result.Running {
		t.Errorf("the old file was touched: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("left behind: %v", files)
	}
	err := result.WriteFile(filepath.Join(dir, "none", "out.json"), sample())
	if failure.CodeOf(err) != failure.Usage {
		t.Errorf("missing folder: %v", err)
	}
	if _, err := result.ReadFile(filepath.Join(dir, "none")); failure.CodeOf(err) != failure.Usage {
		t.Errorf("missing file: %v", err)
	}
}

// A pipe is written to, not replaced by a file.
func TestWriteToPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for both, so that neither end waits for the other; a pipe holds more
	// than this CSV.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := result.WriteCSVFile(path, sample()); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is gone: %v", err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(pipe, got); err != nil || string(got) != "run_id" {
		t.Errorf("the pipe holds %q, %v", got, err)
	}
}

// Rows of different sizes never share a line, and each repetition of the sweep
// has a table of its own.
func TestTextRowsAndCycles(t *testing.T) {
	r := sample()
	r.Rows = []result.Row{r.Rows[0], r.Rows[3], r.Rows[0], r.Rows[1]}
	r.Rows[2].Cycle, r.Rows[3].Cycle = 1, 1
	var b bytes.Buffer
	if err := result.EncodeText(&b, r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "# nvls-zero-copy (") {
			got = append(got, "table")
		} else if !strings.HasPrefix(line, "#") {
			f := strings.Fields(line)
			got = append(got, f[0]+" "+f[5]+" "+f[9])
		}
	}
	want := []string{"table", "1024 6.25 N/A", "1048576 N/A 1.2e+07", "table", "1024 6.25 6.50"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

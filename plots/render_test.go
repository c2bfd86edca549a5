package plots_test

import (
	"bytes"
	"compress/zlib"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

var regen = flag.Bool("regen", false, "write the golden charts of testdata anew")

func render(t *testing.T, f plots.Format, runs ...*result.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := plots.Render(&b, f, runs, plots.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// damaged is a run with everything that a chart must warn of.
func damaged() *result.Run {
	r := model(8, 8, 8<<30, 2, allModes...)
	r.Status = result.Status{State: result.Interrupted, Reason: "SIGTERM"}
	wrong := uint64(3)
	r.Rows[5].Wrong = &wrong
	return r
}

func TestGolden(t *testing.T) {
	column := plots.Size{Width: 8.5 * vg.Centimeter, Height: 7 * vg.Centimeter}
	kinds := spread(model(8, 1<<10, 1<<30, 4, allModes...))
	kinds.LinkLimit, kinds.Libraries = 396, []string{"NCCL 2.28.9"}
	sim := simulated(model(4, 1<<10, 16<<20, 2, "nvls-zero-copy", "ring"))
	for name, c := range map[string]struct {
		run     *result.Run
		options plots.Options
	}{
		"published.png": {published(), plots.Options{}},
		"published.svg": {published(), plots.Options{}},
		"damaged.svg":   {damaged(), plots.Options{}},
		"simulated.png": {sim, plots.Options{}},
		"shared.svg":    {shared(simulated(model(4, 1<<20, 2<<20, 2, "p2p"))), plots.Options{}},
		"kinds.svg":     {kinds, plots.Options{Kinds: plots.Kinds()}},
		"light.png":     {kinds, plots.Options{Kinds: []plots.Kind{plots.LinkShare}, Size: column}},
		"dark.png":      {sim, plots.Options{Kinds: []plots.Kind{plots.Time}, Size: column, Theme: plots.Dark}},
		"print.png":     {kinds, plots.Options{Kinds: []plots.Kind{plots.Spread}, Size: column, Theme: plots.Print}},
		"print.svg":     {kinds, plots.Options{Kinds: []plots.Kind{plots.BusBW}, Size: column, Theme: plots.Print}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			f, err := plots.FormatOf(name)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := plots.Render(&b, f, []*result.Run{c.run}, c.options); err != nil {
				t.Fatal(err)
			}
			got := b.Bytes()
			if *regen {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if f == plots.SVG {
				if d := cmp.Diff(string(want), string(got)); d != "" {
					t.Errorf("-regen writes it anew; -want +got:\n%s", d)
				}
				return
			}
			if d := different(t, want, got); d > 0 && (runtime.GOARCH == "amd64" || d > 0.001) {
				t.Errorf("%.3f %% of the pixels differ; look at both, -regen writes it anew", 100*d)
			}
		})
	}
}

// different gives the part of pixels that differ; all of them when the sizes do.
// Other processors may round a few otherwise, for they fuse multiply and add.
func different(t *testing.T, a, b []byte) float64 {
	t.Helper()
	var m [2]image.Image
	for i, raw := range [][]byte{a, b} {
		var err error
		if m[i], err = png.Decode(bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
	}
	if m[0].Bounds() != m[1].Bounds() {
		return 1
	}
	n, size := 0, m[0].Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			if m[0].At(x, y) != m[1].At(x, y) {
				n++
			}
		}
	}
	return float64(n) / float64(size.X*size.Y)
}

func TestSameBytes(t *testing.T) {
	for _, f := range []plots.Format{plots.PNG, plots.SVG, plots.PDF} {
		r := simulated(model(4, 1<<10, 1<<20, 4, allModes...))
		if !bytes.Equal(render(t, f, r), render(t, f, r)) {
			t.Errorf("%s: two charts of the same results differ", f)
		}
	}
}

// A chart drawn from a result file is that which the run drew itself: in its
// zone, whatever the zone of the reader.
func TestReplot(t *testing.T) {
	r := spread(model(4, 1<<10, 1<<20, 4, "ring", "nccl"))
	r.Start = time.Now().In(time.FixedZone("", -11*3600))
	var file bytes.Buffer
	if err := result.Encode(&file, r); err != nil {
		t.Fatal(err)
	}
	read, err := result.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []plots.Format{plots.PNG, plots.SVG, plots.PDF} {
		if !bytes.Equal(render(t, f, r), render(t, f, read)) {
			t.Errorf("%s: the chart of the file is another", f)
		}
	}
}

// Two PDFs made within a second could agree by chance: the date must be the
// run's.
func TestPDFDate(t *testing.T) {
	dates := regexp.MustCompile(`/(CreationDate|ModDate) \(([^)]*)\)`)
	for _, c := range []struct{ start, want string }{{"run", "D:20261129120000"}, {"none", "D:19700101000000"}} {
		r := published()
		if c.start == "none" {
			r.Start = r.Start.Truncate(0).AddDate(-2025, -10, -28).Add(-12 * 3600e9)
			if !r.Start.IsZero() {
				t.Fatalf("not the zero time: %s", r.Start)
			}
		}
		found := dates.FindAllSubmatch(render(t, plots.PDF, r), -1)
		if len(found) != 2 {
			t.Errorf("%d dates in the file", len(found))
		}
		for _, m := range found {
			if string(m[2]) != c.want {
				t.Errorf("%s is %s, want %s", m[1], m[2], c.want)
			}
		}
	}
}

// gonum's PDF canvas would show µ as two letters, and translucent red as grey.
func TestPDFText(t *testing.T) {
	all := ""
	for _, part := range strings.Split(string(render(t, plots.PDF, shared(model(2, 1<<10, 1<<20, 2, "ring")))), "stream\n")[1:] {
		z, err := zlib.NewReader(strings.NewReader(part))
		if err != nil {
			continue // what follows an "endstream"
		}
		text, _ := io.ReadAll(z) // to the end of the stream; what follows is no part of it
		all += string(text)
	}
	for _, want := range []string{"(10 \xb5s)", "(2 ranks on 1 \xd7 NVIDIA H200 \xb7 float sum", "0.690 0.000 0.125 rg"} {
		if !strings.Contains(all, want) {
			t.Errorf("no text %q in the PDF", want)
		}
	}
}

// texts lists all words of an SVG chart.
func texts(svg []byte) []string {
	var out []string
	for _, m := range regexp.MustCompile(`>([^<>]+)</text>`).FindAllSubmatch(svg, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

func count(words []string, want string) int {
	n := 0
	for _, w := range words {
		if w == want {
			n++
		}
	}
	return n
}

// No way leads around the words on each panel.
func TestLabels(t *testing.T) {
	small := func() *result.Run { return model(4, 1<<10, 1<<20, 4, "ring") }
	const sim, share = "SIMULATED", "SHARED GPU - NOT A MEASUREMENT"
	for name, c := range map[string]struct {
		runs       []*result.Run
		sim, share int
		yLabel     string
	}{
		"measured":  {[]*result.Run{small()}, 0, 0, "bus bandwidth (GB/s)"},
		"simulated": {[]*result.Run{simulated(small())}, 2, 0, "bus bandwidth (SIMULATED GB/s)"},
		"shared":    {[]*result.Run{shared(small())}, 0, 2, "bus bandwidth (GB/s)"},
		"both":      {[]*result.Run{shared(simulated(small()))}, 2, 2, "bus bandwidth (SIMULATED GB/s)"},
		"mixed":     {[]*result.Run{small(), simulated(small())}, 2, 0, "bus bandwidth (partly SIMULATED GB/s)"},
	} {
		words := texts(render(t, plots.SVG, c.runs...))
		if a, b := count(words, sim), count(words, share); a != c.sim || b != c.share {
			t.Errorf("%s: %d and %d stamps, want %d and %d", name, a, b, c.sim, c.share)
		}
		if count(words, c.yLabel) != 1 {
			t.Errorf("%s: no label %q among %q", name, c.yLabel, words)
		}
	}
}

func TestWords(t *testing.T) {
	graph := func(r *result.Run, n int) *result.Run {
		for _, row := range r.Rows[:len(r.Rows):len(r.Rows)] {
			row.Graph = n
			r.Rows = append(r.Rows, row)
		}
		return r
	}
	inPlaceOnly := model(2, 1<<10, 1<<11, 2, "p2p")
	inPlaceOnly.Rows = []result.Row{inPlaceOnly.Rows[1], inPlaceOnly.Rows[3]}
	half := model(2, 1<<10, 1<<10, 2, "p2p")
	for i := range half.Rows {
		half.Rows[i].DataType = "half"
	}
	other := model(2, 1<<10, 1<<10, 2, "p2p")
	other.ID = "ff" + other.ID[2:]
	labelled := shared(published())
	running := model(2, 1<<10, 1<<10, 2, "p2p")
	running.Status.State = result.Running
	replaced := model(2, 1<<10, 1<<11, 2, "ring", "p2p")
	for i := range replaced.Rows {
		if row := &replaced.Rows[i]; row.Mode == "ring" {
			row.Requested = []string{"nvls-zero-copy", "ring"}
		}
	}
	alone := named(model(2, 1<<10, 1<<11, 2, "ring"), "mine")
	for i := range alone.Rows {
		alone.Rows[i].Requested = []string{"nvls-zero-copy"}
	}
	for name, c := range map[string]struct {
		runs []*result.Run
		want []string
		not  []string
	}{
		"facts": {[]*result.Run{published()}, []string{
			"8 × NVIDIA H100 80GB HBM3 · float sum · out-of-place",
			"CUDA 13.0, driver 580.159.04 · Open MPI v4.1.6 · nvls-allreduce v0.1.0 · 2026-11-29",
			"link peak 450 GB/s"}, nil},
		"graph":     {[]*result.Run{graph(model(2, 1<<10, 1<<11, 2, "ring"), 4)}, []string{"ring", "ring, graph"}, nil},
		"in-place":  {[]*result.Run{inPlaceOnly}, []string{"p2p, in-place", "2 × NVIDIA H200 · float sum · in-place"}, []string{"p2p"}},
		"both":      {[]*result.Run{model(2, 1<<10, 1<<11, 2, "p2p")}, []string{"p2p"}, []string{"p2p, in-place"}},
		"datatype":  {[]*result.Run{model(2, 1<<10, 1<<10, 2, "p2p"), half}, []string{"p2p, float, run 001122", "p2p, half, run 001122"}, nil},
		"two runs":  {[]*result.Run{model(2, 1<<10, 1<<10, 2, "p2p"), other}, []string{"p2p, run 001122", "p2p, run ff1122"}, nil},
		"two sizes": {[]*result.Run{model(2, 1<<10, 1<<10, 2, "p2p"), model(4, 1<<10, 1<<10, 2, "p2p")}, []string{"p2p, 2 × NVIDIA H200", "p2p, 4 × NVIDIA H200"}, nil},
		"replaced":  {[]*result.Run{replaced}, []string{"nvls-zero-copy and ring (ran as ring)", "p2p"}, []string{"ring"}},
		"a name":    {[]*result.Run{alone}, []string{"mine: nvls-zero-copy (ran as ring)"}, []string{"mine"}},
		"shared":    {[]*result.Run{shared(model(4, 1<<10, 1<<10, 2, "p2p"))}, []string{"4 ranks on 1 × NVIDIA H200 · float sum · out-of-place"}, nil},
		"damaged":   {[]*result.Run{damaged()}, []string{"INCOMPLETE: interrupted: SIGTERM", "WRONG DATA in 1 of 372 rows"}, nil},
		"running":   {[]*result.Run{running}, []string{"INCOMPLETE: the run had not ended when the results were written"}, nil},
		"no peak":   {[]*result.Run{labelled}, nil, []string{"link peak 450 GB/s"}},
		"low":       {[]*result.Run{model(8, 1<<10, 1<<12, 2, "ring")}, nil, []string{"link peak 450 GB/s"}},
	} {
		words := texts(render(t, plots.SVG, c.runs...))
		for _, w := range c.want {
			if count(words, w) != 1 {
				t.Errorf("%s: no %q in %q", name, w, words)
			}
		}
		for _, w := range c.not {
			if count(words, w) != 0 {
				t.Errorf("%s: %q in %q", name, w, words)
			}
		}
	}
	var b bytes.Buffer
	if err := plots.Render(&b, plots.SVG, []*result.Run{published()}, plots.Options{Title: "My node"}); err != nil || count(texts(b.Bytes()), "My node") != 1 {
		t.Errorf("no title of one's own: %v", err)
	}
}

// Every shape of results makes a chart in every format.
func TestShapes(t *testing.T) {
	odd := model(3, 1<<10, 1<<10, 2, "ring")
	odd.Devices = nil
	odd.Rows[0].Size = 12_345_678
	for name, r := range map[string]*result.Run{
		"one point":  model(2, 1<<20, 1<<20, 2, "ring"),
		"one rank":   model(1, 1<<10, 1<<20, 4, "p2p"),
		"one byte":   model(2, 1, 1, 2, "p2p"),
		"odd size":   odd,
		"many lines": manyLines(),
	} {
		for _, f := range []plots.Format{plots.PNG, plots.SVG, plots.PDF} {
			if n := len(render(t, f, r)); n < 1000 {
				t.Errorf("%s, %s: %d bytes", name, f, n)
			}
		}
	}
}

func manyLines() *result.Run {
	r := newRun(8, "NVIDIA H200")
	for i := range 200 {
		measure(r, fmt.Sprintf("a mode with a long name, number %d", i), "", 1<<20, result.OutOfPlace, float64(10+i))
	}
	return r
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	runs := []*result.Run{published()}
	for suffix, magic := range map[string]string{".png": "\x89PNG", ".SVG": "<?xml", ".pdf": "%PDF"} {
		path := filepath.Join(dir, "chart"+suffix)
		if err := plots.WriteFile(path, runs, plots.Options{}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), magic) {
			t.Errorf("%s: %.8q, %v", suffix, b, err)
		}
	}
	for _, c := range []struct {
		path string
		runs []*result.Run
		want string
	}{
		{"chart.gif", runs, "no chart format"},
		{"chart", runs, "no chart format"},
		{"none/chart.png", runs, "cannot write"},
		{"chart.png", []*result.Run{newRun(2, "GPU")}, "nothing to draw"},
		{"chart.png", nil, "nothing to draw"},
	} {
		err := plots.WriteFile(filepath.Join(dir, c.path), c.runs, plots.Options{})
		if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "chart.png")); err != nil || !strings.HasPrefix(string(b), "\x89PNG") {
		t.Errorf("the old chart is gone: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("left behind: %v", files)
	}
	if err := plots.Render(&bytes.Buffer{}, "gif", runs, plots.Options{}); failure.CodeOf(err) != failure.Usage {
		t.Errorf("format gif: %v", err)
	}
}

// A chart says that markers were moved when any was, and not else: where lines are
// apart, where the same values lie outside of the range that is drawn, and where there
// is one line only.
func TestMovedMarkersAreNoted(t *testing.T) {
	const note = "markers that would hide each other stand side by side on their lines"
	alike := model(8, 64<<20, 256<<20, 2, "ring", "p2p")
	for i := range alike.Rows {
		if n := len(alike.Rows) / 2; i >= n {
			alike.Rows[i].Time, alike.Rows[i].BusBW = alike.Rows[i-n].Time, alike.Rows[i-n].BusBW
		}
	}
	apart := model(8, 64<<20, 256<<20, 2, "nvls-zero-copy", "ring")
	column := plots.Size{Width: 8.5 * vg.Centimeter, Height: 7 * vg.Centimeter}
	for name, c := range map[string]struct {
		run     *result.Run
		options plots.Options
		want    bool
	}{
		"the same values":       {alike, plots.Options{}, true},
		"of the second panel":   {alike, plots.Options{Kinds: []plots.Kind{plots.BusBW, plots.Time}, Limits: map[plots.Kind]plots.Limits{plots.BusBW: {Lo: 1000, Hi: 2000}}}, true},
		"in a column":           {alike, plots.Options{Kinds: []plots.Kind{plots.BusBW}, Size: column}, true},
		"outside of the limits": {alike, plots.Options{Kinds: []plots.Kind{plots.BusBW}, Limits: map[plots.Kind]plots.Limits{plots.BusBW: {Lo: 1000, Hi: 2000}}}, false},
		"apart":                 {apart, plots.Options{}, false},
		"apart in a column":     {apart, plots.Options{Kinds: []plots.Kind{plots.BusBW}, Size: column}, false},
		"one line":              {model(8, 64<<20, 256<<20, 2, "ring"), plots.Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := plots.Render(&b, plots.SVG, []*result.Run{c.run}, c.options); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(b.String(), note); got != c.want {
				t.Errorf("a note of moved markers: %v", got)
			}
		})
	}
}

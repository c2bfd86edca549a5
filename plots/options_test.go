package plots_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]plots.Size{
		"12cmx8cm":      {Width: 12 * vg.Centimeter, Height: 8 * vg.Centimeter},
		"85mm x 2.5in":  {Width: 85 * vg.Millimeter, Height: 2.5 * vg.Inch},
		"648ptx576pt":   {Width: 648, Height: 576},
		"5cmx60cm":      {Width: 5 * vg.Centimeter, Height: 60 * vg.Centimeter},
		"8.50cmx70.0mm": {Width: 8.5 * vg.Centimeter, Height: 70 * vg.Millimeter},
	} {
		got, err := plots.ParseSize(in)
		if err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "12cm", "12x8", "12cmx8", "12cmx8cmx1cm", "12 furlongs x 8cm", "4cmx8cm", "61cmx8cm", "-12cmx8cm", "NaNcmx8cm", "Infcmx8cm", "cmxcm", "1e3cmx8cm"} {
		if _, err := plots.ParseSize(in); failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), "12cmx8cm") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestParseLimits(t *testing.T) {
	both := []plots.Kind{plots.BusBW, plots.Time}
	for _, c := range []struct {
		in    string
		kinds []plots.Kind
		want  map[plots.Kind]plots.Limits
		why   string
	}{
		{"0:500", both[:1], map[plots.Kind]plots.Limits{plots.BusBW: {Lo: 0, Hi: 500}}, ""},
		{"busbw=0:500 time=1:1e3", both, map[plots.Kind]plots.Limits{plots.BusBW: {Lo: 0, Hi: 500}, plots.Time: {Lo: 1, Hi: 1000}}, ""},
		{"time=10:20", both, map[plots.Kind]plots.Limits{plots.Time: {Lo: 10, Hi: 20}}, ""},
		{"0:500", both, nil, "several kinds"},
		{"link=0:500", both, nil, `no kind "link"`},
		{"busbw=0:5 busbw=0:6", both, nil, "has a range already"},
		{"500", both[:1], nil, "not two numbers"},
		{"a:b", both[:1], nil, "not two numbers"},
		{"5:5", both[:1], nil, "above the lower"},
		{"0:Inf", both[:1], nil, "above the lower"},
		{"NaN:1", both[:1], nil, "above the lower"},
		{"-5:5", both[:1], nil, "below zero"},
		{"0:5", both[1:], nil, "logarithmic"},
		{"0:1e-300", both[:1], nil, "too small"},
		{"1e-300:1", both[1:], nil, "too small"},
		{"1:1e300", both[1:], nil, "too large"},
	} {
		got, err := plots.ParseLimits(strings.Fields(c.in), c.kinds)
		switch {
		case c.why == "":
			if d := cmp.Diff(c.want, got); err != nil || d != "" {
				t.Errorf("%s: %v %s", c.in, err, d)
			}
		case failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), c.why):
			t.Errorf("%s: %v, want %q", c.in, err, c.why)
		}
	}
}

// draw renders an SVG and gives its words.
func draw(t *testing.T, o plots.Options, runs ...*result.Run) []string {
	t.Helper()
	var b bytes.Buffer
	if err := plots.Render(&b, plots.SVG, runs, o); err != nil {
		t.Fatal(err)
	}
	return texts(b.Bytes())
}

// missing lists what of want is not among words.
func missing(words []string, want ...string) []string {
	var out []string
	for _, w := range want {
		if count(words, w) == 0 {
			out = append(out, w)
		}
	}
	return out
}

func TestNames(t *testing.T) {
	one, two := published(), model(8, 256<<20, 2<<30, 2, "ring")
	two.ID = one.ID
	for _, c := range []struct {
		name string
		o    plots.Options
		runs []*result.Run
		want []string
	}{
		{"a name and one line is the name", plots.Options{Names: []string{"", "ours"}}, []*result.Run{one, two}, []string{"ours", "NCCL ring"}},
		{"a name and several lines", plots.Options{Names: []string{"theirs"}}, []*result.Run{one, two}, []string{"theirs: NCCL ring", "ring"}},
		{"the run's own name", plots.Options{}, []*result.Run{named(two, "its own"), one}, []string{"its own"}},
		{"the user's name is above the run's", plots.Options{Names: []string{"given"}}, []*result.Run{named(two, "its own")}, []string{"given"}},
		{"one name twice", plots.Options{Names: []string{"x", "x"}}, []*result.Run{two, two}, []string{"x", "x (2)"}},
		{"files tell alike runs apart", plots.Options{Files: []string{"before", "after"}}, []*result.Run{two, two}, []string{"ring, before", "ring, after"}},
		{"nothing tells them apart", plots.Options{}, []*result.Run{two, two}, []string{"ring, run 001122", "ring, run 001122 (2)"}},
	} {
		if m := missing(draw(t, c.o, c.runs...), c.want...); m != nil {
			t.Errorf("%s: no %q", c.name, m)
		}
	}
}

func named(r *result.Run, name string) *result.Run {
	c := *r
	c.Name = name
	return &c
}

func TestReferencesAndNotes(t *testing.T) {
	r := spread(model(8, 1<<20, 1<<30, 2, "ring", "nccl"))
	r.LinkLimit = 396
	r.Rows = append(r.Rows, r.Rows[0]) // a size that was measured twice
	r.Rows = append(r.Rows, result.Row{Mode: "ring", DataType: "float", Op: "sum", Placement: result.OutOfPlace})
	words := draw(t, plots.Options{Kinds: plots.Kinds(), Limits: map[plots.Kind]plots.Limits{plots.BusBW: {Lo: 0, Hi: 100}}}, r)
	want := []string{"link peak 450 GB/s", "measured limit 396 GB/s", "speed-up over nccl"}
	if m := missing(words, want...); m != nil {
		t.Errorf("no %q in %q", m, words)
	}
	all := strings.Join(words, " ")
	for _, note := range []string{
		"1 row without a usable size or time not drawn", "1M measured more than once: the median is drawn",
		"no link share known: nccl", "points outside the range of the busbw axis",
	} {
		if !strings.Contains(all, note) {
			t.Errorf("no note %q in %q", note, all)
		}
	}
}

// An imported log may tell the range of its iterations and no median: then the
// band stands alone.
func TestSpreadWithoutMedian(t *testing.T) {
	r := model(2, 1<<10, 1<<20, 4, "ring")
	for i := range r.Rows {
		r.Rows[i].Range = &result.Range{Min: r.Rows[i].Time / 2, P99: r.Rows[i].Time * 2, Max: r.Rows[i].Time * 3}
	}
	with := spread(model(2, 1<<10, 1<<20, 4, "p2p"))
	words := draw(t, plots.Options{Kinds: []plots.Kind{plots.Spread}}, named(r, "log"), named(with, "ours"))
	if m := missing(words, "log", "ours", "no median of iterations known: log"); m != nil {
		t.Errorf("no %q in %q", m, words)
	}
	if got := plots.Available([]*result.Run{r}); !slices.Contains(got, plots.Spread) {
		t.Errorf("available: %q", got)
	}
}

func TestBaseline(t *testing.T) {
	r := model(8, 1<<20, 1<<30, 2, "p2p", "ring", "nvls-zero-copy")
	o := plots.Options{Kinds: []plots.Kind{plots.SpeedUp}}
	for baseline, want := range map[string]string{"": "ring", "p2p": "p2p", "nvls-zero-copy": "nvls-zero-copy"} {
		o.Baseline = baseline
		if m := missing(draw(t, o, r), "speed-up over "+want); m != nil {
			t.Errorf("baseline %q: no %q", baseline, m)
		}
	}
	o.Baseline = "before"
	o.Names = []string{"before", "after"}
	// A run of several modes is no one line; one of its lines is.
	err := plots.Render(io.Discard, plots.SVG, []*result.Run{r, r}, o)
	if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), `"before: p2p"`) {
		t.Errorf("a run of several lines as baseline: %v", err)
	}
	o.Baseline = "before: p2p"
	if m := missing(draw(t, o, r, r), "speed-up over before: p2p"); m != nil {
		t.Errorf("no %q", m)
	}
	o.Baseline = "rign"
	err = plots.Render(io.Discard, plots.SVG, []*result.Run{r}, o)
	if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), `"before: ring"`) {
		t.Errorf("unknown baseline: %v", err)
	}
	// Sizes that the baseline has not are not drawn, and a line without any is named.
	other := named(model(8, 16, 64, 2, "auto"), "small")
	words := draw(t, plots.Options{Kinds: []plots.Kind{plots.SpeedUp}}, named(r, "large"), other)
	if !strings.Contains(strings.Join(words, " "), "no size in common with large: ring known: small") {
		t.Errorf("%q", words)
	}
}

func TestRefused(t *testing.T) {
	r := model(8, 1<<20, 1<<30, 2, "nccl")
	for _, c := range []struct {
		o    plots.Options
		want string
	}{
		{plots.Options{Kinds: []plots.Kind{"pie"}}, `unknown kind of chart "pie"`},
		{plots.Options{Kinds: []plots.Kind{plots.Time, plots.Time}}, "named twice"},
		{plots.Options{Theme: "neon"}, `unknown theme "neon"`},
		{plots.Options{Kinds: []plots.Kind{plots.Spread}}, "no row has a spread of iterations"},
		{plots.Options{Kinds: []plots.Kind{plots.LinkShare}}, "no row has a link share"},
		{plots.Options{Size: plots.Size{Width: 8 * vg.Centimeter, Height: 5 * vg.Centimeter}}, "cm high"},
	} {
		var b bytes.Buffer
		err := plots.Render(&b, plots.SVG, []*result.Run{r}, c.o)
		if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
			t.Errorf("%+v: %v, %d bytes", c.o, err, b.Len())
		}
	}
	// The height that the error asks for is enough.
	o := plots.Options{Size: plots.Size{Width: 8 * vg.Centimeter, Height: 5 * vg.Centimeter}}
	err := plots.Render(io.Discard, plots.SVG, []*result.Run{r}, o)
	var high float64
	if _, scan := fmt.Sscanf(err.Error()[strings.Index(err.Error(), "make it"):], "make it %f cm", &high); scan != nil {
		t.Fatal(scan, err)
	}
	o.Size.Height = vg.Length(high) * vg.Centimeter
	if err := plots.Render(io.Discard, plots.SVG, []*result.Run{r}, o); err != nil {
		t.Error(err)
	}
}

func TestAvailable(t *testing.T) {
	full := spread(model(8, 1<<20, 1<<30, 2, "ring", "nccl"))
	for name, c := range map[string]struct {
		runs []*result.Run
		want []plots.Kind
	}{
		"all":      {[]*result.Run{full}, plots.Kinds()},
		"one line": {[]*result.Run{model(8, 1<<20, 1<<30, 2, "nccl")}, []plots.Kind{plots.BusBW, plots.Time}},
		"two runs": {[]*result.Run{model(8, 8, 8, 2, "nccl"), model(8, 8, 8, 2, "nccl")}, []plots.Kind{plots.BusBW, plots.Time, plots.SpeedUp}},
		"no row":   {[]*result.Run{newRun(2, "GPU")}, nil},
	} {
		got := plots.Available(c.runs)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		// What is available can be drawn.
		if err := plots.Render(io.Discard, plots.SVG, c.runs, plots.Options{Kinds: got}); err != nil && got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever words a result has, an SVG of it is well-formed and says them on one
// line.
func TestHostileWords(t *testing.T) {
	const bad = "a\x00\x1b[31m<script>&\"'\nb\xff ]]> style=\"font-family:Liberation Sans;"
	r := named(model(2, 1<<10, 1<<20, 4, "ring", "p2p"), bad)
	r.Driver, r.MPI, r.Status = bad, bad, result.Status{State: result.Failed, Reason: bad}
	r.Devices[0].Name = bad
	var b bytes.Buffer
	if err := plots.Render(&b, plots.SVG, []*result.Run{r}, plots.Options{Title: bad}); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Error("a script")
		}
	}
	for _, f := range []plots.Format{plots.PNG, plots.PDF} {
		if err := plots.Render(io.Discard, f, []*result.Run{r}, plots.Options{Title: bad}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// A stamp hides no data.
func TestStampIsTranslucent(t *testing.T) {
	for _, theme := range plots.Themes() {
		var b bytes.Buffer
		if err := plots.Render(&b, plots.SVG, []*result.Run{simulated(model(2, 1<<10, 1<<20, 4, "ring"))}, plots.Options{Theme: theme}); err != nil {
			t.Fatal(err)
		}
		for _, element := range strings.Split(b.String(), "<text ")[1:] {
			isStamp := strings.Contains(element, ">SIMULATED<")
			if translucent := strings.Contains(element, "fill-opacity:0."); translucent != isStamp {
				t.Errorf("%s: translucent is %t: %s", theme, translucent, element)
			}
		}
	}
}

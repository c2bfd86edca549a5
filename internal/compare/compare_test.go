package compare_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/compare"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

var regen = flag.Bool("regen", false, "write the golden files of testdata anew")

// row makes a row whose iterations are times.
func row(mode string, size uint64, times ...float64) result.Row {
	r := result.Row{Mode: mode, Size: size, Count: size / 4, DataType: "float", Op: "sum", Placement: result.OutOfPlace,
		Times: times, Iterations: result.Summarize(times)}
	r.Time = r.Iterations.Mean
	r.Rate(8, 450e9)
	return r
}

// average makes a row without iterations.
func average(mode string, size uint64, us float64) result.Row {
	r := result.Row{Mode: mode, Size: size, Count: size / 4, DataType: "float", Op: "sum", Placement: result.InPlace, Time: us}
	r.Rate(8, 450e9)
	return r
}

func run(rows ...result.Row) *result.Run {
	r := &result.Run{Version: "v0.1.0", ID: "00112233445566778899aabbccddeeff", Status: result.Status{State: result.Complete}, WorldSize: 8, Rows: rows}
	for i := range 8 {
		r.Devices = append(r.Devices, result.Device{Rank: i, Name: "NVIDIA H200"})
	}
	return r
}

// around gives 20 times within 2 % of us, always the same.
func around(us float64) []float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]float64, 20)
	for i := range out {
		out[i] = math.Round(us*(0.98+0.04*rng.Float64())*100) / 100
	}
	return out
}

// sample has every verdict, both bases, a repeated sweep and rows of one side.
func sample() (a, b *result.Run) {
	bad := row("ring", 8<<20, around(80)...)
	n := uint64(3)
	bad.Wrong = &n
	a = run(row("nvls-zero-copy", 1<<10, around(6)...), row("nvls-zero-copy", 1<<20, around(20)...), row("nvls-zero-copy", 1<<30, around(4000)...),
		row("ring", 8<<20, around(90)...), average("ring", 1<<20, 30), row("ring", 1<<10, 9, 9.1, 9.2), average("ring", 1<<30, 5000))
	b = run(row("nvls-zero-copy", 1<<10, around(7)...), row("nvls-zero-copy", 1<<20, around(20.1)...), row("nvls-zero-copy", 1<<30, around(3600)...),
		bad, average("ring", 1<<20, 31), row("ring", 1<<10, 8, 8.1, 8.2), row("p2p", 1<<10, around(5)...))
	for i := range 6 {
		x, y := average("ring", 4<<10, 10+float64(i)/10), average("ring", 4<<10, 8+float64(i)/10)
		x.Cycle, y.Cycle = i, i
		a.Rows, b.Rows = append(a.Rows, x), append(b.Rows, y)
	}
	return a, b
}

func TestFormats(t *testing.T) {
	a, b := sample()
	c, err := compare.Compare(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := compare.Names{A: "old.json", B: "new_1.json"}
	simulated := func() *compare.Comparison {
		a, b := sample()
		a.Simulated, b.Simulated = true, true
		c, err := compare.Compare(a, b, compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	best := func(write func(*compare.Comparison, *bytes.Buffer) error) func(*bytes.Buffer) error {
		return func(w *bytes.Buffer) error {
			r := peers()
			c, err := compare.Compare(r, r, compare.Options{ModesA: []string{"nccl", "nccl-symmetric", "torch"}, ModesB: []string{"auto"},
				Goals: []compare.Goal{{From: 1 << 10, To: 16 << 10, Time: 0.9}, {From: 1 << 30, To: 1 << 30, Time: 0.91}}})
			if err != nil {
				return err
			}
			return write(c, w)
		}
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"best.brief": best(func(c *compare.Comparison, w *bytes.Buffer) error { return c.WriteBrief(w, names) }),
		"best.txt":   best(func(c *compare.Comparison, w *bytes.Buffer) error { return c.WriteText(w, names) }),
		"best.md":    best(func(c *compare.Comparison, w *bytes.Buffer) error { return c.WriteMarkdown(w, names) }),
		"best.json": best(func(c *compare.Comparison, w *bytes.Buffer) error {
			return c.WriteJSON(w, names, 0, c.Missed())
		}),
		"simulated.brief": func(w *bytes.Buffer) error { return simulated().WriteBrief(w, names) },
		"compare.txt":     func(w *bytes.Buffer) error { return c.WriteText(w, names) },
		"compare.md":      func(w *bytes.Buffer) error { return c.WriteMarkdown(w, names) },
		"compare.json":    func(w *bytes.Buffer) error { return c.WriteJSON(w, names, 0.99, c.Below(0.99)) },
		"simulated.txt":   func(w *bytes.Buffer) error { return simulated().WriteText(w, names) },
		"simulated.md":    func(w *bytes.Buffer) error { return simulated().WriteMarkdown(w, names) },
		"two.bench": func(w *bytes.Buffer) error {
			return compare.WriteBenchfmt(w, compare.Named{Name: "old.json", Run: a}, compare.Named{Name: "new.json", Run: b})
		},
	} {
		var w bytes.Buffer
		if err := write(&w); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *regen {
			if err := os.WriteFile(path, w.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), w.String()); d != "" {
			t.Errorf("%s differs (-want +got); -regen writes it anew:\n%s", name, d)
		}
	}
}

func TestVerdicts(t *testing.T) {
	a, b := sample()
	c, err := compare.Compare(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]compare.Verdict{}
	for _, r := range c.Rows {
		got[r.Key.String()+", "+string(r.Basis)] = r.Verdict
	}
	want := map[string]compare.Verdict{
		"nvls-zero-copy, out-of-place, float, sum, 1024 bytes, iterations":       compare.Slower,
		"nvls-zero-copy, out-of-place, float, sum, 1048576 bytes, iterations":    compare.Same,
		"nvls-zero-copy, out-of-place, float, sum, 1073741824 bytes, iterations": compare.Faster,
		"ring, out-of-place, float, sum, 8388608 bytes, iterations":              compare.Wrong,
		"ring, out-of-place, float, sum, 1024 bytes, iterations":                 compare.Undecided,
		"ring, in-place, float, sum, 1048576 bytes, averages":                    compare.Undecided,
		"ring, in-place, float, sum, 4096 bytes, averages":                       compare.Faster,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if len(c.OnlyA) != 1 || c.OnlyA[0].Size != 1<<30 || len(c.OnlyB) != 1 || c.OnlyB[0].Mode != "p2p" {
		t.Errorf("only in A %v, only in B %v", c.OnlyA, c.OnlyB)
	}
}

// What fails a ratio: rows below it, wrong data, rows that B lacks, a B that is
// not complete. Nothing else does.
func TestBelow(t *testing.T) {
	a, b := run(row("ring", 1024, around(10)...), row("ring", 2048, around(10)...)), run(row("ring", 1024, around(10)...), row("ring", 2048, around(20)...))
	below := func(ratio float64) []string {
		c, err := compare.Compare(a, b, compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Below(ratio)
	}
	if got := below(0.5); len(got) != 0 {
		t.Errorf("exactly the ratio: %v", got)
	}
	if got := below(0.51); len(got) != 1 || !strings.Contains(got[0], "2048 bytes: 0.500 of A's speed (slower)") {
		t.Errorf("%v", got)
	}
	one := uint64(1)
	b.Rows[0].Wrong = &one
	b.Rows = b.Rows[:1]
	b.Status = result.Status{State: result.Interrupted, Reason: "SIGTERM"}
	if got := strings.Join(below(0.1), "\n"); !strings.Contains(got, "1024 bytes: wrong data") || !strings.Contains(got, "2048 bytes: not in B") || !strings.Contains(got, "interrupted SIGTERM") {
		t.Errorf("%v", got)
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*result.Run)
		want   string
	}{
		"ranks":     {func(r *result.Run) { r.WorldSize = 4 }, "A has 8 ranks and B has 4"},
		"simulated": {func(r *result.Run) { r.Simulated = true }, "A is measured and B is SIMULATED"},
		"shared":    {func(r *result.Run) { r.SharedGPU = true }, "B is SHARED GPU"},
		"empty":     {func(r *result.Run) { r.Rows = nil }, "one of them has no rows"},
		"sizes":     {func(r *result.Run) { r.Rows[0].Size = 8 }, "no row in common"},
		"operation": {func(r *result.Run) { r.Rows[0].Op = "max" }, "the first of B is ring, out-of-place, float, max, 1024 bytes"},
		"graphs":    {func(r *result.Run) { r.Rows[0].Graph = 1 }, "no row in common"},
	} {
		a, b := run(row("ring", 1024, 1, 2)), run(row("ring", 1024, 1, 2))
		tt.change(b)
		if _, err := compare.Compare(a, b, compare.Options{}); failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two results of one mode each are compared whatever their modes.
func TestOtherMode(t *testing.T) {
	c, err := compare.Compare(run(row("ring", 1024, around(10)...)), run(row("nvls-zero-copy", 1024, around(5)...)), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != 1 || c.Rows[0].Verdict != compare.Faster || c.ModeA != "ring" || c.ModeB != "nvls-zero-copy" {
		t.Errorf("%+v", c)
	}
	var w bytes.Buffer
	if err := c.WriteText(&w, compare.Names{A: "a", B: "b"}); err != nil || !strings.Contains(w.String(), "ring > nvls-zero-copy") {
		t.Errorf("%v\n%s", err, &w)
	}
}

// A result against itself: every ratio is 1 and nothing is faster or slower;
// the other way round gives the other verdict and the inverse ratio.
func TestSymmetry(t *testing.T) {
	other := map[compare.Verdict]compare.Verdict{compare.Faster: compare.Slower, compare.Slower: compare.Faster, compare.Same: compare.Same, compare.Undecided: compare.Undecided}
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(1, 100), 1, 40)
		a, b := run(row("ring", 1024, times.Draw(t, "a")...)), run(row("ring", 1024, times.Draw(t, "b")...))
		get := func(x, y *result.Run) compare.Row {
			c, err := compare.Compare(x, y, compare.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return c.Rows[0]
		}
		if r := get(a, a); r.Ratio != 1 || r.Verdict != compare.Same && r.Verdict != compare.Undecided {
			t.Fatalf("against itself: %+v", r)
		}
		x, y := get(a, b), get(b, a)
		if y.Verdict != other[x.Verdict] || math.Abs(x.Ratio*y.Ratio-1) > 1e-9 {
			t.Fatalf("%+v and %+v", x, y)
		}
		for _, e := range []compare.Estimate{x.A, x.B} {
			if (e.Low == nil) != (e.N < 6) || e.Low != nil && !(*e.Low <= e.Median && e.Median <= *e.High && e.Coverage >= compare.Confidence) {
				t.Fatalf("%+v", e)
			}
		}
	})
}

// The interval holds the true median as often as it says. The samples are of a
// skewed distribution, where an interval by mean and deviation would fail; its
// median is 1.
func TestCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{6, 20, 101} {
		const trials = 4000
		hits, coverage := 0, 0.0
		for range trials {
			s := make([]float64, n)
			for i := range s {
				s[i] = math.Exp(2 * rng.NormFloat64())
			}
			c, err := compare.Compare(run(row("ring", 1024, s...)), run(row("ring", 1024, s...)), compare.Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := c.Rows[0].A
			coverage = e.Coverage
			if *e.Low <= 1 && 1 <= *e.High {
				hits++
			}
		}
		// Five standard deviations of the count of hits.
		got := float64(hits) / trials
		if slack := 5 * math.Sqrt(coverage*(1-coverage)/trials); math.Abs(got-coverage) > slack {
			t.Errorf("%d samples: %.4f of the intervals hold the median, %.4f promised", n, got, coverage)
		}
	}
}

// Intervals of a table of the binomial distribution.
func TestKnownIntervals(t *testing.T) {
	for _, tt := range []struct {
		n, low, high int // ranks of the order statistics, from 1; 0 for none
		coverage     float64
	}{
		{5, 0, 0, 0}, {6, 1, 6, 0.96875}, {10, 2, 9, 0.978515625}, {20, 6, 15, 0.958610534667969}, {100, 40, 61, 0.964799799782},
	} {
		s := make([]float64, tt.n)
		for i := range s {
			s[i] = float64(i + 1)
		}
		rand.New(rand.NewPCG(5, 6)).Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		c, err := compare.Compare(run(row("ring", 1024, s...)), run(row("ring", 1024, s...)), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := c.Rows[0].A
		if tt.low == 0 {
			if e.Low != nil {
				t.Errorf("%d samples: %v", tt.n, *e.Low)
			}
			continue
		}
		if *e.Low != float64(tt.low) || *e.High != float64(tt.high) || math.Abs(e.Coverage-tt.coverage) > 1e-9 {
			t.Errorf("%d samples: from %g to %g with %.12f, want %d to %d with %.12f", tt.n, *e.Low, *e.High, e.Coverage, tt.low, tt.high, tt.coverage)
		}
	}
}

// A soak run has a hundred thousand iterations; 2^n overflows long before.
func TestManySamples(t *testing.T) {
	s := make([]float64, 100_001)
	for i := range s {
		s[i] = float64(i + 1)
	}
	c, err := compare.Compare(run(row("ring", 1024, s...)), run(row("ring", 1024, s...)), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The normal approximation: half of n, less 1.96 half square roots of n.
	e := c.Rows[0].A
	if want := 50_000 - 0.98*math.Sqrt(1e5); e.Low == nil || math.Abs(*e.Low-want) > 3 {
		t.Errorf("%+v, want about %g", e, want)
	}
}

func TestJSONIsWhole(t *testing.T) {
	a, b := sample()
	c, err := compare.Compare(a, b, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	if err := c.WriteJSON(&w, compare.Names{A: "a", B: "b"}, 0, nil); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema string        `json:"schema"`
		Rows   []compare.Row `json:"rows"`
	}
	if err := json.Unmarshal(w.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c.Rows, got.Rows); d != "" || got.Schema != compare.Schema {
		t.Errorf("%s %s", got.Schema, d)
	}
}

// Every line of the benchmark format has the grammar of Go's benchmarks, and one
// line stands for each iteration.
func TestBenchfmtGrammar(t *testing.T) {
	a, _ := sample()
	a.Rows[0].Mode = "nccl (my log.txt table 1/2)"
	a.Simulated = true
	var w bytes.Buffer
	if err := compare.WriteBenchfmt(&w, compare.Named{Name: "my file.json", Run: a}); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(w.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		lines++
		f := strings.Fields(line)
		if len(f) != 6 || f[3] != "ns/op" || f[5] != "busB/s" || !strings.HasPrefix(f[0], "BenchmarkSIMULATEDAllReduce/mode=") || strings.Count(f[0], "/") != 5 {
			t.Errorf("%q", line)
		}
	}
	if want := 4*20 + 3 + 2 + 6; lines != want {
		t.Errorf("%d lines, want %d", lines, want)
	}
	if !slices.Contains(strings.Split(w.String(), "\n"), "label: SIMULATED") {
		t.Error("no label")
	}
}

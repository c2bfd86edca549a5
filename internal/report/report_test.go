package report_test

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/report"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

var regen = flag.Bool("regen", false, "write the golden files of testdata anew")

// sample is a run with something for every section.
func sample() *result.Run {
	r := &result.Run{
		Version: "v0.1.0", Status: result.Status{State: result.Complete},
		Start: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), End: time.Date(2026, 11, 29, 12, 1, 30, 0, time.UTC),
		ID: "00112233445566778899aabbccddeeff", Host: "node7", Container: "apptainer", Launcher: "srun-pmix",
		MPI: "Open MPI v4.1.6", Driver: "CUDA 13.0, driver 580.159.04", Libraries: []string{"NCCL 2.28.9"}, WorldSize: 2, LinkLimit: 396,
		Config: map[string]string{"run.mode": `["ring", "auto"]`, "sweep.min_bytes": `"1M"`},
		Args:   []string{"nvls-allreduce", "--mode", "ring,auto", "--label", "it's"},
		Env:    map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "gpu", "SLURM_JWT": "hidden", "HOME": "/hidden"},
		Modes:  []string{"ring", "auto"},
		Decisions: []result.Decision{
			{Requested: "nvls-zero-copy", Reason: "rank 1 cannot bind | driver said NOT_SUPPORTED"},
			{SizeBytes: 1 << 20, Requested: "auto", Chosen: "p2p", Reason: "fastest at this size"},
		},
		Memory: result.Memory{Buffers: 3 << 30, Staging: 32 << 20, Control: 2 << 20},
	}
	for i := range 2 {
		r.Devices = append(r.Devices, result.Device{Rank: i, Host: "node7", UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H200",
			PCI: fmt.Sprintf("0000:1%d:00", i), ComputeCapability: "9.0", SMs: 132, MemoryBytes: 141 << 30, Links: 18, LinkPeak: 450e9})
	}
	right := uint64(0)
	for _, mode := range []string{"ring", "auto"} {
		for i, us := range []float64{14, 34, 80, 250} {
			row := result.Row{Mode: mode, Algorithm: "ring 16x512", Size: 1 << 20 << (2 * i), Count: 1 << 18 << (2 * i), DataType: "float", Op: "sum",
				Placement: result.OutOfPlace, Time: us, Wrong: &right}
			row.Iterations = result.Summarize([]float64{us - 1, us, us + 2})
			row.Rate(2, r.LinkPeak())
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

// bad is sample, cut short and wrong on a shared software device.
func bad() *result.Run {
	r := sample()
	r.Simulated, r.SharedGPU = true, true
	r.Status = result.Status{State: result.Interrupted, Reason: "SIGTERM"}
	n := uint64(12)
	r.Rows[3].Wrong = &n
	r.Rows[3].FirstWrong = &result.FirstWrong{Rank: 1, Index: 17, Expected: result.Element{Bits: "0x3f800000", Value: "1"}, Got: result.Element{Bits: "0x7fc00000", Value: "NaN"}}
	return r
}

// write gives the files of a report.
func write(t *testing.T, o plots.Options, runs ...*result.Run) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "report")
	if err := report.Write(dir, runs, o); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(b)
	}
	return out
}

// few takes the kinds of charts from r that are dear to draw and of no interest.
func few(r *result.Run) *result.Run {
	r.Rows = r.Rows[:4]
	for i := range r.Rows {
		r.Rows[i].Iterations, r.Rows[i].LinkShare = nil, nil
	}
	return r
}

func TestGolden(t *testing.T) {
	imported := sample()
	imported.Tool, imported.Name, imported.Notes = "nccl-tests 2.19.6", "their log", []string{"imported from all_reduce.log, lines 10 to 30"}
	predicted := 4051.5
	imported.Predictions = []result.Prediction{{Size: 1 << 30, Algorithm: "NVLS", Protocol: "Simple", Time: &predicted, Seen: 3}}
	for name, c := range map[string]struct {
		runs []*result.Run
		o    plots.Options
	}{
		"one.md":     {[]*result.Run{sample()}, plots.Options{}},
		"bad.md":     {[]*result.Run{bad()}, plots.Options{Title: "What went wrong"}},
		"several.md": {[]*result.Run{sample(), imported}, plots.Options{Names: []string{"ours"}, Files: []string{"a", "b"}}},
	} {
		got := write(t, c.o, c.runs...)[report.Markdown]
		path := filepath.Join("testdata", name)
		if *regen {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: -regen writes it anew; -want +got:\n%s", name, d)
		}
	}
}

// Both forms say the same: every cell and text of the Markdown is in the page.
func TestFormsAgree(t *testing.T) {
	unescape := strings.NewReplacer(`\|`, "|", `\_`, "_", `\*`, "*", `\[`, "[", `\]`, "]", `\#`, "#", `\~`, "~", "\\`", "`", `\\`, `\`)
	for _, runs := range [][]*result.Run{{sample(), few(bad())}} {
		files := write(t, plots.Options{}, runs...)
		page := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(files[report.HTML], "\x00"))
		cells := 0
		for line := range strings.Lines(files[report.Markdown]) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") || strings.Contains(line, "---") {
				continue
			}
			for _, cell := range regexp.MustCompile(`[^\\]\|`).Split(" "+line, -1) {
				cell = html.UnescapeString(unescape.Replace(strings.Trim(cell, "| ")))
				if cells++; !strings.Contains(page, cell) {
					t.Errorf("no %q in the page", cell)
				}
			}
		}
		if cells < 100 {
			t.Errorf("only %d cells compared", cells)
		}
	}
}

// A page needs no other file and no network, and runs nothing.
func TestSelfContained(t *testing.T) {
	page := write(t, plots.Options{}, sample())[report.HTML]
	if n := strings.Count(page, `src="data:image/svg&#43;xml;base64,`); n != 5 {
		t.Errorf("%d charts in the page", n)
	}
	for _, no := range []string{"<script", "http://", "https://", "<link", "@import", "url(", "ZgotmplZ"} {
		if strings.Contains(page, no) {
			t.Errorf("%q in the page", no)
		}
	}
}

// Words of a result are words, and variables off the list stay hidden.
func TestHostileResult(t *testing.T) {
	r := few(sample())
	const evil = `<script>alert(1)</script> "&` + "` | [x](http://e.org) **b**\n# h"
	r.Host, r.Driver, r.Name, r.Decisions[0].Reason, r.Devices[0].Name, r.Rows[0].Mode = evil, evil, evil, evil, evil, evil
	r.Config[evil], r.Args[1] = evil, evil
	files := write(t, plots.Options{Title: evil}, r)
	for name, text := range map[string]string{report.HTML: files[report.HTML], report.Markdown: files[report.Markdown]} {
		if strings.Contains(strings.ReplaceAll(text, "```\nnvls-allreduce '<script>", ""), "<script") {
			t.Errorf("%s: a script", name)
		}
		if strings.Contains(text, "hidden") {
			t.Errorf("%s: a variable that is not on the list", name)
		}
	}
	for line := range strings.Lines(regexp.MustCompile("(?s)\n```.*?\n```\n").ReplaceAllString(files[report.Markdown], "\n")) {
		if strings.HasPrefix(line, "# h") || strings.Contains(strings.ReplaceAll(line, `\](`, ""), "](http") {
			t.Errorf("markup from a result: %q", line)
		}
	}
}

func TestLabels(t *testing.T) {
	files := write(t, plots.Options{}, few(bad()))
	for _, heading := range regexp.MustCompile(`(?m)^## .*$`).FindAllString(files[report.Markdown], -1) {
		if !strings.Contains(heading, "SIMULATED") || !strings.Contains(heading, "SHARED GPU - NOT A MEASUREMENT") {
			t.Errorf("%q has not all labels", heading)
		}
	}
	// Of several runs, each that is no measurement says so wherever it is named.
	mixed := write(t, plots.Options{Names: []string{"real", "made"}}, few(sample()), few(bad()))[report.Markdown]
	for line := range strings.Lines(mixed) {
		named := strings.HasPrefix(line, "| made") || strings.HasPrefix(line, "### made")
		if named && !strings.Contains(line, "made · SIMULATED · SHARED GPU - NOT A MEASUREMENT") || strings.Contains(line, "real · SIM") {
			t.Errorf("%q", line)
		}
		if strings.HasPrefix(line, "## ") && !strings.Contains(line, "(partly SIMULATED, partly SHARED GPU - NOT A MEASUREMENT)") {
			t.Errorf("%q", line)
		}
	}
	for _, want := range []string{"SIMULATED GB/s", "INCOMPLETE: interrupted: SIGTERM", "WRONG DATA in 1 of 4 rows", "0x7fc00000 (NaN)"} {
		if !strings.Contains(files[report.HTML], want) || !strings.Contains(files[report.Markdown], want) {
			t.Errorf("no %q", want)
		}
	}
}

// A run that measured nothing has a report: its reasons.
// Tables name a mode that was replaced as the charts beside them do.
func TestReplaced(t *testing.T) {
	r := few(sample())
	for i := range r.Rows {
		r.Rows[i].Requested = []string{"nvls-zero-copy"}
	}
	page := write(t, plots.Options{}, r)["report.md"]
	const title = "nvls-zero-copy (ran as ring)"
	if n := strings.Count(page, "| "+title+" |"); n != 1+len(r.Rows) {
		t.Errorf("%d rows of tables are of %q, want %d:\n%s", n, title, 1+len(r.Rows), page)
	}
}

func TestNothingMeasured(t *testing.T) {
	r := sample()
	r.Rows, r.Status = nil, result.Status{State: result.Failed, Reason: "NVLS cannot run"}
	files := write(t, plots.Options{}, r)
	if len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
	for _, want := range []string{"INCOMPLETE: failed: NVLS cannot run", "No row was measured.", "rank 1 cannot bind"} {
		if !strings.Contains(files[report.HTML], want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestSameBytes(t *testing.T) {
	if d := cmp.Diff(write(t, plots.Options{}, few(bad())), write(t, plots.Options{}, few(bad()))); d != "" {
		t.Errorf("two reports of the same results differ: %.500s", d)
	}
}

// What cannot be written is told before anything is, and an old report stays.
func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old")
	if err := report.Write(old, []*result.Run{few(sample())}, plots.Options{}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(old, report.HTML))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		o    plots.Options
		want string
	}{
		{file, plots.Options{}, "it is no folder"},
		{filepath.Join(file, "report"), plots.Options{}, "cannot write a report"},
		{filepath.Join(dir, "none", "report"), plots.Options{}, "cannot write a report"},
		{old, plots.Options{Baseline: "none"}, `no line of the chart is "none"`},
		{filepath.Join(dir, "new"), plots.Options{Baseline: "none"}, `no line of the chart is "none"`},
	} {
		err := report.Write(c.dir, []*result.Run{sample()}, c.o)
		if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.dir, err)
		}
	}
	after, err := os.ReadFile(filepath.Join(old, report.HTML))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old report changed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"file", "old"}) {
		t.Errorf("left behind: %q", names)
	}
}

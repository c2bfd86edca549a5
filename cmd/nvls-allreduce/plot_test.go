package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

var regen = flag.Bool("regen", false, "draw the charts of docs anew")

// The command that docs/charts.md gives draws the picture that is there.
func TestThreadExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/charts.md")
	if err != nil {
		t.Fatal(err)
	}
	const picture = "docs/thread.svg"
	line := ""
	for l := range strings.Lines(string(doc)) {
		if strings.HasPrefix(l, program+" plot") && strings.Contains(l, picture) {
			line = l
		}
	}
	if line == "" {
		t.Fatal("no such command")
	}
	// As a shell would: quotes, and names by pattern.
	t.Chdir("../..")
	words, err := exec.Command("sh", "-c", "set -- "+strings.TrimSpace(line)+`; printf '%s\n' "$@"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")[1:]
	got := filepath.Join(t.TempDir(), "thread.svg")
	if *regen {
		got = picture
	}
	for i, a := range args {
		if a == picture {
			args[i] = got
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, nil, &stdout, &stderr); code != int(failure.OK) {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	a, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(got); err != nil || !bytes.Equal(a, b) {
		t.Errorf("%s is another picture (%v); -regen draws it anew", picture, err)
	}
}

// A result of 2,000 rows is drawn within a second of a processor and 200 MB. The
// time is the processor's, for other tests run beside.
func TestPlotCost(t *testing.T) {
	r := &result.Run{Status: result.Status{State: result.Complete}, WorldSize: 8}
	for _, mode := range []string{"nvls-zero-copy", "nvls-copy-in", "ring", "nccl"} {
		for i := range 500 {
			row := result.Row{Mode: mode, Size: uint64(1<<20) * uint64(i+1), DataType: "float", Op: "sum", Placement: result.OutOfPlace}
			row.Time = 5 + float64(row.Size)/2e5
			for k := range 20 {
				row.Times = append(row.Times, row.Time*(1+float64(k)/100))
			}
			row.Iterations = result.Summarize(row.Times)
			row.Rate(8, 450e9)
			r.Rows = append(r.Rows, row)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	if err := result.WriteFile(path, r); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"png", "svg", "pdf"} {
		// TestMain is the program itself when it is called so.
		cmd := exec.Command(self)
		cmd.Args = []string{program, "plot", path, "-o", filepath.Join(dir, "chart."+f), "--kind", "busbw,time,speedup,spread"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
		t.Logf("%s: %v of processor time, %d MiB", f, used, peak)
		if used.Seconds() > 1 || peak > 200 {
			t.Errorf("%s: %v of processor time and %d MiB for 2,000 rows", f, used, peak)
		}
	}
}

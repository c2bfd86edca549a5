//go:build linux

package endtoend

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readCSV gives the lines of a CSV file by column.
func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(readFile(t, path))).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(all), err)
	}
	var lines []map[string]string
	for _, record := range all[1:] {
		line := map[string]string{}
		for i, name := range all[0] {
			line[name] = record[i]
		}
		lines = append(lines, line)
	}
	return lines
}

// TestOutputs makes every kind of output in one run and compares them.
func TestOutputs(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		dir := t.TempDir()
		o := job{launcher: l, np: 3, flags: "--mode nvls-zero-copy,ring -b 64 -e 4K -f 8 -n 3 -w 1 --csv " + dir + "/out.csv --plot " + dir + "/out.svg"}.run(t)
		o.want(t, 0, "# SIMULATED: the device is software", "[SIMULATED]", "# Out of bounds values : 0 OK", "# Collective test concluded: all_reduce_perf", "# Wrote "+dir+"/out.csv")
		modes := []string{"nvls-zero-copy", "ring"}
		want := calls(modes, []collective.DType{collective.Float}, []collective.Op{collective.Sum}, sizes{64, 4096, 8})
		o.right(t, want)

		// The table, as programs read nccl-tests: columns from the right.
		var rows [][]string
		for line := range strings.Lines(o.stdout) {
			if !strings.HasPrefix(line, "#") {
				rows = append(rows, strings.Fields(line))
			}
		}
		if len(rows)*2 != len(want) {
			t.Fatalf("%d lines in the tables, want %d", len(rows), len(want)/2)
		}
		for i, f := range rows {
			if len(f) != 13 {
				t.Fatalf("a line of %d columns: %v", len(f), f)
			}
			out, in := o.run.Rows[2*i], o.run.Rows[2*i+1]
			n := len(f)
			for _, c := range []struct {
				at   int // from the right
				want float64
			}{{13, float64(out.Size)}, {12, float64(out.Count)}, {8, out.Time}, {7, out.AlgBW}, {6, out.BusBW}, {5, 0}, {4, in.Time}, {3, in.AlgBW}, {2, in.BusBW}, {1, 0}} {
				// As many digits as the column has: relative 1 %, or 0.005.
				got, err := strconv.ParseFloat(f[n-c.at], 64)
				if d := got - c.want; err != nil || d*d > max(0.00003, c.want*c.want*0.0001) {
					t.Errorf("line %v: column %d from the right is %s, in the JSON %g", f, c.at, f[n-c.at], c.want)
				}
			}
			if f[n-11] != "float" || f[n-10] != "sum" || f[n-9] != "-1" {
				t.Errorf("line %v: type, operation or root", f)
			}
		}

		// CSV: one line a row, each marked.
		lines := readCSV(t, dir+"/out.csv")
		if len(lines) != len(want) {
			t.Errorf("%d lines of CSV, want %d", len(lines), len(want))
		}
		for i, line := range lines {
			r := o.run.Rows[i]
			if line["simulated"] != "true" || line["run_id"] != o.run.ID || line["mode"] != r.Mode || line["placement"] != string(r.Placement) ||
				line["count"] != strconv.FormatUint(r.Count, 10) || line["wrong"] != "0" || line["iterations"] != "3" {
				t.Errorf("line %d of CSV: %v", i, line)
			}
		}
		if svg := readFile(t, dir+"/out.svg"); !strings.Contains(svg, "<svg") || !strings.Contains(svg, "SIMULATED") {
			t.Error("the chart is no SVG or does not say SIMULATED")
		}
	})
}

// The JSON file, read without this project's code.
func TestJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	o := job{launcher: local, np: 2, flags: "--mode ring -b 64 -e 64 -n 4 -J " + path, env: []string{"NVLS_ALLREDUCE_TEST_SECRET=hush", "AWS_SECRET_ACCESS_KEY=hush"}}.run(t)
	o.want(t, 0)
	text := readFile(t, path)
	var v struct {
		Schema    string
		Simulated *bool
		Status    struct{ State string }
		WorldSize int `json:"world_size"`
		Devices   []struct{ UUID string }
		Rows      []struct {
			Mode       string
			Size       uint64   `json:"size_bytes"`
			Time       *float64 `json:"time_us"`
			Wrong      *uint64
			Iterations *struct{ N int }
		}
		Config map[string]string
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.Schema, "nvls-allreduce/") || v.Simulated == nil || !*v.Simulated || v.Status.State != "complete" || v.WorldSize != 2 ||
		len(v.Devices) != 2 || v.Devices[0].UUID == v.Devices[1].UUID || len(v.Rows) != 2 || v.Config["timing.iters"] != "4" {
		t.Errorf("%+v", v)
	}
	for _, r := range v.Rows {
		if r.Mode != "ring" || r.Size != 64 || r.Time == nil || *r.Time <= 0 || r.Wrong == nil || *r.Wrong != 0 || r.Iterations == nil || r.Iterations.N != 4 {
			t.Errorf("%+v", r)
		}
	}
	if strings.Contains(text, "hush") {
		t.Error("a secret of the environment is in the file")
	}
}

func TestCharts(t *testing.T) {
	for suffix, magic := range map[string]string{"png": "\x89PNG\r\n", "svg": "<?xml", "pdf": "%PDF-"} {
		t.Run(suffix, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out."+suffix)
			o := job{launcher: local, np: 2, flags: "--mode ring -b 64 -e 1K --plot " + path, config: oneTiming}.run(t)
			o.want(t, 0, "# Wrote "+path)
			if text := readFile(t, path); !strings.HasPrefix(text, magic) {
				t.Errorf("the file begins with %.10q, want %q", text, magic)
			}
		})
	}
}

func TestRequiredBandwidth(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		o := job{launcher: l, np: 2, flags: "--mode ring -b 64 -e 64 --min-busbw 1e9", config: oneTiming}.run(t)
		o.want(t, 7, "bus bandwidth is below the required 1e+09 GB/s", "# Avg bus bandwidth ", "FAILED")
		if o.run == nil || o.run.Status.State != "failed" || o.run.MinBusBW != 1e9 {
			t.Errorf("the result does not say what was required: %+v", o.run)
		}
	})
	job{launcher: local, np: 2, flags: "--mode ring -b 64 -e 64 --min-busbw 1e-9", config: oneTiming}.run(t).want(t, 0, " OK")
}

func TestGraphs(t *testing.T) {
	four := []string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p"}
	o := job{launcher: local, np: 3, flags: "--mode nvls-zero-copy,nvls-copy-in,ring,p2p -b 100 -e 2000 -f 20 -n 3 -w 1 -G 2"}.run(t)
	o.want(t, 0, "CUDA graph launched 2 times", "graph: 2")
	o.right(t, calls(four, []collective.DType{collective.Float}, []collective.Op{collective.Sum}, sizes{100, 2000, 20}))
	for _, r := range o.run.Rows {
		if r.Graph != 2 {
			t.Errorf("%s: graph is %d", r.Mode, r.Graph)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "--mode ring -b 64 -e 64 -c 0", config: oneTiming}.run(t)
		o.want(t, 0, "0 of 2 rows were checked")
		if !regexp.MustCompile(`(?m)^ +64 .* N/A .* N/A$`).MatchString(o.stdout) {
			t.Errorf("no N/A in the table:\n%s", o.stdout)
		}
		for _, r := range o.run.Rows {
			if r.Wrong != nil {
				t.Errorf("wrong is %d without a check", *r.Wrong)
			}
		}
	})
	// Each check has fresh data: one that is right does not excuse another.
	for _, n := range []string{"5", "70"} {
		t.Run(n, func(t *testing.T) {
			o := job{launcher: local, np: 3, program: faulty, flags: "--mode ring -b 64 -e 64 -c " + n, config: oneTiming, env: []string{"NVLS_ALLREDUCE_FAULT=flip:1:3"}}.run(t)
			checks, _ := strconv.ParseUint(n, 10, 64)
			o.want(t, 7)
			for _, r := range o.run.Rows {
				if r.Wrong == nil || *r.Wrong != 3*checks {
					t.Errorf("%v wrong elements in %s checks of 3 ranks", r.Wrong, n)
				}
			}
			job{launcher: local, np: 3, flags: "--mode ring -b 64 -e 64 -c " + n, config: oneTiming}.run(t).want(t, 0, "validation: "+n)
		})
	}
}

func TestCycles(t *testing.T) {
	o := job{launcher: local, np: 2, flags: "--mode ring,p2p -b 64 -e 64 -N 2", config: oneTiming}.run(t)
	o.want(t, 0)
	once := calls([]string{"ring", "p2p"}, []collective.DType{collective.Float}, []collective.Op{collective.Sum}, sizes{64, 64, 2})
	var want []call
	for cycle := range 2 {
		for _, c := range once {
			c.cycle = cycle
			want = append(want, c)
		}
	}
	o.right(t, want)
}

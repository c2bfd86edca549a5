package importer

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

var regen = flag.Bool("regen", false, "write the golden files of testdata anew")

// needRanks are the logs that do not tell their number of ranks.
var needRanks = map[string]int{
	"osu-5.9.log": 4, "osu-7.0-full.log": 4, "osu-7.5.log": 4,
	"mscclpp-bench.log": 8, "torch-noranks.log": 8,
}

// importFile imports one log of testdata under its bare name.
func importFile(t *testing.T, o Options, names ...string) (*result.Run, error) {
	t.Helper()
	var logs []Log
	for _, n := range names {
		logs = append(logs, Log{Name: n, Reader: open(t, n)})
	}
	o.Version = "v0.0.0"
	return Import(logs, o)
}

func open(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Every log of testdata was made with the printf formats of the program and
// version in its name, and gives the result beside it.
func TestGolden(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log")
	if err != nil || len(logs) < 40 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, path := range logs {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			run, err := importFile(t, Options{Ranks: needRanks[name]}, name)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := result.Encode(&b, run); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(path, ".log") + ".golden"
			if *regen {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("%s differs (-want +got); -regen writes it anew:\n%s", golden, d)
			}
			again, err := result.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(run, again); d != "" {
				t.Errorf("round trip through JSON (-want +got):\n%s", d)
			}
		})
	}
}

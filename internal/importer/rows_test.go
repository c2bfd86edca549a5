package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// tiny is a spool that keeps next to nothing in memory, in chunks of a row or
// two, which tables between each other's lines share.
func tiny(dir string) spool { return spool{dir: dir, memory: 100, chunk: 64} }

// Rows that waited in a file are those that waited in memory, for every log and
// for all logs together that can be.
func TestRowsFromDisk(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.log")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	sets := [][]string{{"thread-nvls.log", "thread-ring.log", "torch-bus.log", "nccl-2.19-I.log", "nccl-v1.json.log"}}
	for _, p := range paths {
		sets = append(sets, []string{filepath.Base(p)})
	}
	for _, names := range sets {
		o := Options{Ranks: needRanks[names[0]], Version: "v0.0.0"}
		want, err := importFile(t, o, names...)
		if len(names) > 1 && err != nil {
			continue // of other ranks
		}
		if err != nil {
			t.Fatal(err)
		}
		var logs []Log
		for _, n := range names {
			logs = append(logs, Log{Name: n, Reader: open(t, n)})
		}
		dir := t.TempDir()
		x, err := read(logs, o, tiny(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if x.set.spool.file == nil && x.NumRows > 4 {
			t.Fatalf("%v: %d rows stayed in memory", names, x.NumRows)
		}
		out := filepath.Join(dir, "result.json")
		if err := x.WriteFile(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := result.Encode(&text, want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(text.String(), string(got)); d != "" {
			t.Errorf("%v from disk (-memory +disk):\n%s", names, d)
		}
		if e, err := os.ReadDir(dir); err != nil || len(e) != 1 {
			t.Errorf("%v left %v, %v", names, e, err)
		}
	}
}

// Without a folder for the file that rows need there is an error and no result.
func TestNoFolderForRows(t *testing.T) {
	_, err := read([]Log{{"a.log", open(t, "nccl-2.13.log")}}, Options{}, tiny(filepath.Join(t.TempDir(), "gone")))
	if failure.CodeOf(err) != failure.Usage || err == nil || !strings.Contains(err.Error(), "temporary file") {
		t.Errorf("got %v", err)
	}
}

// A file that another changed is told, and is no rows.
func TestSpoolIsDamaged(t *testing.T) {
	x, err := read([]Log{{"a.log", open(t, "nccl-2.13.log")}}, Options{}, tiny(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.set.spool.file.Truncate(150); err != nil {
		t.Fatal(err)
	}
	for _, err = range x.Rows() {
		if err != nil {
			break
		}
	}
	if err == nil {
		t.Error("all rows came from half a file")
	}
}

// Interleaved tables of two ranks: each has its rows in its own order.
func TestInterleavedTables(t *testing.T) {
	var b strings.Builder
	lines := strings.SplitAfter(text(t, "nccl-2.13.log"), "\n")
	for _, l := range lines {
		if l != "" {
			b.WriteString("[1,0]<stdout>:" + l + "[1,1]<stdout>:" + l)
		}
	}
	x, err := read([]Log{{"a.log", strings.NewReader(b.String())}}, Options{}, tiny(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	want, err := importFile(t, Options{}, "nccl-2.13.log")
	if err != nil {
		t.Fatal(err)
	}
	var got []result.Row
	for r, err := range x.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *r)
	}
	n := len(want.Rows)
	if len(got) != 2*n || !equalRows(got[:n], want.Rows) || !equalRows(got[n:], want.Rows) || got[0].Mode != "nccl (a table 1)" || got[n].Mode != "nccl (a table 2)" {
		t.Errorf("%d rows of %d twice", len(got), n)
	}
}

// NCCL's log may tell the number of ranks after the rows that need it.
func TestRanksAfterRows(t *testing.T) {
	const comm = "node1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n"
	for _, name := range []string{"osu-7.5.log", "mscclpp-bench.log", "torch-noranks.log"} {
		want, err := importFile(t, Options{Ranks: 8}, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Import([]Log{{name, strings.NewReader(text(t, name) + comm)}}, Options{Version: "v0.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Rows, got.Rows); d != "" || got.WorldSize != 8 {
			t.Errorf("%s, %d ranks:\n%s", name, got.WorldSize, d)
		}
	}
	// A table whose devices are not listed, of 8 ranks; 4 contradict it.
	s := strings.ReplaceAll(text(t, "nccl-2.13.log"), "#  Rank", "#  rang")
	if _, err := Import([]Log{{"a.log", strings.NewReader(s + comm)}}, Options{}); err != nil {
		t.Error(err)
	}
	_, err := Import([]Log{{"a.log", strings.NewReader(s + strings.ReplaceAll(comm, "nranks 8", "nranks 4"))}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "8 ranks fit") {
		t.Errorf("4 ranks: %v", err)
	}
}

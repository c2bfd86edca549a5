package tuning

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func sample() *File {
	return &File{Schema: Schema, Ranks: 2, Device: "NVIDIA H200", Driver: "CUDA 13.0", Host: "node1", Time: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		Version: "v1", Choices: []Choice{
			{"float", "sum", 65536, "p2p-packet", 0, 0, 0, 0, 3.5},
			{"float", "sum", 1 << 20, "p2p-push", 64, 512, 0, 0, 9},
			{"float", "sum", 1 << 30, "p2p-copy-engine", 0, 0, 8 << 20, 4, 2800},
			{"half", "max", 1024, "ring", 0, 0, 0, 0, 8},
		}}
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.toml")
	if err := WriteFile(path, sample()); err != nil {
		t.Fatal(err)
	}
	text, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Choices = []Choice{want.Choices[3], want.Choices[0], want.Choices[1], want.Choices[2]} // by size
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLookup(t *testing.T) {
	f := sample()
	for _, c := range []struct {
		datatype, op string
		bytes        uint64
		want         string
	}{
		{"float", "sum", 1, "p2p-packet"}, {"float", "sum", 65536, "p2p-packet"}, {"float", "sum", 65537, "p2p-push"},
		{"float", "sum", 1 << 40, "p2p-copy-engine"}, {"half", "max", 9999, "ring"}, {"double", "sum", 1 << 19, "p2p-push"},
	} {
		got, ok := f.Lookup(c.datatype, c.op, c.bytes)
		if !ok || got.Mode != c.want {
			t.Errorf("%s %s %d: %s, want %s", c.datatype, c.op, c.bytes, got.Mode, c.want)
		}
	}
	if _, ok := (&File{}).Lookup("float", "sum", 1); ok {
		t.Error("an empty file has a choice")
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":           "schema",
		"schema = 1": "string",
		"schema = \"nvls-allreduce-tuning/1\"\nnope = 1\n[[choice]]\nmode = \"ring\"":                                                "nope",
		"schema = \"nvls-allreduce-tuning/1\"":                                                                                       "no choices",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmode = \"ring\"\nthreads = 33":        "threads = 33",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmode = \"ring\"\nblocks = 4294967295": "blocks",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmode = \"ring\"\nslots = 9":           "slots = 9",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmode = \"ring\"\ntime_us = nan":       "time_us",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmode = \"a\\nb\"":                     "mode",
		"schema = \"nvls-allreduce-tuning/1\"\n[[choice]]\ndatatype = \"floaty\"":                                                    "floaty",
		"[[choice": "line 1",
	} {
		_, err := Parse("f.toml", text)
		if err == nil || !strings.Contains(err.Error(), want) || failure.CodeOf(err) != failure.Usage {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := sample().Check(2, "NVIDIA H200"); err != nil {
		t.Error(err)
	}
	if err := sample().Check(4, "NVIDIA H200"); err == nil {
		t.Error("a file for 2 ranks is good for 4")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); failure.CodeOf(err) != failure.Usage {
		t.Error(err)
	}
}

// Any text is a tuning file or refused.
func FuzzParse(f *testing.F) {
	f.Add("schema = \"nvls-allreduce-tuning/1\"\nranks = 4\ndevice = \"GPU\"\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmax_bytes = 1024\nmode = \"ring\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("f.toml", text)
		if err == nil {
			for _, c := range file.Choices {
				file.Lookup(c.DataType, c.Op, c.MaxBytes)
			}
		}
	})
}

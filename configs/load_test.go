package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

var ignoreOrigins = cmpopts.IgnoreUnexported(Config{})

func TestPresets(t *testing.T) {
	want := []string{"auto", "compare-all", "compare-nccl", "default", "nvls-copy-in", "nvls-zero-copy", "quick", "ring"}
	if diff := cmp.Diff(want, Presets()); diff != "" {
		t.Fatal(diff)
	}
	for _, name := range Presets() {
		c, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, err := Preset(name)
		if err != nil || p.Canonical() != c.Canonical() {
			t.Errorf("Preset(%q) and Load(%q) differ: %v", name, name, err)
		}
		text, _ := presets.ReadFile(name + ".toml")
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s.toml does not begin with what it is for", name)
		}
		// A preset that repeats a default would hide a change of the default.
		layer, _ := presetLayer(name)
		for _, s := range layer {
			if name != defaultPreset && c.Get(s.Key) == Default().Get(s.Key) {
				t.Errorf("%s.toml repeats the default of %s", name, s.Key)
			}
		}
	}
	if _, err := Preset("rnig"); failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), `did you mean "ring"`) {
		t.Errorf("Preset(rnig): %v", err)
	}
}

// TestDefaultIsComplete holds default.toml to every key, each under a comment.
func TestDefaultIsComplete(t *testing.T) {
	layer, err := presetLayer(defaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range layer {
		got = append(got, s.Key)
	}
	if diff := cmp.Diff(Keys(), got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("keys of Config and of default.toml (-Config +file):\n%s", diff)
	}
	want := Sweep{MinBytes: 1 << 10, MaxBytes: 1 << 30, Factor: 2}
	if diff := cmp.Diff(want, Default().Sweep); diff != "" {
		t.Error(diff)
	}
	if got := Default().Timing; got.Timeout != time.Minute || got.Iters != 20 || got.Average != AverageMean || got.Check != 1 {
		t.Errorf("timing: %+v", got)
	}
}

func TestLoadFile(t *testing.T) {
	path := write(t, `
		run = { mode = "ring, p2p", op = ["sum", "max"] }
		timing.iters = 7
		[sweep]
		min_bytes = 4096
		step_bytes = "1MiB"
	`)
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Run.Mode, want.Run.Op, want.Timing.Iters = []string{"ring", "p2p"}, []string{"sum", "max"}, 7
	want.Sweep = Sweep{MinBytes: 4096, MaxBytes: 1 << 30, StepBytes: 1 << 20, Factor: 1}
	if diff := cmp.Diff(want, c, ignoreOrigins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for key, origin := range map[string]string{
		"timing.iters": path + " line 3", "sweep.min_bytes": path + " line 5", "sweep.factor": path + " line 6 (a step is set)",
		"timing.warmup": Default().Origin("timing.warmup"),
	} {
		if got := c.Origin(key); got != origin {
			t.Errorf("origin of %s is %q, want %q", key, got, origin)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // each in the message
	}{
		{"unknown key", "[timing]\nwarmup = 1\nitres = 3", []string{`unknown key "timing.itres"`, "line 3", `nearest is "timing.iters"`, "per_iteration"}},
		{"no case folding", "[run]\nMode = \"ring\"", []string{`unknown key "run.Mode"`, `nearest is "run.mode"`, "line 2"}},
		{"key outside a section", "iters = 3", []string{`unknown key "iters"`, "line 1", "move iters to section [timing]"}},
		{"key in the wrong section", "[run]\niters = 3", []string{`unknown key "run.iters"`, "line 2", "move iters to section [timing]"}},
		{"unknown section", "[nvlss]\nx = 3", []string{`unknown key "nvlss.x"`, "line 2", "nvls, nccl, bootstrap"}},
		{"unknown empty section", "\n[outptu]", []string{`unknown key "outptu"`, "line 2", `nearest is "output"`}},
		{"quoted dot", "\"run.mode\" = \"ring\"", []string{"unknown key", "line 1"}},
		{"section as value", "run = 5", []string{"run must be a section, not the whole number 5", "line 1"}},
		{"section as list", "[[run]]\nmode = \"ring\"", []string{"run must be a section, not a list of tables", "line 1"}},
		{"first of several", "[timing]\nb = 1\na = 1", []string{`"timing.b"`, "line 2"}},
		{"text for a number", "[timing]\niters = \"many\"", []string{`timing.iters: must be a whole number, not the text "many"`, "line 2"}},
		{"fraction for a number", "[timing]\niters = 1.5", []string{"must be a whole number, not the number 1.5"}},
		{"huge number", "[timing]\niters = 99999999999", []string{"timing.iters: 99999999999 is out of range"}},
		{"number for a text", "[run]\ndevice = 3", []string{"run.device: must be a text, not the whole number 3"}},
		{"number for a truth", "[run]\nshare_gpu = 1", []string{"run.share_gpu: must be true or false, not the whole number 1"}},
		{"truth for a number", "[sweep]\nfactor = true", []string{"sweep.factor: must be a number, not true"}},
		{"list for a text", "[run]\ndevice = [\"sim\"]", []string{"must be a text, not a list"}},
		{"number in a list", "[run]\nmode = [\n\"ring\",\n3]", []string{"run.mode: must be a name or a list of names", "the list has the whole number 3", "line 2"}},
		{"table for a list", "[run]\nmode = { a = 3 }", []string{"must be a name or a list of names, not a table"}},
		{"date", "[nvls]\nstaging = 1979-05-27", []string{"nvls.staging: must be a size", "not a date"}},
		{"not a size", "[nvls]\nstaging = \"32Q\"", []string{`nvls.staging: not a size: "32Q"`, "1.5G", "line 2"}},
		{"negative size", "[sweep]\nmin_bytes = -4", []string{"sweep.min_bytes: a size cannot be negative"}},
		{"absurd size", "[sweep]\nmax_bytes = \"2000G\"", []string{"sweep.max_bytes", "more than the largest size, 1024G"}},
		{"duration without a unit", "[bootstrap]\ntimeout = 30", []string{`bootstrap.timeout: must be a duration in quotes, as "30s", not the whole number 30`}},
		{"bad duration", "[bootstrap]\ntimeout = \"30 sec\"", []string{`not a duration: "30 sec"`, `"2m"`}},
		{"syntax", "[run]\nmode = ", []string{"not valid TOML", "line 2 column"}},
		{"twice", "[run]\nop = \"sum\"\nop = \"max\"", []string{"not valid TOML", "line 3", "already been defined"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text)
			_, err := Load(path)
			if failure.CodeOf(err) != failure.Usage {
				t.Fatalf("no usage failure: %v", err)
			}
			for _, w := range append(tt.want, path) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is missing in: %v", w, err)
				}
			}
		})
	}
}

func TestLoadNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"quikc":                 `nearest preset is "quick"`,
		"./quick":               "no such file",
		dir + "/missing.toml":   "no such file",
		dir:                     "it is a folder",
		big:                     "more than 1048576 bytes",
		"quick.toml":            "no such file", // the suffix says file
		"nvls-zero-copy-please": `nearest preset is "nvls-zero-copy"`,
	} {
		_, err := Load(name)
		if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): %v; want %q", name, err, want)
		}
	}
	// A file whose name is no preset's needs no suffix.
	if err := os.WriteFile("site", []byte("timing.iters = 9"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load("site"); err != nil || c.Timing.Iters != 9 {
		t.Errorf("Load(site): %v", err)
	}
}

func TestLayers(t *testing.T) {
	flag := func(key string, v any) Setting { return Setting{key, v, "flag"} }
	for _, tt := range []struct {
		name   string
		file   string
		flags  []Setting
		step   Size
		factor float64
	}{
		{"defaults", "", nil, 0, 2},
		{"step alone", "", []Setting{flag("sweep.step_bytes", "1M")}, 1 << 20, 1},
		{"both", "", []Setting{flag("sweep.step_bytes", "1M"), flag("sweep.factor", 4.0)}, 1 << 20, 4},
		{"factor over a step", "sweep.step_bytes = \"1M\"", []Setting{flag("sweep.factor", 4.0)}, 0, 4},
		{"step over a factor", "sweep.factor = 4", []Setting{flag("sweep.step_bytes", Size(8))}, 8, 1},
		{"neither", "sweep.step_bytes = \"1M\"", []Setting{flag("timing.iters", 3)}, 1 << 20, 1},
		{"factor off keeps the step", "sweep.step_bytes = \"1M\"", []Setting{flag("sweep.factor", 1.0)}, 1 << 20, 1},
	} {
		c, err := Load(write(t, tt.file))
		if err == nil {
			err = c.Apply(tt.flags)
		}
		if err != nil || c.Sweep.StepBytes != tt.step || c.Sweep.Factor != tt.factor {
			t.Errorf("%s: %+v, %v; want step %v factor %v", tt.name, c.Sweep, err, tt.step, tt.factor)
		}
	}
	if err := Default().Apply([]Setting{flag("timing.itres", 3)}); failure.CodeOf(err) != failure.Usage {
		t.Errorf("unknown key: %v", err)
	}
}

// TestRoundTrip writes configurations of every value and reads them back.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		for _, k := range keys {
			if rapid.Bool().Draw(t, k.String()+" is set") {
				k.field(c).Set(drawValue(t, k))
			}
		}
		if err := os.WriteFile(path, []byte(c.TOML()), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.TOML())
		}
		// The rule of step and factor belongs to layers, not to the format:
		// the text has both keys.
		if diff := cmp.Diff(c, got, ignoreOrigins, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-written +read):\n%s\n%s", diff, c.TOML())
		}
		if c.Hash() != got.Hash() {
			t.Fatal("hashes differ")
		}
	})
}

func drawValue(t *rapid.T, k key) reflect.Value {
	text := rapid.String()
	var v any
	switch k.field(Default()).Interface().(type) {
	case string:
		v = text.Draw(t, k.String())
	case bool:
		v = rapid.Bool().Draw(t, k.String())
	case int:
		v = int(rapid.Int32().Draw(t, k.String()))
	case float64:
		v = rapid.Float64().Draw(t, k.String())
	case Size:
		v = drawSize(t, k.String())
	case time.Duration:
		v = time.Duration(rapid.Int64().Draw(t, k.String()))
	case []string:
		v = rapid.SliceOf(rapid.StringMatching(`[a-z0-9-]+`)).Draw(t, k.String())
	}
	return reflect.ValueOf(v)
}

func FuzzLoad(f *testing.F) {
	for _, name := range Presets() {
		text, err := presets.ReadFile(name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("run = {mode = [\"ring\", 3], op = 5}")
	f.Add("[[sweep]]\nmin_bytes = 1e9")
	f.Add("a.b.c = [{x = 1979-05-27}]")
	f.Fuzz(func(t *testing.T, text string) {
		layer, err := parse(text, "fuzz.toml")
		c := Default()
		if err == nil {
			err = c.Apply(layer)
		}
		if err != nil {
			if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), "fuzz.toml") {
				t.Fatalf("not a usage failure that names the file: %v", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			if failure.CodeOf(err) != failure.Usage {
				t.Fatalf("not a usage failure: %v", err)
			}
			return
		}
		for _, d := range c.DTypes() {
			sizes := c.Sizes(d.Size())
			if len(sizes) == 0 || len(sizes) > maxRows || sizes[len(sizes)-1] > uint64(c.Sweep.MaxBytes) {
				t.Fatalf("%d sizes of %v from %+v", len(sizes), d, c.Sweep)
			}
		}
		again, err := parse(c.TOML(), "again.toml")
		d := Default()
		if err == nil {
			err = d.Apply(again)
		}
		if err != nil || d.Canonical() != c.Canonical() {
			t.Fatalf("written and read again: %v\n%s", err, c.TOML())
		}
	})
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

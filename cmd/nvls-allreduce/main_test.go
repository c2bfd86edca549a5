package main

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){program: main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			repo, err := filepath.Abs("../..")
			env.Setenv("REPO", repo)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"to-full": toFull,
		},
	})
}

// exits runs a command line of the program and compares the exit code, which
// exec and ! exec do not tell: exits 6 --foo.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits CODE [args]")
	}
	err := ts.Exec(program, args[1:]...)
	code := "0"
	if err != nil {
		_, code, _ = strings.Cut(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s (%v), want %s", code, err, args[0])
	}
}

// toFull runs a command line with standard output on a full device: its exit code is
// the first argument, and standard error says what could not be written.
func toFull(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: to-full CODE [args]")
	}
	script := "\"$@\" >/dev/full; code=$?; test $code = " + args[0] + " || { echo exit code $code >&2; exit 1; }"
	if err := ts.Exec("sh", append([]string{"-c", script, "sh", program}, args[1:]...)...); err != nil {
		ts.Fatalf("%v", err)
	}
	if said := ts.ReadFile("stderr"); !strings.Contains(said, "cannot write") || !strings.Contains(said, "no space left on device") {
		ts.Fatalf("nothing of it on standard error: %s", said)
	}
}

// TestFlagsMatchKeys holds the flags to the keys: each names an existing key,
// no two the same, and both commands take the same flags.
func TestFlagsMatchKeys(t *testing.T) {
	known := map[string]bool{}
	for _, k := range configs.Keys() {
		known[k] = true
	}
	parser, err := kong.New(&struct {
		Flags flags `embed:""`
	}{}, kong.Vars{"presets": "", "modes": "", "dtypes": "", "ops": "", "maxNP": ""})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range parser.Model.Flags {
		key := f.Tag.Get("key")
		switch {
		case key == "" && (f.Name == "help" || f.Name == "config" || f.Name == "np"):
		case !known[key]:
			t.Errorf("--%s sets the unknown key %q", f.Name, key)
		case seen[key]:
			t.Errorf("two flags set %s", key)
		}
		seen[key] = true
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if other := strings.Map(swapDash, name); other != name && !hasName(f, other) {
				t.Errorf("--%s is not accepted as --%s", name, other)
			}
		}
	}
}

func swapDash(r rune) rune {
	switch r {
	case '-':
		return '_'
	case '_':
		return '-'
	}
	return r
}

func hasName(f *kong.Flag, name string) bool {
	for _, n := range append([]string{f.Name}, f.Aliases...) {
		if n == name {
			return true
		}
	}
	return false
}

func TestWriteVersion(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}}
	var b bytes.Buffer
	if err := writeVersion(&b, info); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nvls-allreduce v1.2.3\n", "commit: abc123 with uncommitted changes\n", "commit time: 2026-01-02T03:04:05Z\n", "go: go1.26.0 "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &b)
		}
	}
	b.Reset()
	if err := writeVersion(&b, &debug.BuildInfo{}); err != nil || !strings.Contains(b.String(), "commit: unknown\n") {
		t.Errorf("without version control: %v\n%s", err, &b)
	}
}

// TestRunIsSelfContained runs command lines in this process: run may neither
// exit nor write to the process's own streams.
func TestRunIsSelfContained(t *testing.T) {
	for _, tt := range []struct {
		args           string
		code           failure.Code
		stdout, stderr string
	}{
		{"--help", failure.OK, "Exit codes:", ""},
		{"run --help", failure.OK, "--minbytes", ""},
		{"config -n 7", failure.OK, "iters = 7", ""},
		{"--foo", failure.Usage, "", "unknown flag --foo"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), strings.Fields(tt.args), nil, &stdout, &stderr)
		if code != int(tt.code) || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: code %d, stdout:\n%s\nstderr:\n%s", tt.args, code, &stdout, &stderr)
		}
		if (tt.stderr == "") != (stderr.Len() == 0) || (tt.stdout == "") != (stdout.Len() == 0) {
			t.Errorf("%s: wrote to the wrong stream", tt.args)
		}
	}
}

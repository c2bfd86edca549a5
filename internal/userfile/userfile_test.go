//go:build linux

package userfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("good"), []byte("text"), 0o600))
	must(t, os.WriteFile(path("long"), make([]byte, 101), 0o600))
	must(t, syscall.Mkfifo(path("pipe"), 0o600))
	must(t, os.Symlink("good", path("link")))
	must(t, os.Symlink("/dev/zero", path("zero")))
	for _, tt := range []struct{ name, want string }{
		{path("good"), ""},
		{path("link"), ""},
		{path("long"), "more than 100 bytes"},
		{path("pipe"), "a pipe"},
		{dir, "a folder"},
		{"/dev/zero", "a device"},
		{path("zero"), "a device"},
		{path("none"), "no such file"},
		// A file of /proc has size 0 and any number of bytes.
		{"/proc/self/status", "more than 100 bytes"},
	} {
		start := time.Now()
		b, err := Read(tt.name, 100)
		switch {
		case tt.want == "" && (err != nil || string(b) != "text"):
			t.Errorf("%s: %q, %v", tt.name, b, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: it took %v", tt.name, took)
		}
	}
}

// A reader of TOML takes minutes for some hundred kilobytes of these.
func TestCheckTOML(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		line string // "" where the text is fine
	}{
		"key":      {"x = 1\n" + strings.Repeat("a.", 100_000) + "a = 1\n", "line 2"},
		"header":   {"[" + strings.Repeat("a.", 100_000) + "a]\n", "line 1"},
		"list":     {"a = " + strings.Repeat("[", 1000), "line 1"},
		"lines":    {"a = " + strings.Repeat("[\n", 1000), "line 65"},
		"inline":   {"a = " + strings.Repeat("{b=", 1000), "line 1"},
		"text":     {"a = \"" + strings.Repeat(".", 1000) + "\\\"[\"\nb = '" + strings.Repeat("[", 1000) + "'\n", ""},
		"comment":  {"# " + strings.Repeat(".[", 1000) + "\n", ""},
		"siblings": {strings.Repeat("[[a.b]]\nc = [1.5, 2.5]\n", 1000), ""},
	} {
		err := CheckTOML(tt.text)
		if (err == nil) != (tt.line == "") || err != nil && !strings.HasPrefix(err.Error(), tt.line+" ") {
			t.Errorf("%s: %v, want %q", name, err, tt.line)
		}
	}
}

// A log may come through a pipe. One to which nobody writes ends at once.
func TestOpenStream(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	f, err := OpenStream(pipe)
	must(t, err)
	b, err := io.ReadAll(f)
	if len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	must(t, err)
	f.Close()
	if f, err = OpenStream(fmt.Sprintf("/proc/self/fd/%d", w.Fd())); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		w.WriteString("late")
		w.Close()
	}()
	if b, err = io.ReadAll(f); string(b) != "late" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	f.Close()
	for _, name := range []string{"/dev/zero", filepath.Dir(pipe)} {
		if f, err := OpenStream(name); err == nil || !strings.Contains(err.Error(), "not a file or a pipe") {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

func TestSame(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(path("a"), nil, 0o600))
	must(t, os.WriteFile(path("b"), nil, 0o600))
	must(t, os.Link(path("a"), path("hard")))
	must(t, os.Symlink("a", path("soft")))
	must(t, os.Symlink("new", path("early"))) // to a file that is not there yet
	must(t, os.Symlink("early", path("earlier")))
	must(t, os.Symlink("loop", path("loop")))
	must(t, os.Mkdir(path("folder"), 0o700))
	must(t, os.Symlink("folder", path("alias")))
	t.Chdir(dir)
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"a", path("a"), true},
		{"a", "./folder/../a", true},
		{"a", "b", false},
		{"a", "hard", true},
		{"soft", "hard", true},
		{"new", "early", true},
		{"earlier", path("new"), true},
		{"new", "newer", false},
		{"folder/new", "alias/new", true},
		{"folder/new", "alias/../new", false},
		{"loop", "new", false},
		{"a", "new", false},
		{"missing/x", "missing/x", true},
	} {
		if got := Same(tt.a, tt.b); got != tt.same {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
		if got := Same(tt.b, tt.a); got != tt.same {
			t.Errorf("%s and %s: %v", tt.b, tt.a, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

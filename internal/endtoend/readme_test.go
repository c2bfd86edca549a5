//go:build linux

package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// readme gives the lines of README.md's indented blocks, and its Go program.
func readme(t *testing.T) (lines []string, program string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(readFile(t, "../../README.md")) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside:
			program += line
		case strings.HasPrefix(line, "    "):
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, program
}

// Every command of the README works as it is written, from the root of a clone
// that was built. Those that need GPUs or a launcher are at least well-formed.
func TestReadmeCommands(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// A clone: what the commands read is copied, for one of them draws anew a
	// picture that is there.
	clone := t.TempDir()
	for _, dir := range []string{"results", "bin", "docs"} {
		if err := os.Mkdir(filepath.Join(clone, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{program: "bin/nvls-allreduce", repo + "/internal": "internal", repo + "/docs/examples": "docs/examples"} {
		if err := os.Symlink(from, filepath.Join(clone, to)); err != nil {
			t.Fatal(err)
		}
	}
	bare, ran := regexp.MustCompile(`(^|[ ;|&])nvls-allreduce\b`), 0
	lines, _ := readme(t)
	for _, line := range lines {
		if strings.HasPrefix(line, "#") { // output
			continue
		}
		if bare.MatchString(line) {
			t.Errorf("the program is not on PATH: %s", line)
		}
		before, args, ok := strings.Cut(line, "bin/nvls-allreduce ")
		if !ok || strings.HasPrefix(line, "make ") {
			continue
		}
		onGPUs := !slices.ContainsFunc([]string{"import ", "plot ", "compare ", "report ", "--np 4 --device sim "}, func(s string) bool { return strings.HasPrefix(args, s) })
		switch {
		case !onGPUs && before == "":
		case strings.HasPrefix(args, "doctor "):
			line = "bin/nvls-allreduce config " + strings.TrimPrefix(args, "doctor ")
		default:
			line = "bin/nvls-allreduce config " + regexp.MustCompile(`--np \d+ `).ReplaceAllString(args, "")
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = clone, programtest.Environ(nil)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		ran++
	}
	if ran < 9 {
		t.Errorf("%d commands in the README", ran)
	}
	for _, file := range []string{"results/result.json", "results/theirs.json", "docs/thread.svg", "results/report/report.html"} {
		if _, err := os.Stat(filepath.Join(clone, file)); err != nil {
			t.Error(err)
		}
	}
}

// The README's program compiles outside the module, and reduces: here little, on the
// software device.
func TestReadmeProgram(t *testing.T) {
	_, source := readme(t)
	for old, smaller := range map[string]string{`Device: "cuda"`: `Device: "sim"`, "1<<30": "1<<20", "1 << 29": "1 << 19", "1 << 28": "1 << 8"} {
		if !strings.Contains(source, old) {
			t.Fatalf("no %s in the program", old)
		}
		source = strings.ReplaceAll(source, old, smaller)
	}
	exe, _ := buildOutside(t, source)
	cmd := exec.Command(exe)
	cmd.Env = programtest.Environ(nil)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

//go:build linux

package mpiboot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

func TestOutsideID(t *testing.T) {
	for _, tt := range []struct {
		text    string
		id      int
		outside int
		mapped  bool
	}{
		{"         0          0 4294967295\n", 1000, 1000, true},
		{"         0       1234          1\n", 0, 1234, true},
		{"         0       1234          1\n", 1, 0, false},
		{"0 1000 1\n1 100000 65536\n", 7, 100006, true},
		{"", 65534, 0, false},
	} {
		if outside, mapped := outsideID(tt.text, tt.id); outside != tt.outside || mapped != tt.mapped {
			t.Errorf("%q of %d: %d, %v", tt.text, tt.id, outside, mapped)
		}
	}
}

// Whose parent the launcher is, and in which namespace of users it is, as a /proc
// of files shows it.
func TestLauncherOutside(t *testing.T) {
	for _, tt := range []struct {
		name     string
		comm, ns string // of process 7, the rank's grandparent
		want     bool
	}{
		{"a launcher outside", "mpirun", "user:[1]", true},
		{"a launcher inside", "mpirun.openmpi", "user:[2]", false},
		{"no launcher", "bash", "user:[1]", false},
	} {
		proc := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			path := filepath.Join(proc, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("9/stat", "9 (a ) name) S 8 9 9 0")
		write("8/stat", "8 (unshare) S 7 8 8 0")
		write("7/stat", "7 (x) S 1 7 7 0")
		write("1/stat", "1 (init) S 0 1 1 0")
		write("8/comm", "unshare\n")
		write("7/comm", tt.comm+"\n")
		write("1/comm", "systemd\n")
		for dir, ns := range map[string]string{"self": "user:[2]", "8": "user:[2]", "7": tt.ns, "1": "user:[1]"} {
			if err := os.MkdirAll(filepath.Join(proc, dir, "ns"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(ns, filepath.Join(proc, dir, "ns/user")); err != nil {
				t.Fatal(err)
			}
		}
		if got := launcherOutside(proc, 9); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if launcherOutside(filepath.Join(t.TempDir(), "none"), 9) {
		t.Error("what cannot be read is no reason to refuse")
	}
}

// A rank whose user namespace gives it no number: MPI_Init would fail, and mpirun
// not end. Before, this test ran into its deadline.
func TestRankWithoutUser(t *testing.T) {
	slurmtest.Require(t, "util-linux", "unshare")
	if out, err := exec.Command("unshare", "-U", "true").CombinedOutput(); err != nil {
		t.Skipf("this kernel does not let users make namespaces: %v: %s", err, out)
	}
	s := starters[0]
	slurmtest.Require(t, s.pkg, s.bin)
	code, out := run(t, exec.Command(s.bin, append(append([]string{}, s.args...), "-np", "2", "unshare", "-U", os.Args[0], rankProgram, "hello")...))
	if code != 3 || !strings.Contains(out, "would not recognise this rank") || !strings.Contains(out, "PMIX_MCA_psec=none") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// And that way out is one.
	code, out = run(t, exec.Command(s.bin, append(append([]string{}, s.args...), "-np", "2", "unshare", "-U", os.Args[0], rankProgram, "hello")...), envPMIxSecurity+"=none")
	if code != 0 {
		t.Errorf("with %s=none: exit code %d\n%s", envPMIxSecurity, code, out)
	}
}

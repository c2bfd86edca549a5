//go:build linux

package slurmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// EnvRequire set to "all" turns the skip of a test that lacks a program into a
// failure. Continuous integration sets it, so that no test is lost unseen.
const EnvRequire = "NVLS_ALLREDUCE_REQUIRE"

// Require skips the test, by the name of the Debian package to install, unless
// every program is there. A program may be given by path.
func Require(t testing.TB, debianPackage string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := find(p); err != nil {
			Lack(t, debianPackage, p)
		}
	}
}

// RequireFile is Require for files that are not programs, such as plug-ins;
// the pattern is that of filepath.Glob.
func RequireFile(t testing.TB, debianPackage, pattern string) {
	t.Helper()
	if found, _ := filepath.Glob(pattern); len(found) == 0 {
		Lack(t, debianPackage, pattern)
	}
}

// Lack skips the test because something of a Debian package is missing.
func Lack(t testing.TB, debianPackage, what string) {
	t.Helper()
	Skip(t, fmt.Sprintf("%s is missing (Debian package %s)", what, debianPackage))
}

// Skip skips the test for a reason that lies in this machine, or fails it where
// nothing may be left out.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(EnvRequire) == "all" {
		t.Fatalf("%s, and %s=all forbids to skip", reason, EnvRequire)
	}
	t.Skip(reason)
}

// find looks in PATH and where Debian keeps daemons, which is not in the PATH
// of a user.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", program))
}

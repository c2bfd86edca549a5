//go:build linux

package containertest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// Bubblewrap is the beginning of a command line that runs a program with a user
// namespace of its own, the host's files read-only but for /tmp and dir, and the
// given further options of bwrap. It skips the test where these are not
// permitted.
func Bubblewrap(t testing.TB, dir string, options ...string) []string {
	t.Helper()
	slurmtest.Require(t, "bubblewrap", "bwrap")
	argv := []string{"bwrap", "--unshare-user", "--die-with-parent", "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--bind", "/tmp", "/tmp"}
	argv = append(argv, options...)
	// After a private /tmp, in which it may lie.
	argv = append(argv, "--bind", dir, dir)
	cmd := exec.Command(argv[0], append(argv[1:], "true")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		slurmtest.Skip(t, "bwrap "+strings.Join(options, " ")+" is not permitted here: "+strings.TrimSpace(string(out)))
	}
	return argv
}

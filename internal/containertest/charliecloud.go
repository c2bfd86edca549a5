//go:build linux

package containertest

import (
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// ChRun is the beginning of a command line that runs a program in a container of
// the image: with user and mount namespaces of its own, and /tmp, /dev, /proc
// and /sys of the host. The program under test is in its PATH. Options are
// further ones of ch-run.
func ChRun(t testing.TB, image, program string, options ...string) []string {
	t.Helper()
	slurmtest.Require(t, "charliecloud-runtime", "ch-run")
	requireUserNamespaces(t)
	argv := []string{"ch-run", "--bind", program + ":" + Program, "--bind", hosts, "--set-env=PATH=/usr/local/bin:/usr/bin:/bin"}
	return append(append(argv, options...), image, "--")
}

// Environ is the environment for ch-run, which wants to know the user's name.
func Environ() []string {
	env := programtest.Environ(nil)
	if me, err := user.Current(); err == nil && os.Getenv("USER") == "" {
		env = append(env, "USER="+me.Username)
	}
	return env
}

// requireUserNamespaces skips the test where the kernel or a policy refuses them.
func requireUserNamespaces(t testing.TB) {
	t.Helper()
	slurmtest.Require(t, "util-linux", "unshare")
	out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput()
	if err != nil {
		slurmtest.Skip(t, "user namespaces are not permitted here: unshare --user --mount: "+err.Error()+": "+strings.TrimSpace(string(out)))
	}
}

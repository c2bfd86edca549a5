//go:build linux

package containertest

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

//go:embed testdata/apptainer.sh
var standIn []byte

// Apptainer gives the path of a program that stands for apptainer in a batch
// script, and what must be in its environment. Its image is a folder that Image
// gave, in which program is the one under test.
func Apptainer(t testing.TB, program string) (path string, env []string) {
	t.Helper()
	slurmtest.Require(t, "charliecloud-runtime", "ch-run")
	requireUserNamespaces(t)
	path = filepath.Join(t.TempDir(), "apptainer")
	if err := os.WriteFile(path, standIn, 0o755); err != nil {
		t.Fatal(err)
	}
	return path, []string{"STAND_IN_PROGRAM=" + program}
}

//go:build linux

package soak

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// launcher starts ranks.
type launcher struct {
	name string
	np   int
	mpi  bool // the ranks meet in MPI
	// command prepares the words; it skips or fails the test where the launcher is
	// not installed.
	words func(t *testing.T, np int) []string
	env   []string
	// kills says that the launcher kills all ranks as soon as one is gone, before
	// they can speak; what is said then is the launcher's.
	kills bool
	fewer bool // only kill and stop
}

func (l launcher) command(t *testing.T, argv []string) []string {
	if l.words == nil && argv[0] == "/bin/sh" {
		// The own launcher starts only itself: what it does, by hand.
		return append([]string{"/bin/sh", "-c", `pids=; for r in 0 1 2; do NVLS_ALLREDUCE_RANK=$r "$@" & pids="$pids $!"; done; code=0
for p in $pids; do wait $p || code=$?; done; exit $code`, "sh"}, argv...)
	}
	if l.words == nil {
		return append([]string{argv[0], "--np", fmt.Sprint(l.np)}, argv[1:]...)
	}
	return append(l.words(t, l.np), argv...)
}

// environ is the test's environment without what steers the program.
func (l launcher) environ() []string {
	env := l.env
	if env == nil {
		env = os.Environ()
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return slices.ContainsFunc([]string{"NVLS_ALLREDUCE_", "NCCL_NVLS_ENABLE=", "TORCH_SYMM_MEM_DISABLE_MULTICAST=", "NVSHMEM_DISABLE_NVLS="},
			func(s string) bool { return strings.HasPrefix(kv, s) })
	})
}

var (
	local   = launcher{name: "own", np: 3}
	openMPI = launcher{name: "Open MPI", np: 3, mpi: true, words: func(t *testing.T, np int) []string {
		slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
		return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(np)}
	}}
	mpich = launcher{name: "MPICH", np: 3, mpi: true, kills: true, words: func(t *testing.T, np int) []string {
		slurmtest.Require(t, "mpich", "mpiexec.mpich")
		return []string{"mpiexec.mpich", "-np", fmt.Sprint(np)}
	}}
)

// slurm is srun in a cluster that the test started. Two ranks, so that more jobs
// fit its 8 processors.
func slurm(t *testing.T, c *slurmtest.Cluster, mpi string) launcher {
	c.RequireMPI(t, mpi)
	cmd := c.Command(t.Context(), "srun", "-n", "2", "--mpi="+mpi, "--kill-on-bad-exit=1")
	return launcher{name: "srun " + mpi, np: 2, mpi: true, kills: true, env: cmd.Env, words: func(*testing.T, int) []string { return slices.Clone(cmd.Args) }}
}

//go:build linux

package soak

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// launcher starts ranks.
type launcher struct {
	name string
	np   int
	mpi  bool // the ranks meet in MPI
	// words begin the command line; nil: the program is its own launcher. They skip
	// or fail the test where the launcher is not installed.
	words func(t *testing.T, np int) []string
	env   []string
	// kills says that the launcher kills all ranks as soon as one is gone, before
	// they can speak; what is said then is the launcher's.
	kills bool
	// remote says that ranks are not children of the launcher.
	remote   bool
	killWait time.Duration // Slurm's
	// width is how many jobs of it run at a time in a whole soak.
	width int
}

// command is the command line of a job. The words around surround the ranks.
func (l launcher) command(t *testing.T, around, argv []string) []string {
	var begin []string
	switch {
	case l.words != nil:
		begin = l.words(t, l.np)
	case argv[0] != "/bin/sh":
		argv = slices.Concat(argv[:1], []string{"--np", fmt.Sprint(l.np)}, argv[1:])
	default:
		// The own launcher starts only itself: what it does, by hand.
		begin = []string{"/bin/sh", "-c", `pids=; for r in 0 1 2; do NVLS_ALLREDUCE_RANK=$r "$@" & pids="$pids $!"; done; code=0
for p in $pids; do wait $p || code=$?; done; exit $code`, "sh"}
	}
	if l.remote {
		return slices.Concat(begin, around, argv)
	}
	return slices.Concat(around, begin, argv)
}

// twoPrograms makes one rank run another program than argv[0].
func (l launcher) twoPrograms(argv []string, other string, rank int) []string {
	const script = `r=${NVLS_ALLREDUCE_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}}; s=$1; o=$2; shift 2; [ "$r" != "$o" ] || { shift; set -- "$s" "$@"; }; exec "$@"`
	return slices.Concat([]string{"/bin/sh", "-c", script, "sh", other, fmt.Sprint(rank)}, argv)
}

var (
	local   = launcher{name: "own", np: 3, width: 3}
	openMPI = launcher{name: "Open MPI", np: 3, width: 3, mpi: true, words: func(t *testing.T, np int) []string {
		slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
		return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(np)}
	}}
	mpich = launcher{name: "MPICH", np: 3, width: 3, mpi: true, kills: true, words: func(t *testing.T, np int) []string {
		slurmtest.Require(t, "mpich", "mpiexec.mpich")
		return []string{"mpiexec.mpich", "-np", fmt.Sprint(np)}
	}}
)

// slurm is srun in a cluster that the test started. Two ranks, so that the jobs of
// two of these fit its 8 processors.
func slurm(t *testing.T, c *slurmtest.Cluster, mpi string) launcher {
	c.RequireMPI(t, mpi)
	cmd := c.Command(t.Context(), "srun", "-n", "2", "--mpi="+mpi, "--kill-on-bad-exit=1")
	return launcher{name: "srun " + mpi, np: 2, width: 2, mpi: true, kills: true, remote: true, killWait: c.KillWait, env: cmd.Env, words: func(*testing.T, int) []string { return slices.Clone(cmd.Args) }}
}

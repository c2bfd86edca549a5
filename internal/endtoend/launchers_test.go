//go:build linux

package endtoend

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// launcher starts ranks.
type launcher struct {
	name string // in results
	// command prepares np ranks of a program. It skips the test where the
	// launcher is not installed.
	command func(t *testing.T, np int, argv []string) *exec.Cmd
	// terminate ends a job as its user or batch system would; nil: by SIGTERM to
	// the launcher.
	terminate func(t *testing.T)
	// terminated are the exit codes after that, and killed those after SIGKILL to
	// one rank. MPI launchers make their own of it.
	terminated, killed []int
	// outlives says that ranks survive the death of one long enough to speak.
	outlives bool
}

// Ranks of the test may run as root and be more than the cores.
var (
	local = launcher{name: "local", terminated: []int{143}, killed: []int{137}, outlives: true,
		command: func(t *testing.T, np int, argv []string) *exec.Cmd {
			return exec.Command(argv[0], append([]string{"--np", fmt.Sprint(np)}, argv[1:]...)...)
		}}
	openMPI = launcher{name: "openmpi", terminated: []int{143, 1}, killed: []int{137, 1}, outlives: true,
		command: func(t *testing.T, np int, argv []string) *exec.Cmd {
			slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
			return exec.Command("mpirun.openmpi", append([]string{"--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(np)}, argv...)...)
		}}
	// Hydra kills every rank at once when one dies by a signal.
	mpich = launcher{name: "mpich", terminated: []int{143, 9, 15, 0}, killed: []int{9, 137},
		command: func(t *testing.T, np int, argv []string) *exec.Cmd {
			slurmtest.Require(t, "mpich", "mpiexec.mpich")
			return exec.Command("mpiexec.mpich", append([]string{"-np", fmt.Sprint(np)}, argv...)...)
		}}
	launchers = []launcher{local, openMPI, mpich}
)

// slurm is srun of a cluster that the test started, with one way to find peers.
// It is scancel that gives tasks a SIGTERM, as Slurm does at a time limit; srun
// itself makes a SIGTERM into a SIGKILL.
func slurm(c *slurmtest.Cluster, mpi string) launcher {
	return launcher{name: "slurm", terminated: []int{143}, killed: []int{137, 1},
		terminate: func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			if out, err := c.Command(ctx, "scancel", "--partition=test", "--full").CombinedOutput(); err != nil {
				t.Fatalf("scancel: %v\n%s", err, out)
			}
		},
		command: func(t *testing.T, np int, argv []string) *exec.Cmd {
			c.RequireMPI(t, mpi)
			return c.Command(context.Background(), "srun", append([]string{"-n", fmt.Sprint(np), "--mpi=" + mpi, "--kill-on-bad-exit=1"}, argv...)...)
		}}
}

// each runs a test under every launcher that needs no daemon.
func each(t *testing.T, f func(t *testing.T, l launcher)) {
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) { f(t, l) })
	}
}

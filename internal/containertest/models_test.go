//go:build linux

package containertest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// apart runs the program and notes the container's user namespace.
func apart(dir string) []string {
	return []string{"/bin/sh", "-c", `readlink /proc/self/ns/user >"` + dir + `/ns.$$" && exec nvls-allreduce "$@"`, "sh"}
}

// namespaces counts the user namespaces that apart noted.
func namespaces(t *testing.T, dir string) int {
	t.Helper()
	notes, _ := filepath.Glob(filepath.Join(dir, "ns.*"))
	seen := map[string]bool{}
	for _, n := range notes {
		seen[read(t, n)] = true
	}
	return len(seen)
}

// One container, which starts its own ranks.
func TestSingle(t *testing.T) {
	dir := shared(t)
	argv := append(ChRun(t, Image(t, definition, "none"), program), "nvls-allreduce")
	run(t, append(argv, allModes(dir, "--np", "3")...)...).want(t, 0)
	right(t, dir, "local", 3)
}

// A container for each rank, with the MPI in the image. Memory of one user
// namespace is mapped in another.
func TestHybrid(t *testing.T) {
	slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
	dir := shared(t)
	argv := append(mpirun(3), ChRun(t, Image(t, definition, "openmpi"), program)...)
	run(t, append(append(argv, apart(dir)...), allModes(dir)...)...).want(t, 0)
	right(t, dir, "openmpi", 3)
	if n := namespaces(t, dir); n != 3 {
		t.Errorf("%d user namespaces, want 3", n)
	}
}

// A container for each rank, with the MPI of the host.
func TestBind(t *testing.T) {
	slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
	dir, mpi := shared(t), HostOpenMPI(t)
	argv := append(mpirun(3), ChRun(t, Image(t, definition, "none"), program,
		"--set-env=MPI_DIR="+mpi, "--set-env=OPAL_PREFIX="+mpi, "--set-env=LD_LIBRARY_PATH="+mpi+"/lib")...)
	run(t, append(append(argv, apart(dir)...), allModes(dir)...)...).want(t, 0)
	r := right(t, dir, "openmpi", 3)
	if !strings.Contains(r.MPI, mpi) {
		t.Errorf("MPI is %s, want the one of %s", r.MPI, mpi)
	}
	if n := namespaces(t, dir); n != 3 {
		t.Errorf("%d user namespaces, want 3", n)
	}
}

// Neither in the image nor bound: the run and the doctor say so.
func TestNoMPI(t *testing.T) {
	slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
	begin := append(mpirun(2), append(ChRun(t, Image(t, definition, "none"), program), "nvls-allreduce")...)
	run(t, append(begin, "--device", "sim")...).want(t, 3, "cannot open an MPI library for the openmpi launcher", "libmpi.so.40", "bind the library into the container")
	run(t, append(begin, "doctor", "--device", "sim")...).want(t, 3, "bind the library into the container")
}

// The image's MPI is of another family than the host's launcher: without a check
// there would be two worlds of one.
func TestMismatch(t *testing.T) {
	slurmtest.Require(t, "mpich", "mpiexec.mpich")
	begin := append([]string{"mpiexec.mpich", "-np", "2"}, append(ChRun(t, Image(t, definition, "openmpi"), program), "nvls-allreduce")...)
	o := run(t, append(begin, "--device", "sim")...)
	if o.exit == 0 {
		t.Errorf("exit code 0")
	}
	for _, part := range []string{"started 2 ranks", "the MPI library sees a world of 1", "launcher and library do not belong together"} {
		if !strings.Contains(o.out, part) {
			t.Errorf("no %q in\n%s", part, o.out)
		}
	}
}

// A container that drops the launcher's variables makes every rank a world of
// one. Nothing of the launcher is left to see; naming it makes it an error.
func TestCleanEnvironment(t *testing.T) {
	slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
	argv := append(mpirun(2), ChRun(t, Image(t, definition, "openmpi"), program, "--unset-env=OMPI_*", "--unset-env=PMIX_*", "--unset-env=PRTE_*")...)
	o := run(t, append(argv, "nvls-allreduce", "--device", "sim", "--launcher", "openmpi")...)
	o.want(t, 6, `launcher "openmpi" was asked for, but it did not start this process`, "keep the environment")
}

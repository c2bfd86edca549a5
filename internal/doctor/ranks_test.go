//go:build linux

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

func mpich(t *testing.T, np string) []string {
	slurmtest.Require(t, "mpich", "mpiexec.mpich")
	return []string{"mpiexec.mpich", "-np", np}
}

func openMPI(t *testing.T, np string) []string {
	slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
	return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", np}
}

// unshared starts each rank in namespaces of its own. Where the kernel does not
// allow that, the test is skipped.
func unshared(t *testing.T, launcher []string, flags string) []string {
	t.Helper()
	slurmtest.Require(t, "util-linux", "unshare")
	if out, err := exec.Command("unshare", flags, "true").CombinedOutput(); err != nil {
		t.Skipf("this kernel does not let users make namespaces: unshare %s: %v: %s", flags, err, out)
	}
	return append(launcher, "unshare", flags)
}

func TestUnderMPI(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string][]string{"Open MPI's mpirun": openMPI(t, "2"), "MPICH family": mpich(t, "2")} {
		r, code, _ := program{args: []string{"run.device=sim"}, prefix: prefix}.run(t)
		if code != 0 || r.Ranks != 2 {
			t.Errorf("%s: exit code %d, %d ranks", name, code, r.Ranks)
		}
		want(t, find(t, r.Findings, "launcher"), Info, "", name, "one of 2 ranks")
		want(t, find(t, r.Findings, "mpi"), OK, Yes, "MPI")
		want(t, find(t, r.Findings, "descriptors"), OK, Yes, "SCM_RIGHTS", "no IMEX channel")
		if f := find(t, r.Findings, "namespaces"); len(f.Ranks) != 2 {
			t.Errorf("%s: equal findings were not merged: %+v", name, f)
		}
	}
}

// A library that does not belong to the launcher makes every rank a world of its
// own, silently; the doctor says so.
func TestWrongMPILibrary(t *testing.T) {
	t.Parallel()
	mpich(t, "1")
	r, code, stderr := program{args: []string{"run.device=sim", "bootstrap.mpi_library=libmpich.so.12"}, prefix: openMPI(t, "2")}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "do not belong together", "MPICH Version", "libmpi.so.40")
	if code != int(failure.Unavailable) || !strings.Contains(stderr, "rank 1: the doctor could not meet") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if v := verdictOf(t, r, configs.ModeRing); v.Runs != No || v.Because[0] != "ranks" {
		t.Errorf("%+v", v)
	}
	// No library at all.
	r, _, _ = program{args: []string{"run.device=sim", "bootstrap.mpi_library=/nonexistent/libmpi.so"}, prefix: openMPI(t, "2")}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "cannot open an MPI library", "/nonexistent/libmpi.so")
}

// UCX must not open another process's memory file, or MPI itself ends the ranks.
const ucx = "UCX_TLS=^posix,cma"

func TestUserNamespaces(t *testing.T) {
	t.Parallel()
	r, code, stderr := program{args: []string{"run.device=sim"}, environ: []string{ucx}, prefix: unshared(t, mpich(t, "2"), "-r")}.run(t)
	f := find(t, r.Findings, "namespaces.user")
	want(t, f, Warning, "", "different user namespaces", ucx, "of rank 1")
	if len(f.Cost) != 0 || code != 0 {
		t.Errorf("exit code %d, costs %v", code, f.Cost)
	}
	// What is set needs not be said.
	if strings.Contains(stderr, "if MPI ends this process now") {
		t.Errorf("%s is set: %s", ucx, stderr)
	}
}

// Open MPI's launcher does not know a rank whose user namespace gives it no number,
// and waits for itself then; MPI_Init is not called.
func TestRankWithoutUser(t *testing.T) {
	t.Parallel()
	start := time.Now()
	r, code, _ := program{args: []string{"run.device=sim"}, prefix: unshared(t, openMPI(t, "2"), "-U")}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "would not recognise this rank", "/proc/self/uid_map", "PMIX_MCA_psec=none")
	if took := time.Since(start); code != int(failure.Unavailable) || took > 30*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
}

// As process 1 of a namespace a rank has no witness: when MPI breaks it, as Open MPI 4
// does, all processes of the namespace end. Its last words are package mpiboot's.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(unshared(t, openMPI(t, "2"), "-rpf"), self, roleDoctor, "run.device=sim")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, _ := cmd.CombinedOutput() // Open MPI's version decides how it ends
	if ctx.Err() != nil || !strings.Contains(string(out), "process namespace of its own") || !strings.Contains(string(out), vaderRemedy) {
		t.Errorf("%v\n%s", ctx.Err(), out)
	}
}

func TestIPCNamespaces(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, environ: []string{ucx}, prefix: unshared(t, mpich(t, "2"), "-ri")}.run(t)
	want(t, find(t, r.Findings, "namespaces.ipc"), Info, "", "different IPC namespaces")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Open MPI does not start where there is no network interface.
func TestNoInterface(t *testing.T) {
	t.Parallel()
	r, _, _ := program{args: []string{"run.device=sim"}, prefix: unshared(t, openMPI(t, "2"), "-rn")}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "cannot reach its launcher", "a network namespace of its own", "ip link set lo up")
	want(t, find(t, r.Findings, "network"), Warning, No, "no network interface is up")
	want(t, find(t, r.Findings, "launcher"), Info, "", "one of 2 ranks")
	if v := verdictOf(t, r, configs.ModeRing); v.Runs != No || v.Because[0] != "ranks" {
		t.Errorf("%+v", v)
	}
}

// Open MPI ends the ranks inside MPI_Init where it does not reach its launcher; the
// doctor's witness tells.
func TestEndedByMPI(t *testing.T) {
	t.Parallel()
	astray := []string{"sh", "-c", `for v in $(env | grep -o '^PMIX_SERVER_URI[0-9]*'); do export $v='x.0;tcp4://127.0.0.1:1'; done; exec "$0" "$@"`}
	r, _, _ := program{args: []string{"run.device=sim"}, prefix: append(unshared(t, openMPI(t, "2"), "-r"), astray...)}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "ended before MPI_Init returned", "a user namespace of its own", "--np needs no MPI")
	// With few files MPI itself is the first to run out of them.
	few := append(openMPI(t, "2"), "sh", "-c", `ulimit -n 18; exec "$0" "$@"`)
	r, _, stderr := program{args: []string{"run.device=sim"}, prefix: few}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "ended before MPI_Init returned", "only 18 files may be open", "ulimit -n")
	if !strings.Contains(stderr, "only 18 files may be open") {
		t.Errorf("nothing was said beforehand: %s", stderr)
	}
}

func TestProcessNamespaces(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, environ: []string{ucx}, prefix: unshared(t, mpich(t, "2"), "-rpf")}.run(t)
	want(t, find(t, r.Findings, "namespaces.pid"), Info, "", "different process namespaces", vaderRemedy)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// In network namespaces of their own the ranks do not meet over abstract sockets,
// and do over a folder.
func TestNetworkNamespaces(t *testing.T) {
	t.Parallel()
	prefix := unshared(t, mpich(t, "2"), "-rn")
	r, code, _ := program{args: []string{"run.device=sim", "bootstrap.timeout=1s"}, environ: []string{ucx}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "different network namespaces", "rank 1 in net:[", "--socket-dir")
	if !strings.Contains(r.Verdict.Text, "different network namespaces") {
		t.Errorf("the verdict hides the reason: %s", r.Verdict.Text)
	}
	if code != int(failure.Unavailable) {
		t.Errorf("exit code %d", code)
	}
	r, code, _ = program{args: []string{"run.device=sim", "bootstrap.socket_dir=" + t.TempDir()}, environ: []string{ucx}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "namespaces.net"), Info, "", "socket_dir")
	want(t, find(t, r.Findings, "multicast"), OK, Yes)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Containers with host names of their own seem to be several hosts.
func TestHostNames(t *testing.T) {
	t.Parallel()
	prefix := append(unshared(t, mpich(t, "2"), "-ru"), "sh", "-c", `hostname "c$PMI_RANK"; exec "$0" "$@"`)
	r, code, _ := program{args: []string{"run.device=sim"}, environ: []string{ucx}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "share one kernel", "NVLS_ALLREDUCE_HOSTID")
	if code != int(failure.Unavailable) {
		t.Errorf("exit code %d", code)
	}
	want(t, find(t, r.Findings, "launcher.local-size"), Warning, No, "it started 2 ranks on this host, and 1 met", "MPI_LOCALNRANKS=2")
	if f := find(t, r.Findings, "launcher.local-rank"); len(f.Ranks) != 1 || f.Ranks[0] != 1 {
		t.Errorf("rank 1 is local rank 1 for the launcher, and 0 on its host: %+v", f)
	}
	r, code, _ = program{args: []string{"run.device=sim"}, environ: []string{ucx, "NVLS_ALLREDUCE_HOSTID=one"}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "peers"), OK, Yes)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	// Two hosts that are two are told as such.
	r, _, _ = program{args: []string{"run.device=sim"}, prefix: append(mpich(t, "2"), "sh", "-c", `NVLS_ALLREDUCE_HOSTID=h$PMI_RANK exec "$0" "$@"`)}.run(t)
	want(t, find(t, r.Findings, "ranks"), Failed, No, "share one kernel") // for they do: this is one machine
}

// Docker's /dev/shm, or smaller.
func TestSmallSharedMemory(t *testing.T) {
	t.Parallel()
	prefix := append(unshared(t, nil, "-rm"), "sh", "-c", `mount -t tmpfs -o size=1m none /dev/shm && exec "$0" "$@"`)
	r, code, _ := program{args: []string{"run.device=sim"}, prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "shm"), Warning, "", "little shared memory", "--shm-size")
	if code != 0 {
		t.Errorf("this program needs none, and yet: exit code %d", code)
	}
}

// Descriptors that do not pass, because a rank is somewhere else.
func TestDescriptors(t *testing.T) {
	grouptest.Worlds(t, 2, func(w *mpiboot.World) error {
		if w.Rank() == 1 {
			w.Node().Barrier(t.Context(), "somewhere else") // fails, as it must
			return nil
		}
		f := descriptors(t.Context(), w.Node(), "")
		want(t, f, Failed, No, "somewhere else", "rank 1")
		return nil
	})
	grouptest.Worlds(t, 3, func(w *mpiboot.World) error {
		want(t, descriptors(t.Context(), w.Node(), ""), OK, Yes, "3 ranks")
		return nil
	})
}

// A rank that leaves in the middle leaves a report of what was found.
func TestRankLeaves(t *testing.T) {
	t.Parallel()
	id := mpiboot.NewUniqueID()
	environ := func(rank int) []string {
		return []string{fmt.Sprintf("%s=%d", mpiboot.EnvRank, rank), mpiboot.EnvSize + "=2", fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, id)}
	}
	left := make(chan error, 1)
	go func() {
		w, err := mpiboot.Join(t.Context(), mpiboot.Options{Environ: environ(1), Stderr: io.Discard})
		if err == nil {
			go w.Finish(failure.Internal) // it tells the others that it goes
		}
		left <- err
	}()
	var out bytes.Buffer
	code := Main(t.Context(), Options{Config: configs.Default(), JSON: true, System: Host(environ(0)), Stdout: &out, Stderr: io.Discard})
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want(t, find(t, r.Findings, "ranks"), Warning, Unknown, "rank 1")
	if v := verdictOf(t, &r, configs.ModeRing); v.Runs != Unknown || code != failure.Unavailable {
		t.Errorf("exit code %d, %+v", code, v)
	}
}

// Contradicting variables are no launcher.
func TestLauncherVariables(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, environ: []string{"OMPI_COMM_WORLD_RANK=x", "OMPI_COMM_WORLD_SIZE=2"}}.run(t)
	want(t, find(t, r.Findings, "launcher"), Failed, No, `OMPI_COMM_WORLD_RANK="x"`)
	if code != int(failure.Usage) { // as a run
		t.Errorf("exit code %d", code)
	}
	// A launcher that is named is believed.
	r, code, _ = program{args: []string{"run.device=sim", "bootstrap.launcher=none"}, environ: []string{"OMPI_COMM_WORLD_RANK=x", "OMPI_COMM_WORLD_SIZE=2"}}.run(t)
	want(t, find(t, r.Findings, "launcher"), Info, "")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, r.Verdict.Text)
	}
	r, _, _ = program{args: []string{"run.device=sim"}, environ: []string{"SLURM_JOB_ID=7", "SLURM_NTASKS=8"}}.run(t)
	want(t, find(t, r.Findings, "launcher"), Warning, "", "not started by srun", "--np N")
}

// GPUs that the ranks see differently, through the fake libcuda.
func TestRanksAndGPUs(t *testing.T) {
	t.Parallel()
	prefix := append(mpich(t, "2"), "sh", "-c", `CUDA_VISIBLE_DEVICES=$PMI_RANK exec "$0" "$@"`)
	r, code, _ := program{environ: fakeGPUs(t, 2, 2, "FAKECUDA_DEVICES=1"), prefix: prefix}.run(t)
	want(t, find(t, r.Findings, "gpu.visible"), Failed, No, "one GPU", "--gpu-bind=none")
	masked := find(t, r.Findings, "gpu.masked")
	want(t, masked, Warning, No, "hides the others", "unset CUDA_VISIBLE_DEVICES")
	if len(masked.Ranks) != 1 {
		t.Errorf("each rank has a mask of its own, and yet one finding for %v", masked.Ranks)
	}
	want(t, find(t, r.Findings, "peers"), Skipped, Unknown, "gpu.visible")
	if code != int(failure.Unavailable) {
		t.Errorf("exit code %d", code)
	}
	// One rank without any GPU.
	prefix = append(mpich(t, "2"), "sh", "-c", `FAKECUDA_DEVICES=$PMI_RANK exec "$0" "$@"`)
	r, _, _ = program{environ: fakeGPUs(t, 2, 2), prefix: prefix}.run(t)
	f := find(t, r.Findings, "gpu.driver")
	want(t, f, Failed, No, "CUDA_ERROR_NO_DEVICE")
	if len(f.Ranks) != 1 || f.Ranks[0] != 0 {
		t.Errorf("ranks %v see no GPU", f.Ranks)
	}
}

// Under a Slurm that the test starts: both ways for ranks to find each other, the
// wrong library for one of them, none at all, and one GPU for each task.
func TestUnderSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	srun := func(more ...string) []string { return append([]string{"srun", "-n2", "--kill-on-bad-exit=1"}, more...) }
	sim := []string{"run.device=sim"}
	t.Run("pmix", func(t *testing.T) {
		slurmtest.Require(t, "openmpi-bin", "mpirun.openmpi")
		c.RequireMPI(t, "pmix")
		r, code, _ := program{args: sim, cluster: c, prefix: srun("--mpi=pmix")}.run(t)
		want(t, find(t, r.Findings, "launcher"), Info, "", "srun --mpi=pmix", "2 ranks")
		want(t, find(t, r.Findings, "mpi"), OK, Yes, "Open MPI")
		want(t, find(t, r.Findings, "multicast"), OK, Yes)
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("pmi2", func(t *testing.T) {
		slurmtest.Require(t, "mpich", "mpiexec.mpich")
		c.RequireMPI(t, "pmi2")
		r, code, _ := program{args: sim, cluster: c, prefix: srun("--mpi=pmi2")}.run(t)
		want(t, find(t, r.Findings, "mpi"), OK, Yes, "MPICH")
		want(t, find(t, r.Findings, "multicast"), OK, Yes)
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("none", func(t *testing.T) {
		r, code, _ := program{args: sim, cluster: c, prefix: srun("--mpi=none")}.run(t)
		want(t, find(t, r.Findings, "ranks"), Failed, No, "no way to find each other", "--mpi=pmix")
		if code != int(failure.Unavailable) {
			t.Errorf("exit code %d", code)
		}
	})
	// As sbatch leaves it to srun, for --gpus-per-task=1. The node has no devices to
	// bind, so that the shell stands in for what Slurm sets then.
	t.Run("one GPU a task", func(t *testing.T) {
		slurmtest.Require(t, "mpich", "mpiexec.mpich")
		c.RequireMPI(t, "pmi2")
		prefix := append(srun("--mpi=pmi2"), "sh", "-c", `CUDA_VISIBLE_DEVICES=$SLURM_LOCALID exec "$0" "$@"`)
		r, _, _ := program{environ: fakeGPUs(t, 2, 2, "FAKECUDA_DEVICES=1", "SLURM_GPUS_PER_TASK=1"), cluster: c, prefix: prefix}.run(t)
		want(t, find(t, r.Findings, "gpu.masked"), Warning, No, "SLURM_GPUS_PER_TASK=1", "--gpus-per-node=N --gpu-bind=none")
		want(t, find(t, r.Findings, "gpu.visible"), Failed, No, "--gpu-bind=none")
	})
}

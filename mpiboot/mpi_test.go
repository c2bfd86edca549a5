//go:build linux

package mpiboot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// starter is an MPI launcher and how to call it.
type starter struct {
	name string // as Evidence.Launcher
	bin  string
	pkg  string
	args []string
	// what it returns when one rank is killed by SIGKILL
	killed map[int]bool
}

var starters = []starter{
	// The test may run as root and on fewer cores than ranks.
	{LauncherOpenMPI, "mpirun.openmpi", "openmpi-bin", []string{"--allow-run-as-root", "--oversubscribe"}, map[int]bool{137: true, 1: true}},
	{LauncherMPICH, "mpiexec.mpich", "mpich", nil, map[int]bool{9: true, 137: true, 1: true}},
}

// keeps says whether the launcher returned the code of a rank that left without
// MPI_Finalize. Hydra then kills the others and mixes the codes of all.
func (s starter) keeps(code, exit int) bool {
	return exit == code || s.name == LauncherMPICH && exit != 0
}

// command prepares np ranks of the scenario.
func (s starter) command(t *testing.T, np int, scenario ...string) *exec.Cmd {
	t.Helper()
	slurmtest.Require(t, s.pkg, s.bin)
	args := append(append([]string{}, s.args...), "-np", fmt.Sprint(np), os.Args[0], rankProgram)
	return exec.Command(s.bin, append(args, scenario...)...)
}

// patience is how long a command may take on a machine with other work.
const patience = 3 * time.Minute

// run gives the exit code and the output of cmd.
func run(t *testing.T, cmd *exec.Cmd, env ...string) (int, string) {
	t.Helper()
	cmd.Env = programtest.Environ(cmd.Env, env...)
	cmd.WaitDelay = 2 * time.Second
	stop := time.AfterFunc(patience, func() {
		t.Errorf("%v: not ended within %v", cmd.Args, patience)
		cmd.Process.Signal(syscall.SIGKILL)
	})
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func each(t *testing.T, f func(t *testing.T, s starter)) {
	for _, s := range starters {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

func TestMPI(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		for _, np := range []int{1, 2, 3, 8} {
			exit, out := run(t, s.command(t, np, "hello"))
			checkRanks(t, np, s.name, exit, out)
		}
	})
}

// Ranks in namespaces of their own, in which MPI libraries crash, or end the
// process with words about something else. What was seen is told, with the way out;
// and that is one.
func TestMPINamespaces(t *testing.T) {
	slurmtest.Require(t, "util-linux", "unshare")
	for _, tt := range []struct {
		name    string
		starter int
		unshare string
		exit    int // of Hydra, any but 0
		words   []string
		cure    string // "": another test has it
		not     string // said with the cure
	}{
		{"processes", 0, "-cp --fork", 3, []string{"the MPI library crashed at stage \"unique id\" (rank ", "a process namespace of its own", "has the number 1", "set OMPI_MCA_btl=^vader", "(exit code 3)"}, "OMPI_MCA_btl=^vader", "vader"},
		{"network", 0, "-cn", 3, []string{"this rank cannot reach its launcher (rank ", "a network namespace of its own", "net:[", "--np needs no MPI"}, "", ""},
		{"user", 1, "-c", 3, []string{"a user namespace of its own, from which UCX may not open", "uid_map", "if MPI ends this process now, set UCX_TLS=^posix,cma"}, "UCX_TLS=^posix,cma", "UCX_TLS"},
		{"processes mpich", 1, "-cp --fork", 3, []string{"set UCX_TLS=^posix,cma"}, "UCX_TLS=^posix,cma", "UCX_TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			unshare := append([]string{"unshare"}, strings.Fields(tt.unshare)...)
			if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
				t.Skipf("%v is not permitted here: %v: %s", unshare, err, out)
			}
			s := starters[tt.starter]
			command := func() *exec.Cmd {
				c := s.command(t, 2, "hello")
				at := len(c.Args) - 3 // before the program
				c.Args = append(append(append([]string{}, c.Args[:at]...), unshare...), c.Args[at:]...)
				return c
			}
			exit, out := run(t, command())
			if !s.keeps(tt.exit, exit) {
				t.Errorf("exit code %d", exit)
			}
			for _, w := range tt.words {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
			if strings.Contains(out, "goroutine ") {
				t.Errorf("a trace of this program's:\n%s", out)
			}
			if tt.cure == "" {
				return
			}
			if exit, out = run(t, command(), tt.cure); exit != 0 || strings.Contains(out, tt.not) {
				t.Errorf("with %s: exit code %d\n%s", tt.cure, exit, out)
			}
		})
	}
	t.Run("shared memory mpich", func(t *testing.T) {
		s := starters[1]
		c := s.command(t, 2, "hello")
		at := len(c.Args) - 3
		own := []string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /dev/shm && exec "$0" "$@"`}
		if out, err := exec.Command(own[0], append(own[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("%v is not permitted here: %v: %s", own, err, out)
		}
		c.Args = append(append(append([]string{}, c.Args[:at]...), own...), c.Args[at:]...)
		exit, out := run(t, c)
		if want := "this rank has a /dev/shm of its own, where MPICH does not find the other ranks' memory"; exit == 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want one, and %q in\n%s", exit, want, out)
		}
	})
	// Where nothing separates the ranks, nothing is said.
	each(t, func(t *testing.T, s starter) {
		if exit, out := run(t, s.command(t, 2, "hello")); exit != 0 || strings.Contains(out, "namespace") || strings.Contains(out, "of its own") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

// MPICH maps a file that the limit on file sizes keeps empty, and crashes. That is
// said in a line, and not by a trace of this program.
func TestMPICrashInInit(t *testing.T) {
	s := starters[1]
	slurmtest.Require(t, s.pkg, s.bin)
	exit, out := run(t, exec.Command(s.bin, "-np", "2", "sh", "-c", `ulimit -f 0; exec "$0" "$@"`, os.Args[0], rankProgram, "hello"))
	if exit == 0 || strings.Contains(out, "goroutine ") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
	if !strings.Contains(out, `the MPI library crashed at stage "MPI_Init" (rank `) {
		t.Skipf("this MPI library does not crash without shared memory: %s", out)
	}
}

// libraryOf finds the file that the family's launcher loads by itself.
func libraryOf(t *testing.T, abi mpi.ABI, pkg string) string {
	t.Helper()
	lib, err := mpi.Open(mpi.Search{Prefer: abi})
	if err != nil || lib.ABI() != abi {
		slurmtest.RequireFile(t, pkg, "/nonexistent/"+abi.String())
	}
	return lib.File()
}

// A library named in the options is loaded for a world of one too.
func TestMPISingle(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		abi := map[string]mpi.ABI{LauncherOpenMPI: mpi.OpenMPI, LauncherMPICH: mpi.MPICH}[s.name]
		exit, out := run(t, s.command(t, 1, "hello"), "TEST_MPI_LIBRARY="+libraryOf(t, abi, s.pkg))
		checkRanks(t, 1, s.name, exit, out)
	})
}

// The silent failure: N worlds of one. It must be an error that names the
// launcher, the library and the way out.
func TestMPIMismatch(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		abi, pkg := mpi.MPICH, "libmpich12"
		if s.name == LauncherMPICH {
			abi, pkg = mpi.OpenMPI, "libopenmpi3"
		}
		file := libraryOf(t, abi, pkg)
		exit, out := run(t, s.command(t, 2, "hello"), "TEST_MPI_LIBRARY="+file)
		if !s.keeps(3, exit) {
			t.Errorf("exit code %d, want 3", exit)
		}
		for _, part := range []string{"started 2 ranks", "_SIZE=2", "the MPI library sees a world of 1", filepath.Base(file), abi.String(), "launcher and library do not belong together", "mpi_library"} {
			if !strings.Contains(out, part) {
				t.Errorf("no %q in\n%s", part, out)
			}
		}
		if strings.Contains(out, " by "+s.name) {
			t.Errorf("a rank joined:\n%s", out)
		}
	})
}

func TestMPINoLibrary(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 2, "hello"), "TEST_MPI_LIBRARY=/nonexistent/libmpi.so")
		if !s.keeps(3, exit) || !strings.Contains(out, "cannot open an MPI library for the "+s.name+" launcher") || !strings.Contains(out, "/nonexistent/libmpi.so") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

// A launcher whose interface is broken ends the process inside MPI_Init of
// MPICH; that must not pass without our words.
func TestMPIEndsInsideInit(t *testing.T) {
	libraryOf(t, mpi.MPICH, "libmpich12")
	exit, out := run(t, exec.Command(os.Args[0], rankProgram, "hello"), "PMI_FD=99", "PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0")
	if exit != 3 || !strings.Contains(out, "the MPI library ended this process inside MPI_Init") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
}

func TestMPISignals(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 2, "usr1"))
		if exit != 0 || strings.Count(out, "SIGUSR1 arrived\n") != 2 || strings.Count(out, "nil dereference recovered\n") != 2 {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

func TestMPICodes(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		for _, tt := range []struct {
			codes []string
			want  int
		}{{[]string{"0", "7", "3"}, 7}, {[]string{"143", "0", "0"}, 143}, {[]string{"0", "0", "0"}, 0}} {
			exit, out := run(t, s.command(t, 3, append([]string{"codes"}, tt.codes...)...))
			if exit != tt.want {
				t.Errorf("%v: exit code %d, want %d\n%s", tt.codes, exit, tt.want, out)
			}
		}
	})
}

func TestMPIAbort(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 3, "abort"))
		if exit != 7 || !strings.Contains(out, "rank 1 alone found this (exit code 7)") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

func TestMPIDeath(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		// Hydra may end before it has fetched what the others say, the more so on a
		// busy machine.
		tries := map[string]int{LauncherMPICH: 10, LauncherOpenMPI: 1}[s.name]
		for try := 1; ; try++ {
			cmd := s.command(t, 3, "die")
			if s.name == LauncherMPICH {
				// Else it kills the others at once.
				cmd.Args = append([]string{cmd.Args[0], "-disable-auto-cleanup"}, cmd.Args[1:]...)
			}
			exit, out := run(t, cmd)
			told := strings.Contains(out, "rank 1 closed its connection (it ended)")
			if s.killed[exit] && told {
				return
			}
			if !s.killed[exit] || try == tries {
				t.Fatalf("exit code %d\n%s", exit, out)
			}
		}
	})
}

func TestMPIWatchdog(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 2, "watchdog"))
		if exit != 2 || !strings.Contains(out, "the kernel hangs (exit code 2)") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

// A rank that does not come to Join, or not to Finish, is a timeout and not a
// hang.
func TestMPILate(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 2, "late"), "TEST_TIMEOUT=1s")
		if !s.keeps(4, exit) || !strings.Contains(out, `MPI_Init_thread at stage "start of MPI" has not returned after `) {
			t.Errorf("late: exit code %d\n%s", exit, out)
		}
		exit, out = run(t, s.command(t, 2, "absent", "0"), "TEST_TIMEOUT="+max(4*time.Second, programtest.Within(time.Second)).String())
		if exit != 4 || !strings.Contains(out, `at stage "agreement on the exit code" did not complete (rank 0`) || !strings.Contains(out, `rank 1 did not answer within `) {
			t.Errorf("absent: exit code %d\n%s", exit, out)
		}
	})
}

// No rank waits in MPI_Finalize of Open MPI for one that does not come, for its mpirun
// may hang when it ends such ranks; and none ends well while the launcher still waits
// for another.
func TestMPIFinalizeAlone(t *testing.T) {
	for _, stage := range []string{StageFinalize, StageExit} {
		exit, out := run(t, starters[0].command(t, 3, "apart", stage), "TEST_TIMEOUT="+max(2*time.Second, programtest.Within(time.Second)).String())
		if exit != 4 || !strings.Contains(out, `barrier at stage "exit" did not complete (rank 0`) || !strings.Contains(out, "rank 1 did not answer within ") {
			t.Errorf("%s: exit code %d\n%s", stage, exit, out)
		}
	}
}

// What the user decided about MPI_Finalize stays.
func TestFinalizeAlone(t *testing.T) {
	for _, given := range []string{"", "0"} {
		t.Setenv(asyncFinalize, given)
		env, want := map[string]string{asyncFinalize: given}, given
		if given == "" {
			os.Unsetenv(asyncFinalize)
			env, want = nil, "1"
		}
		if err := finalizeAlone(env); err != nil || os.Getenv(asyncFinalize) != want {
			t.Errorf("%q: %v, then %q", given, err, os.Getenv(asyncFinalize))
		}
	}
}

// After SIGTERM there is no MPI_Abort: the rank leaves by itself, at once.
func TestMPIAbsentAfterTerm(t *testing.T) {
	slurmtest.Require(t, "mpich", "mpiexec.mpich")
	exit, out := run(t, starters[1].command(t, 2, "absent", "143"), "TEST_TIMEOUT="+max(4*time.Second, programtest.Within(time.Second)).String())
	if !starters[1].keeps(143, exit) || strings.Contains(out, "MPI_Abort") || !strings.Contains(out, "(exit code 143)") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
}

func TestMPIAbortAfterTerm(t *testing.T) {
	each(t, func(t *testing.T, s starter) {
		exit, out := run(t, s.command(t, 2, "term"))
		if !s.keeps(143, exit) || strings.Contains(strings.ToUpper(out), "MPI_ABORT") || !strings.Contains(out, "ended by SIGTERM (exit code 143)") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
	})
}

func TestMPIHosts(t *testing.T) {
	slurmtest.Require(t, "mpich", "mpiexec.mpich")
	cmd := exec.Command("mpiexec.mpich", "-np", "1", "-env", EnvHostID, "east", os.Args[0], rankProgram, "hosts",
		":", "-np", "2", "-env", EnvHostID, "west", os.Args[0], rankProgram, "hosts")
	exit, out := run(t, cmd)
	if exit != 3 || strings.Count(out, "the 3 ranks are on 2 hosts") != 3 || !strings.Contains(out, "as east: rank 0;") || !strings.Contains(out, "as west: ranks 1 and 2)") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
}

// All ranks fail alike where one cannot listen.
func TestMPIOneCannotListen(t *testing.T) {
	slurmtest.Require(t, "mpich", "mpiexec.mpich")
	cmd := exec.Command("mpiexec.mpich", "-np", "1", "-env", "TEST_SOCKET_DIR", filepath.Join(t.TempDir(), "missing"), os.Args[0], rankProgram, "hello",
		":", "-np", "2", os.Args[0], rankProgram, "hello")
	exit, out := run(t, cmd)
	if exit != 1 || strings.Count(out, `stage "connecting the ranks of this host" failed on`) != 3 || !strings.Contains(out, "cannot listen for the other ranks") {
		t.Errorf("exit code %d\n%s", exit, out)
	}
}

func TestSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	srun := func(kind string, np int, scenario ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		t.Cleanup(cancel)
		end := "1" // what the batch scripts use
		if scenario[0] == "die" {
			end = "0" // so that the others can say what they saw
		}
		return c.Command(ctx, "srun", append([]string{"-n", fmt.Sprint(np), "--mpi=" + kind, "--kill-on-bad-exit=" + end, os.Args[0], rankProgram}, scenario...)...)
	}
	for _, s := range []struct {
		kind       string
		abi, other mpi.ABI
		pkg        string
		otherPkg   string
		aborted    int // what srun makes of MPI_Abort(7)
	}{
		{"pmix", mpi.OpenMPI, mpi.MPICH, "libopenmpi3", "libmpich12", 7},
		{"pmi2", mpi.MPICH, mpi.OpenMPI, "libmpich12", "libopenmpi3", 137},
	} {
		t.Run(s.kind, func(t *testing.T) {
			c.RequireMPI(t, s.kind)
			libraryOf(t, s.abi, s.pkg)
			for _, np := range []int{1, 4} {
				exit, out := run(t, srun(s.kind, np, "hello"))
				checkRanks(t, np, LauncherSlurm, exit, out)
			}
			if exit, out := run(t, srun(s.kind, 3, "codes", "0", "7", "3")); exit != 7 {
				t.Errorf("codes: exit code %d\n%s", exit, out)
			}
			if exit, out := run(t, srun(s.kind, 3, "abort")); exit != s.aborted || !strings.Contains(out, "rank 1 alone found this") {
				t.Errorf("abort: exit code %d, want %d\n%s", exit, s.aborted, out)
			}
			// The highest of: rank 1 killed, the others' abort, and srun's SIGTERM to
			// them, whichever of the two came first.
			if exit, out := run(t, srun(s.kind, 3, "die")); exit != 137 && exit != 143 && exit != 1 || !strings.Contains(out, "rank 1 closed its connection") {
				t.Errorf("die: exit code %d\n%s", exit, out)
			}
			// What Slurm does at a time limit and for scancel: SIGTERM to every task.
			exit, out := signalled(t, srun(s.kind, 2, "wait"), "ready\n", func(int, *watched) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				c.Command(ctx, "scancel", "--partition=test", "--full").Run()
			})
			if exit != 143 || !strings.Contains(out, "got terminated") {
				t.Errorf("SIGTERM: exit code %d\n%s", exit, out)
			}
			other := libraryOf(t, s.other, s.otherPkg)
			exit, out = run(t, srun(s.kind, 2, "hello"), "TEST_MPI_LIBRARY="+other)
			if s.other == mpi.MPICH && (exit != 3 || !strings.Contains(out, "srun --mpi=pmix started 2 ranks (SLURM_STEP_NUM_TASKS=2), but the MPI library sees a world of 1")) {
				t.Errorf("mismatch: exit code %d\n%s", exit, out)
			}
			// Open MPI ends the process itself; all we can do is to speak before.
			if s.other == mpi.OpenMPI && (exit == 0 || !strings.Contains(out, "srun offers PMI-2, which Open MPI") || strings.Contains(out, " by slurm")) {
				t.Errorf("mismatch: exit code %d\n%s", exit, out)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		exit, out := run(t, srun("none", 2, "hello"))
		if exit != 3 || !strings.Contains(out, "srun started 2 ranks that have no way to find each other") {
			t.Errorf("exit code %d\n%s", exit, out)
		}
		exit, out = run(t, srun("none", 1, "hello"))
		checkRanks(t, 1, LauncherSlurm, exit, out)
	})
	t.Run("batch", func(t *testing.T) {
		// The launchers inside a batch script, whose ranks inherit SLURM_PROCID=0.
		var script strings.Builder
		script.WriteString("#!/bin/sh\n")
		for _, s := range starters {
			fmt.Fprintln(&script, strings.Join(s.command(t, 2, "hello").Args, " "))
		}
		fmt.Fprintf(&script, "%s %s launch 2 hello\n%[1]s %[2]s hello\n", os.Args[0], rankProgram)
		file := filepath.Join(c.Dir, "job.sh")
		if err := os.WriteFile(file, []byte(script.String()), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		exit, submit := run(t, c.Command(ctx, "sbatch", "--wait", "-n", "4", "-o", c.Dir+"/job.out", file))
		b, err := os.ReadFile(c.Dir + "/job.out")
		if err != nil {
			t.Fatalf("%v\n%s", err, submit)
		}
		for _, launcher := range []string{LauncherOpenMPI, LauncherMPICH, LauncherLocal} {
			checkRanks(t, 2, launcher, exit, string(b))
		}
		checkRanks(t, 1, LauncherNone, exit, string(b))
	})
}

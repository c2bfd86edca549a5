//go:build linux

// Package slurm tests the batch scripts: each is submitted to a Slurm of one
// node that the test starts, on the software device.
package slurm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/containertest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// program is the binary under test, as users build it.
var program string

func TestMain(m *testing.M) {
	// Parallel tests wait for Slurm, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	programtest.Main(m, &program, nil)
}

// limit is the longest time for a job, with all that it waits for.
const limit = 2 * time.Minute

// user is who submits: a cluster, a folder from which sbatch is called, and a
// copy of the program, by which the user's processes are known.
type user struct {
	c            *slurmtest.Cluster
	dir, program string
}

func newUser(t *testing.T, c *slurmtest.Cluster) user {
	t.Helper()
	u := user{c: c, dir: t.TempDir()}
	u.program = filepath.Join(u.dir, "nvls-allreduce")
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.program, code, 0o755); err != nil {
		t.Fatal(err)
	}
	leftovers.Check(t, u.program)
	return u
}

// sbatch prepares the submission of a script, with variables for it and options
// of sbatch; args are the script's.
func (u user) sbatch(t *testing.T, script string, env, options []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	options = append([]string{"--chdir=" + u.dir, "--output=" + filepath.Join(u.dir, "%j.out"), "--parsable"}, options...)
	cmd := u.c.Command(ctx, "sbatch", append(append(options, path), args...)...)
	cmd.Dir = u.dir
	cmd.Env = programtest.Environ(cmd.Env, append([]string{"BINARY=" + u.program}, env...)...)
	return cmd
}

// submit submits, and gives the number of the job.
func submit(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// wait submits with --wait: it ends with the job, and gives its exit code.
func (u user) wait(t *testing.T, script string, env, options []string, args ...string) (job string, exit int) {
	t.Helper()
	cmd := u.sbatch(t, script, env, append(options, "--wait"), args...)
	out, err := cmd.Output()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	job = strings.TrimSpace(string(out))
	if job == "" {
		t.Fatalf("%v: %s", cmd.Args, ee.Stderr)
	}
	u.logFailure(t, job)
	return job, cmd.ProcessState.ExitCode()
}

// run is wait for the impatient: sbatch --wait looks after 10 s and after 40 s.
func (u user) run(t *testing.T, script string, env, options []string, args ...string) (job string, exit int) {
	t.Helper()
	job = submit(t, u.sbatch(t, script, env, options, args...))
	u.logFailure(t, job)
	u.until(t, job, "end", func() bool {
		state, code, _ := u.state(t, job)
		code, _, _ = strings.Cut(code, ":")
		exit, _ = strconv.Atoi(code)
		return state == "COMPLETED" || state == "FAILED"
	})
	return job, exit
}

// logFailure shows what the job printed if the test fails.
func (u user) logFailure(t *testing.T, job string) {
	t.Cleanup(func() {
		if t.Failed() {
			log := u.log(job)
			t.Logf("job %s:\n%s", job, log[max(0, len(log)-5000):])
		}
	})
}

// log is what the job has printed.
func (u user) log(job string) string {
	text, _ := os.ReadFile(filepath.Join(u.dir, job+".out"))
	return string(text)
}

// results is the folder of the job's results.
func (u user) results(job string) string { return filepath.Join(u.dir, "results", job) }

// files fails the test unless each is there and not empty.
func (u user) files(t *testing.T, job string, names ...string) {
	t.Helper()
	for _, name := range names {
		info, err := os.Stat(filepath.Join(u.results(job), name))
		if err != nil {
			t.Error(err)
		} else if info.Size() == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// said fails the test unless the job printed each of the parts.
func (u user) said(t *testing.T, job string, parts ...string) {
	t.Helper()
	log := u.log(job)
	for _, part := range parts {
		if !strings.Contains(log, part) {
			t.Errorf("job %s did not print %q", job, part)
		}
	}
}

// result reads the job's result. No row may be wrong, and the run's sockets must
// be gone.
func (u user) result(t *testing.T, path string, ranks int) *result.Run {
	t.Helper()
	r, err := result.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.WorldSize != ranks || len(r.Rows) == 0 || r.Totals().FailedChecks != 0 {
		t.Errorf("%s: %d ranks, %d rows, %d of them wrong; want %d ranks", path, r.WorldSize, len(r.Rows), r.Totals().FailedChecks, ranks)
	}
	leftovers.Sockets(t, r.ID)
	return r
}

// state is the job's state and exit code as Slurm tells them, with how often it
// was restarted.
func (u user) state(t *testing.T, job string) (state, exit, restarts string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := u.c.Command(ctx, "scontrol", "show", "job", job).CombinedOutput()
	if err != nil {
		t.Fatalf("scontrol show job %s: %v\n%s", job, err, out)
	}
	field := func(name string) string {
		m := regexp.MustCompile(`\b` + name + `=(\S+)`).FindSubmatch(out)
		if m == nil {
			return ""
		}
		return string(m[1])
	}
	return field("JobState"), field("ExitCode"), field("Restarts")
}

// await polls until the job is in the state.
func (u user) await(t *testing.T, job, want string) {
	t.Helper()
	u.until(t, job, "state "+want, func() bool {
		state, _, _ := u.state(t, job)
		return state == want
	})
}

func (u user) until(t *testing.T, job, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			state, _, _ := u.state(t, job)
			t.Fatalf("job %s: %s did not come within %v; its state is %s and it printed\n%s", job, what, limit, state, u.log(job))
		}
	}
}

// small makes a job of two ranks with few messages.
var (
	two   = []string{"--ntasks-per-node=2", "--gpus-per-node=2"}
	small = []string{"--device", "sim", "-e", "4K", "-n", "2", "-w", "1"}
)

// The shipped scripts are all tested: a new one needs a test here.
func TestScriptsAreTested(t *testing.T) {
	source, err := os.ReadFile("scripts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../docs/slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts, _ := filepath.Glob("*.sbatch")
	if len(scripts) != 4 {
		t.Errorf("scripts are %v", scripts)
	}
	for _, s := range scripts {
		if !strings.Contains(string(source), `"`+s+`"`) {
			t.Errorf("%s is not tested", s)
		}
		if !strings.Contains(string(manual), "`"+s+"`") {
			t.Errorf("docs/slurm.md does not tell of %s", s)
		}
		text, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		// What breaks the sharing of GPUs between ranks.
		if regexp.MustCompile(`(?m)^#SBATCH.*(--gpus-per-task|--ntasks-per-gpu|--gpu-bind)`).Match(text) {
			t.Errorf("%s hides GPUs from ranks", s)
		}
	}
}

// Jobs are submitted together and run one after the other, for each takes the
// node for itself.
func TestScripts(t *testing.T) {
	t.Parallel()
	c := slurmtest.Start(t)
	c.RequireMPI(t, "pmix")
	c.RequireMPI(t, "pmi2")

	// In a group, so that the cluster outlives parallel tests.
	t.Run("jobs", func(t *testing.T) {
		for _, mpi := range []struct {
			kind, library string
			submit        func(u user, t *testing.T, script string, env, options []string, args ...string) (string, int)
		}{{"pmix", "Open MPI", user.wait}, {"pmi2", "MPICH", user.run}} {
			t.Run("bare metal, "+mpi.kind, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, c)
				job, exit := mpi.submit(u, t, "nvls-allreduce.sbatch", []string{"CONFIG=quick", "MPI=" + mpi.kind}, two, small...)
				if exit != 0 {
					t.Errorf("exit code %d", exit)
				}
				u.files(t, job, "doctor.txt", "result.json", "result.csv", "bandwidth.png")
				u.said(t, job, "verdict: SIMULATED", "== complete: results/"+job+"/bandwidth.png")
				r := u.result(t, filepath.Join(u.results(job), "result.json"), 2)
				if r.Status.State != result.Complete || r.Launcher != "slurm" || !strings.Contains(r.MPI, mpi.library) {
					t.Errorf("status %+v, launcher %s, MPI %s", r.Status, r.Launcher, r.MPI)
				}
				if r.Env["SLURM_JOB_ID"] != job {
					t.Errorf("the result does not tell its job: %v", r.Env)
				}
			})
		}

		t.Run("a mode that cannot run", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			job, exit := u.run(t, "nvls-allreduce.sbatch", []string{"CONFIG=quick"}, two, append(small, "--mode", "nvls-zero-copy", "-o", "max")...)
			if exit != 3 {
				t.Errorf("exit code %d, want 3", exit)
			}
			u.said(t, job, "NVLS cannot do max of float", "== a mode cannot run here")
		})

		t.Run("NCCL", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			// nccl-tests is played by a log of it.
			tests := filepath.Join(u.dir, "all_reduce_perf")
			log, err := filepath.Abs("../internal/importer/testdata/collectives.log")
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '-b 1K -e 4K -f 2 -n 20 -w 5 -g 2' ] || exit 9\ncat %s\n", log)
			if err := os.WriteFile(tests, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			job, exit := u.run(t, "compare-nccl.sbatch", []string{"MAX=4K", "NCCL_TESTS=" + tests}, two, "--device", "sim", "-n", "2", "-w", "1")
			// There is no NCCL for software GPUs; all else is measured.
			if exit != 3 {
				t.Errorf("exit code %d, want 3", exit)
			}
			u.said(t, job, "NCCL needs real GPUs", "== a mode cannot run here", "== chart: results/"+job+"/comparison.png")
			u.files(t, job, "result.json", "result.csv", "report.html", "report.md", "comparison.png", "nccl-tests.log", "nccl-tests.json")
			r := u.result(t, filepath.Join(u.results(job), "result.json"), 2)
			modes := map[string]bool{}
			for _, row := range r.Rows {
				modes[row.Mode] = true
			}
			if !modes["auto"] || !modes["p2p"] || !modes["ring"] {
				t.Errorf("modes are %v", modes)
			}
		})

		t.Run("report", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			job, exit := u.run(t, "report.sbatch", []string{"TITLE=Two nodes"}, nil, absolute(t, "../internal/importer/testdata/collectives.golden"))
			if exit != 0 {
				t.Errorf("exit code %d", exit)
			}
			u.files(t, job, "report.html", "report.md")
			if page, _ := os.ReadFile(filepath.Join(u.results(job), "report.html")); !strings.Contains(string(page), "Two nodes") {
				t.Error("the report has not the title")
			}
			job, exit = u.run(t, "report.sbatch", nil, nil)
			if exit != 6 {
				t.Errorf("exit code %d with no result, want 6", exit)
			}
			u.said(t, job, "no result given, and none at results/*/result.json")
		})

		for _, m := range []struct {
			model, image, launcher string
			bind                   bool
		}{
			{"single", "none", "local", false},
			{"hybrid", "openmpi", "slurm", false},
			{"bind", "none", "slurm", true},
		} {
			t.Run("image, "+m.model, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, c)
				apptainer, env := containertest.Apptainer(t, u.program)
				env = append(env, "CONFIG=quick", "BINARY=nvls-allreduce", "CONTAINER="+apptainer, "MODEL="+m.model, "IMAGE="+containertest.Image(t, "Singularity.def", m.image))
				if m.bind {
					dir := containertest.HostOpenMPI(t)
					env = append(env, "MPI_DIR="+dir, "CONTAINER_OPTIONS=--env OPAL_PREFIX="+dir)
				}
				job, exit := u.run(t, "nvls-allreduce-singularity.sbatch", env, two, small...)
				if exit != 0 {
					t.Errorf("exit code %d", exit)
				}
				u.files(t, job, "doctor.txt", "result.json", "result.csv", "bandwidth.png")
				u.said(t, job, "verdict: SIMULATED", "== complete: ")
				r := u.result(t, filepath.Join(u.results(job), "result.json"), 2)
				if r.Status.State != result.Complete || r.Launcher != m.launcher || r.Container != "apptainer" {
					t.Errorf("status %+v, launcher %s, container %s", r.Status, r.Launcher, r.Container)
				}
			})
		}

		t.Run("wrong settings", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			for words, env := range map[string][]string{
				"MODEL is single, hybrid or bind, not 'hybird'": {"MODEL=hybird", "CONTAINER=/bin/true"},
				"MODEL=bind needs MPI_DIR":                      {"MODEL=bind", "CONTAINER=/bin/true", "MPI_DIR=/nonexistent"},
				"neither apptainer nor singularity is in PATH":  {"CONTAINER="},
			} {
				job := submit(t, u.sbatch(t, "nvls-allreduce-singularity.sbatch", env, two))
				u.await(t, job, "FAILED")
				if _, exit, _ := u.state(t, job); exit != "6:0" {
					t.Errorf("exit code %s, want 6:0", exit)
				}
				u.said(t, job, words)
			}
		})
	})
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

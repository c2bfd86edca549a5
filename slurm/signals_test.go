//go:build linux

package slurm

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/containertest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// An endless job of two ranks, which shares the node with others of the test.
var (
	shared  = append([]string{"--exclusive=user"}, two...)
	endless = []string{"--device", "sim", "--mode", "ring,nvls-zero-copy", "-b", "1K", "-e", "1K", "-n", "5", "-w", "1", "-N", "0"}
	row     = regexp.MustCompile(`(?m)^ +\d+ +\d+ +float +sum +-1 .*\n`)
)

// gentle is the program for a job that will wait long: it must not take the cores
// from others.
func (u user) gentle(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(u.dir, "gentle")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec nice -n 10 "+u.program+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"BINARY=" + path}
}

// measuring submits an endless job and waits until it has printed rows.
func (u user) measuring(t *testing.T, script string, env, options []string) (job string) {
	t.Helper()
	job = submit(t, u.sbatch(t, script, append([]string{"CONFIG=quick", "DOCTOR=no"}, env...), options, endless...))
	u.logFailure(t, job)
	t.Cleanup(func() { u.slurm(t, "scancel", job) })
	u.rows(t, job, 2)
	return job
}

// rows waits until the job has printed so many.
func (u user) rows(t *testing.T, job string, n int) {
	t.Helper()
	u.until(t, job, "rows", func() bool { return len(row.FindAllString(u.log(job), n)) >= n })
}

// ended waits until so many attempts of an interrupted job have said their last
// word, which Slurm's state does not wait for.
func (u user) ended(t *testing.T, job string, attempts int) {
	t.Helper()
	u.until(t, job, "end", func() bool { return strings.Count(u.log(job), "\n== interrupted") == attempts })
}

// slurm runs a client.
func (u user) slurm(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if out, err := u.c.Command(ctx, name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
}

// interrupted checks what a job that was ended has left.
func (u user) interrupted(t *testing.T, dir, reason string) {
	t.Helper()
	r := u.result(t, filepath.Join(dir, "result.json"), 2)
	if r.Status != (result.Status{State: result.Interrupted, Reason: reason}) {
		t.Errorf("status is %+v, want interrupted by %s", r.Status, reason)
	}
	for _, name := range []string{"result.csv", "bandwidth.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// prompt is how soon after a signal results must be on disk.
const prompt = 5 * time.Second

func TestEnded(t *testing.T) {
	t.Parallel()
	c := slurmtest.Start(t)
	c.RequireMPI(t, "pmix")
	c.RequireMPI(t, "pmi2")
	t.Run("jobs", func(t *testing.T) {
		// --time is in minutes, so these wait for a good part of one; Slurm looks
		// at limits every 30 s.
		t.Run("signal before the time limit", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			job := u.measuring(t, "nvls-allreduce.sbatch", u.gentle(t), append([]string{"--time=1"}, shared...))
			u.await(t, job, "FAILED")
			if _, exit, _ := u.state(t, job); exit != "143:0" {
				t.Errorf("exit code %s, want 143:0", exit)
			}
			u.said(t, job, "== interrupted; ")
			u.interrupted(t, u.results(job), "SIGUSR1")
		})
		t.Run("time limit", func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c)
			// Without the signal before, and with the end moved near.
			job := u.measuring(t, "nvls-allreduce.sbatch", u.gentle(t), append([]string{"--time=5", "--signal=CONT@1"}, shared...))
			u.slurm(t, "scontrol", "update", "JobId="+job, "EndTime=now+10") // the controller refuses a time that has passed when it reads it
			u.await(t, job, "TIMEOUT")
			u.ended(t, job, 1)
			u.interrupted(t, u.results(job), "SIGTERM")
		})
		for _, tt := range []struct{ mpi, signal, state, reason string }{
			{"pmix", "", "CANCELLED", "SIGTERM"},
			{"pmix", "--signal=INT", "FAILED", "SIGINT"},
			// Which MPICH takes for itself.
			{"pmi2", "--signal=USR1", "FAILED", "SIGUSR1"},
		} {
			t.Run("scancel "+tt.signal+" "+tt.mpi, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, c)
				job := u.measuring(t, "nvls-allreduce.sbatch", []string{"MPI=" + tt.mpi}, shared)
				sent := time.Now()
				u.slurm(t, "scancel", strings.Fields(tt.signal+" "+job)...)
				u.await(t, job, tt.state)
				u.ended(t, job, 1)
				// The chart is the last to be written.
				chart, err := os.Stat(filepath.Join(u.results(job), "bandwidth.png"))
				if err != nil {
					t.Fatal(err)
				}
				if took, most := chart.ModTime().Sub(sent), programtest.Within(prompt); took > most {
					t.Errorf("results were on disk %v after scancel, want %v at most", took, most)
				}
				if _, exit, _ := u.state(t, job); exit != "143:0" {
					t.Errorf("exit code %s, want 143:0", exit)
				}
				u.interrupted(t, u.results(job), tt.reason)
			})
		}
		// All ranks in one container, and every rank in its own.
		for model, image := range map[string]string{"single": "none", "hybrid": "openmpi"} {
			t.Run("scancel of an image, "+model, func(t *testing.T) {
				t.Parallel()
				u := newUser(t, c)
				apptainer, env := containertest.Apptainer(t, u.program)
				env = append(env, "BINARY=nvls-allreduce", "CONTAINER="+apptainer, "MODEL="+model, "IMAGE="+containertest.Image(t, "Singularity.def", image))
				job := u.measuring(t, "nvls-allreduce-singularity.sbatch", env, shared)
				u.slurm(t, "scancel", job)
				u.await(t, job, "CANCELLED")
				u.ended(t, job, 1)
				u.interrupted(t, u.results(job), "SIGTERM")
			})
		}
	})
}

// A job of a better partition takes the node. The first one is requeued, runs
// again after a while (cred_expire of the cluster), and leaves the results of both
// attempts.
func TestRequeued(t *testing.T) {
	t.Parallel()
	c := slurmtest.Start(t)
	c.RequireMPI(t, "pmix")
	// In a group, so that the cluster outlives what the job leaves.
	t.Run("job", func(t *testing.T) {
		u := newUser(t, c)
		job := u.measuring(t, "nvls-allreduce.sbatch", nil, two)
		urgent := submit(t, u.sbatch(t, "report.sbatch", nil, []string{"--partition=" + slurmtest.Urgent, "--exclusive"},
			absolute(t, "../internal/importer/testdata/collectives.golden")))
		u.await(t, urgent, "COMPLETED")
		u.await(t, job, "RUNNING")
		if _, _, restarts := u.state(t, job); restarts != "1" {
			t.Errorf("%s restarts, want 1", restarts)
		}
		u.until(t, job, "second attempt", func() bool {
			return regexp.MustCompile(`(?s)attempt 1, results in.* float `).MatchString(u.log(job))
		})
		first := filepath.Join(u.results(job), "attempt-0")
		u.interrupted(t, first, "SIGTERM")
		u.slurm(t, "scancel", job)
		u.await(t, job, "CANCELLED")
		u.ended(t, job, 2)
		u.interrupted(t, u.results(job), "SIGTERM")
		u.interrupted(t, first, "SIGTERM")
	})
}

//go:build linux

package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// actions are what happens to rank 1 at a stage; see internal/bench/fault_stage.go.
var actions = []string{"kill", "stop", "exit", "close", "late", "nofile"}

// point is a moment in a run: the nth time that a rank enters a stage.
type point struct {
	stage string
	n     int
	mpi   bool // only where ranks meet in MPI
	rows  bool // the header is out: a result is on disk
}

// points go from MPI_Init to Finalize.
var points = []point{
	{"MPI_Init", 1, true, false},
	{"unique id", 1, true, false},
	{"hosts", 1, true, false},
	{"connecting the ranks of this host", 1, false, false},
	{"vote on the connections", 1, true, false},
	{"compare configurations", 1, false, false},
	{"make the software device", 1, false, false},
	{"share the software device", 1, false, false},
	{"cuDevicePrimaryCtxRetain", 1, false, false},
	{"allocate signals and scratch", 1, false, false},
	{"exchange descriptors of signals and scratch", 1, false, false},
	{"map the peers' signals and scratch", 1, false, false},
	{"create the multicast object", 1, false, false},
	{"share the multicast object", 1, false, false},
	{"cuMulticastAddDevice", 1, false, false},
	{"cuMulticastBindMem", 1, false, false},
	{"bind memory to the multicast object, attempt 1", 1, false, false},
	{"map the multicast object", 1, false, false},
	{"exchange descriptors of the staging buffer", 1, false, false},
	{"describe devices", 1, false, false},
	{"compare links", 1, false, true},
	{"cuGraphLaunch", 1, false, true},
	{"cuStreamSynchronize", 20, false, true},
	{"run all-reduces", 20, false, true},
	{"verify", 2, false, true},
	{"compare results", 3, false, true},
	{"take down the multicast object", 1, false, true},
	{"cuMulticastUnbind", 1, false, true},
	{"free signals and scratch", 1, false, true},
	{"take down", 1, false, true},
	{"agreement on the exit code", 1, false, true},
	{"MPI_Finalize", 1, true, true},
}

// cell is one run of the matrix, and its row in the table.
type cell struct {
	launcher launcher
	action   string
	point    point
	outcome  outcome
	problems []string
}

func (c *cell) String() string {
	return fmt.Sprintf("%s at %s, %s", c.action, c.point.stage, c.launcher.name)
}

var exitCodes = regexp.MustCompile(`nvls-allreduce: rank (\d+) of \d+ on .*\(exit code (\d+)\)`)

// judge finds what is not as the rules of this package want it.
func (c *cell) judge() {
	o := c.outcome
	bad := func(format string, args ...any) { c.problems = append(c.problems, fmt.Sprintf(format, args...)) }
	if !o.fired {
		bad("the fault did not happen")
		return
	}
	if o.stuck {
		bad("it did not end")
	}
	if o.others > othersBound {
		bad("other ranks were there %v after the fault, %v are allowed", o.others, othersBound)
	}
	if len(o.left) > 0 {
		bad("processes %v were left", o.left)
	}
	if strings.Contains(o.said, "panic:") || strings.Contains(o.said, "fatal error:") {
		bad("it panicked")
	}
	if o.exit == 0 {
		if o.run == nil || o.run.Status.State != result.Complete {
			bad("exit code 0 without a complete result")
		}
		return
	}
	if c.point.rows && o.run == nil {
		bad("no result is on disk")
	}
	if o.run != nil && o.run.Status.State == result.Complete && !slices.Contains([]string{"agreement on the exit code", "MPI_Finalize"}, c.point.stage) {
		bad("the result is marked complete")
	}
	if !c.named() && !(c.launcher.kills && slices.Contains([]string{"kill", "exit"}, c.action)) && !c.byMPI() {
		bad("no rank names the stage and rank 1")
	}
	if codes := c.codes(); len(codes) > 1 {
		bad("ranks say different exit codes: %v", codes)
	}
}

// named says whether a rank told a stage and that it is about rank 1, or rank 1
// about its peers.
func (c *cell) named() bool {
	for line := range strings.Lines(c.outcome.said) {
		if strings.Contains(line, "nvls-allreduce: ") && strings.Contains(line, "rank 1") && (strings.Contains(line, "stage") || strings.Contains(line, "MPI_") || strings.Contains(line, "connecting") || strings.Contains(line, "did not return")) {
			return true
		}
	}
	return false
}

// byMPI says whether the ranks were in MPI's hands, which ends or lets end all at
// once and says what it says.
func (c *cell) byMPI() bool {
	if c.point.stage == "connecting the ranks of this host" && strings.Contains(c.outcome.said, "rank 1 failed (") {
		return true // the own launcher says who; nobody was connected to see it
	}
	if c.point.stage == "connecting the ranks of this host" && c.launcher.mpi && slices.Contains([]string{"kill", "exit"}, c.action) {
		return true // the launcher says who, and ends the others before they give up
	}
	return c.point.mpi && slices.Contains([]string{"kill", "exit", "nofile", "late", "stop"}, c.action)
}

// codes are the exit codes that ranks other than the faulty one said.
func (c *cell) codes() []string {
	var codes []string
	for _, m := range exitCodes.FindAllStringSubmatch(c.outcome.said, -1) {
		if m[1] != "1" && !slices.Contains(codes, m[2]) {
			codes = append(codes, m[2])
		}
	}
	return codes
}

// matrix is every fault at every point under the launchers.
func matrix(launchers []launcher) []*cell {
	var cells []*cell
	for _, l := range launchers {
		for _, p := range points {
			for _, a := range actions {
				if p.mpi && !l.mpi {
					continue
				}
				if l.fewer && a != "kill" && a != "stop" {
					continue
				}
				cells = append(cells, &cell{launcher: l, action: a, point: p})
			}
		}
	}
	return cells
}

// sample takes a part of the matrix for every run of the tests: each action under
// the own launcher, the two worst under the others, at points far apart.
func sample() []*cell {
	at := func(stage string) point {
		return points[slices.IndexFunc(points, func(p point) bool { return p.stage == stage })]
	}
	return []*cell{
		{launcher: local, action: "kill", point: at("cuMulticastBindMem")},
		{launcher: local, action: "stop", point: at("run all-reduces")},
		{launcher: local, action: "exit", point: at("connecting the ranks of this host")},
		{launcher: local, action: "close", point: at("verify")},
		{launcher: local, action: "late", point: at("share the multicast object")},
		{launcher: local, action: "nofile", point: at("exchange descriptors of signals and scratch")},
		{launcher: openMPI, action: "kill", point: at("compare results")},
		{launcher: openMPI, action: "stop", point: at("unique id")},
		{launcher: mpich, action: "kill", point: at("compare results")},
		{launcher: mpich, action: "close", point: at("take down")},
	}
}

// TestMatrix runs the faults and judges each.
func TestMatrix(t *testing.T) {
	cells := sample()
	if everything() {
		launchers := []launcher{local, openMPI, mpich}
		for _, mpi := range []string{"pmix", "pmi2"} {
			l := slurm(t, slurmtest.Start(t), mpi)
			l.fewer = mpi == "pmi2" // MPICH again, by another way
			launchers = append(launchers, l)
		}
		cells = matrix(launchers)
		if only := os.Getenv("NVLS_ALLREDUCE_SOAK_ONLY"); only != "" {
			cells = slices.DeleteFunc(cells, func(c *cell) bool { return !regexp.MustCompile(only).MatchString(c.String()) })
		}
	}
	var mu sync.Mutex
	each(len(cells), func(i int) {
		c := cells[i]
		c.outcome = job{launcher: c.launcher, fault: fmt.Sprintf("at:1:%s:%d:%s", c.action, c.point.n, c.point.stage)}.run(t)
		c.judge()
		mu.Lock()
		defer mu.Unlock()
		if len(c.problems) > 0 {
			t.Errorf("%v: exit %d after %v: %s\n%s", c, c.outcome.exit, c.outcome.took, strings.Join(c.problems, "; "), shorten(c.outcome.said))
		}
	})
	t.Logf("%d runs, %d with problems", len(cells), failed(cells))
	if everything() {
		matrixTable = cells
	}
}

func failed(cells []*cell) int {
	n := 0
	for _, c := range cells {
		if len(c.problems) > 0 {
			n++
		}
	}
	return n
}

func shorten(s string) string {
	const half = 2000
	if len(s) <= 2*half {
		return s
	}
	return s[:half] + "\n[…]\n" + s[len(s)-half:]
}

// place is a run in a place where something is full, or with another program.
type place struct {
	name     string
	launcher launcher
	job      job
	exit     int // -1: any
	words    *regexp.Regexp
	outcome  outcome
	problems []string
}

// mounted runs a job with a small file system at a path, in a mount namespace.
func mounted(size, path string) []string {
	return []string{"unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", fmt.Sprintf(`mount -t tmpfs -o size=%s none '%s' && exec "$@"`, size, path), "sh"}
}

// TestPlaces runs jobs where results cannot be written, shared memory is full, and
// one rank is of another build.
func TestPlaces(t *testing.T) {
	slurmtest.Require(t, "util-linux", "unshare")
	if os.Geteuid() != 0 {
		slurmtest.Skip(t, "mounting a small file system needs root")
	}
	full := t.TempDir()
	launchers := []launcher{local, openMPI, mpich}
	var places []*place
	for _, l := range launchers {
		places = append(places,
			&place{name: "full disk", launcher: l, exit: 6, words: regexp.MustCompile(`cannot write the results.*no space left on device`),
				job: job{launcher: l, program: program, json: filepath.Join(full, "result.json"), wrap: mounted("4k", full)}},
			&place{name: "full /dev/shm", launcher: l, exit: -1,
				job: job{launcher: l, program: program, wrap: mounted("16k", "/dev/shm")}},
			&place{name: "another build", launcher: l, exit: 6, words: regexp.MustCompile(`are not the same program.*another build`),
				job: job{launcher: l, program: program, other: faulty}})
	}
	each(len(places), func(i int) {
		p := places[i]
		p.outcome = p.job.run(t)
		bad := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
		o := p.outcome
		if o.stuck || len(o.left) > 0 || o.took > startBound {
			bad("it did not end, or processes %v were left", o.left)
		}
		if p.exit >= 0 && o.exit != p.exit {
			bad("exit code %d, want %d", o.exit, p.exit)
		}
		if o.exit == 0 && (o.run == nil || o.run.Status.State != result.Complete) {
			bad("exit code 0 without a complete result")
		}
		if p.words != nil && !p.words.MatchString(o.said) {
			bad("it does not say %v", p.words)
		}
		if len(p.problems) > 0 {
			t.Errorf("%s, %s: exit %d: %s\n%s", p.name, p.launcher.name, o.exit, strings.Join(p.problems, "; "), shorten(o.said))
		}
	})
	t.Logf("%d runs", len(places))
	if everything() {
		placesTable = places
	}
}

//go:build linux

package soak

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// actions are what happens to a rank at a stage; see internal/bench/fault_stage.go.
// The last two are the action fill, done by rank 0, which owns the results: the
// file system of the results is full from then on, or that of /dev/shm.
var actions = []string{"kill", "stop", "exit", "close", "late", "nofile", "disk", "shm"}

// victims are the ranks to which it happens: one that is waited for, and the one
// that has the results, makes the multicast object and chose the run's id.
var victims = []int{1, 0}

// point is a moment in a run: the nth time that a rank enters a stage.
type point struct {
	stage string
	n     int
	mpi   bool // only where ranks meet in MPI
	rows  bool // the header is out: a result is on disk
	zero  bool // only rank 0 gets there
}

// points go from MPI_Init to Finalize.
var points = []point{
	{stage: "MPI_Init", n: 1, mpi: true},
	{stage: "unique id", n: 1, mpi: true},
	{stage: "hosts", n: 1, mpi: true},
	{stage: "connecting the ranks of this host", n: 1},
	{stage: "vote on the connections", n: 1, mpi: true},
	{stage: "compare configurations", n: 1},
	{stage: "try the output files", n: 1},
	{stage: "make the software device", n: 1},
	{stage: "share the software device", n: 1},
	{stage: "cuDevicePrimaryCtxRetain", n: 1},
	{stage: "allocate signals and scratch", n: 1},
	{stage: "exchange descriptors of signals and scratch", n: 1},
	{stage: "map the peers' signals and scratch", n: 1},
	{stage: "cuMulticastCreate", n: 1, zero: true},
	{stage: "create the multicast object", n: 1},
	{stage: "share the multicast object", n: 1},
	{stage: "cuMulticastAddDevice", n: 1},
	{stage: "cuMulticastBindMem", n: 1},
	{stage: "bind memory to the multicast object, attempt 1", n: 1},
	{stage: "map the multicast object", n: 1},
	{stage: "exchange descriptors of the staging buffer", n: 1},
	{stage: "cuModuleLoadData", n: 1},
	{stage: "describe devices", n: 1},
	{stage: "compare links", n: 1, rows: true},
	{stage: "cuGraphLaunch", n: 1, rows: true},
	{stage: "cuStreamSynchronize", n: 20, rows: true},
	{stage: "run all-reduces", n: 20, rows: true},
	{stage: "verify", n: 2, rows: true},
	{stage: "compare results", n: 3, rows: true},
	{stage: "take down the multicast object", n: 1, rows: true},
	{stage: "cuMulticastUnbind", n: 1, rows: true},
	{stage: "free signals and scratch", n: 1, rows: true},
	{stage: "take down", n: 1, rows: true},
	{stage: "write the results", n: 1, rows: true, zero: true},
	{stage: "agreement on the exit code", n: 1, rows: true},
	{stage: "MPI_Finalize", n: 1, mpi: true, rows: true},
}

// measured are the stages at which the run has all its results and only has to end:
// they may be marked complete though the exit code tells that the end went wrong. At
// the vote to take down, rank 0 may have all others' verdicts before its fault.
var measured = []string{"take down", "write the results", "agreement on the exit code", "MPI_Finalize"}

// cell is one run of the matrix, and its row in the table.
type cell struct {
	launcher launcher
	action   string
	victim   int
	point    point
	slow     int // see job
	outcome  outcome
	problems []string
}

func (c *cell) String() string {
	return fmt.Sprintf("%s of rank %d at %s, %s", c.action, c.victim, c.point.stage, c.launcher.name)
}

func (c *cell) is(actions ...string) bool { return slices.Contains(actions, c.action) }

// job is the run that the cell needs.
func (c *cell) job() job {
	j := job{launcher: c.launcher, slow: c.slow}
	action := c.action
	switch action {
	case "disk":
		action, j.fill, j.disk = "fill", "disk", "256k"
	case "shm":
		action, j.fill, j.shm = "fill", "shm", "64m" // more than three ranks' MPI asks for
	}
	j.fault = fmt.Sprintf("at:%d:%s:%d:%s", c.victim, action, c.point.n, c.point.stage)
	return j
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
	if bound := c.job().othersBound(); o.others > bound && o.exit != 0 {
		bad("other ranks were there %v after the fault, %v are allowed", o.others, bound)
	}
	if len(o.left) > 0 {
		bad("processes %v were left", o.left)
	}
	// A rank that is killed while it writes leaves its temporary file; MPI launchers
	// kill after an abort.
	if len(o.stray) > 0 && !c.is("kill", "exit", "stop") && !c.launcher.mpi {
		bad("files %v were left", o.stray)
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
	if o.run != nil && o.run.Status.State == result.Complete && !slices.Contains(measured, c.point.stage) {
		bad("the result is marked complete")
	}
	if c.is("disk") && !strings.Contains(o.said, "no space left on device") {
		bad("it does not say that there is no space")
	}
	if !c.named() && c.unnamed() == "" {
		bad("no rank names the stage and rank %d", c.victim)
	}
	if codes := c.codes(); len(codes) > 1 {
		bad("ranks say different exit codes: %v", codes)
	}
}

var (
	// speaker is a line in which a rank says who it is.
	speaker = regexp.MustCompile(`^rank (\d+) of \d+ on [^:]+: (.*)`)
	// itself is where a rank says in an error whose error it is.
	itself = regexp.MustCompile(`\(rank \d+ on [^)]*\)`)
)

// named says whether a line names the victim and a stage. The victim's own words
// count only where it knows what happened to it.
func (c *cell) named() bool {
	victim := regexp.MustCompile(fmt.Sprintf(`\branks? [0-9, and]*\b%d\b`, c.victim))
	for line := range strings.Lines(c.outcome.said) {
		text, failed := strings.CutPrefix(line, "# Run failed: ")
		if _, after, ok := strings.Cut(line, "nvls-allreduce: "); ok {
			text = after
		} else if !failed {
			continue
		}
		m := speaker.FindStringSubmatch(text)
		self := m != nil && m[1] == fmt.Sprint(c.victim)
		if self && !c.is("close", "nofile", "shm") {
			continue
		}
		if m != nil && !self {
			text = m[2]
		}
		if failed || m != nil && !self {
			text = itself.ReplaceAllString(text, "")
		}
		if victim.MatchString(text) && slices.ContainsFunc([]string{"stage", "MPI_", "connecting", "did not return", "write the results"}, func(s string) bool { return strings.Contains(text, s) }) {
			return true
		}
	}
	return false
}

// unnamed says why it is right that nobody names the stage and the victim; "" if
// it is not.
func (c *cell) unnamed() string {
	o := c.outcome
	gone := c.is("kill", "exit")
	connecting := c.point.stage == "connecting the ranks of this host"
	switch {
	case c.launcher.kills && gone:
		return "the launcher ends all ranks at once"
	case connecting && !c.launcher.mpi && strings.Contains(o.said, fmt.Sprintf("rank %d failed (", c.victim)):
		return "nobody was connected to see it; the launcher says who"
	case connecting && gone:
		return "the launcher says who, and ends the others before they give up"
	case c.point.mpi && gone:
		return "the ranks are in MPI's hands, and the launcher ends them"
	case c.point.mpi && c.is("stop", "late", "nofile") && strings.Contains(o.said, "MPI_"):
		return "MPI does not tell who is missing; the stage is told"
	case c.is("shm"):
		return "it is MPI that needs /dev/shm"
	}
	return ""
}

// codes are the exit codes that ranks other than the victim said.
func (c *cell) codes() []string {
	var codes []string
	for _, m := range exitCodes.FindAllStringSubmatch(c.outcome.said, -1) {
		if m[1] != fmt.Sprint(c.victim) && !slices.Contains(codes, m[2]) {
			codes = append(codes, m[2])
		}
	}
	return codes
}

// matrix is every fault at every point to each victim under the launchers.
func matrix(launchers []launcher) []*cell {
	var cells []*cell
	for _, l := range launchers {
		for _, p := range points {
			for _, a := range actions {
				for _, v := range victims {
					if p.mpi && !l.mpi || v != 0 && (p.zero || a == "disk" || a == "shm") {
						continue
					}
					cells = append(cells, &cell{launcher: l, action: a, victim: v, point: p})
				}
			}
		}
	}
	return cells
}

// sample takes a part of the matrix for every run of the tests: each action under
// the own launcher, the worst under the others, at points far apart.
func sample(slurm launcher) []*cell {
	at := func(l launcher, action string, victim int, stage string) *cell {
		return &cell{launcher: l, action: action, victim: victim, point: points[slices.IndexFunc(points, func(p point) bool { return p.stage == stage })]}
	}
	return []*cell{
		at(local, "kill", 1, "cuMulticastBindMem"),
		at(local, "stop", 1, "run all-reduces"),
		at(local, "exit", 1, "connecting the ranks of this host"),
		at(local, "close", 1, "verify"),
		at(local, "late", 1, "share the multicast object"),
		at(local, "nofile", 1, "exchange descriptors of signals and scratch"),
		at(local, "kill", 0, "write the results"),
		at(local, "stop", 0, "cuMulticastCreate"),
		at(local, "disk", 0, "verify"),
		at(openMPI, "kill", 1, "compare results"),
		at(openMPI, "stop", 1, "unique id"),
		at(openMPI, "kill", 0, "run all-reduces"),
		at(mpich, "kill", 0, "compare results"),
		at(mpich, "close", 1, "take down"),
		at(slurm, "kill", 0, "verify"),
		at(slurm, "stop", 1, "share the multicast object"),
	}
}

// TestMatrix runs the faults and judges each.
func TestMatrix(t *testing.T) {
	if os.Geteuid() != 0 {
		slurmtest.Skip(t, "mounting a small file system needs root")
	}
	cluster := slurmtest.Start(t)
	pmix := slurm(t, cluster, "pmix")
	groups := [][]*cell{sample(pmix)}
	if everything() {
		groups = nil
		for _, l := range []launcher{local, openMPI, mpich, pmix, slurm(t, cluster, "pmi2")} {
			groups = append(groups, matrix([]launcher{l}))
		}
	}
	if only := os.Getenv("NVLS_ALLREDUCE_SOAK_ONLY"); only != "" {
		wanted := regexp.MustCompile(only)
		for i := range groups {
			groups[i] = slices.DeleteFunc(groups[i], func(c *cell) bool { return !wanted.MatchString(c.String()) })
		}
	}
	var wg sync.WaitGroup
	for _, cells := range groups {
		if len(cells) == 0 {
			continue
		}
		most := width()
		if everything() {
			most = cells[0].launcher.width
		}
		wg.Go(func() { each(len(cells), most, func(i int) { cells[i].outcome = cells[i].job().run(t) }) })
	}
	wg.Wait()
	// Where the machine was too busy for the ranks to come to the stage in time,
	// nothing was tried yet.
	cells := slices.Concat(groups...)
	for slow := 2; slow <= 8; slow *= 2 {
		var again []*cell
		for _, c := range cells {
			if !c.outcome.fired {
				c.slow = slow
				again = append(again, c)
			}
		}
		each(len(again), 4, func(i int) { again[i].outcome = again[i].job().run(t) })
	}
	for _, c := range cells {
		if c.judge(); len(c.problems) > 0 {
			t.Errorf("%v: exit %d after %v: %s\n%s", c, c.outcome.exit, c.outcome.took, strings.Join(c.problems, "; "), shorten(c.outcome.said))
		}
	}
	t.Logf("%d runs, %d with problems, %d with longer timeouts", len(cells), failed(cells), slowed(cells))
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

// slowed counts those that had longer timeouts.
func slowed(cells []*cell) int {
	n := 0
	for _, c := range cells {
		if c.slow > 1 {
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

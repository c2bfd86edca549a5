package mutation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// waitLimit is how long a kernel waits for its peers, on the conductor's clock.
const waitLimit = 30 * time.Second

// waitTurns is how many turns of each rank of the team that is: many times what a
// whole call takes, of a ring among 8 ranks 35,000, of the others 17,000 at most.
func waitTurns(f kernels.Family) int {
	if f == kernels.Ring || f == Mixed {
		return 160_000
	}
	return 80_000
}

// member is one rank of a team.
type member struct {
	*grouptest.Rank
	memory  *collective.Memory
	channel *nvls.Channel
	copies  *fallback.CopyEngine
}

// Team is a group of ranks in this process that do one thing after the other
// together, on software devices with the weak memory model.
type Team struct {
	Ranks     int
	conductor *exec.Conductor
	jobs      []chan func(*member) error
	results   chan error
	ended     chan struct{}
	broken    bool // a device has failed: nothing runs on it any more
	log       recorder
	used      uint32 // calls of Use

	mu      sync.Mutex
	reached *coverage // while somebody wants to know
	dropped edge      // left out of all graphs
	replays bool      // graphs are those that a round runs, not ones of single calls
}

// place is a line of a kernel's PTX.
type place struct {
	kernel string
	line   int
}

// coverage is what a workload has reached: lines, and edges of graphs.
type coverage struct {
	lines map[place]bool
	edges map[edge]bool
}

// has tells whether a mutant lies where the workload has been.
func (c *coverage) has(m *Mutant) bool {
	return c.lines[place{m.Entry, m.Line}] || c.edges[m.edge]
}

// recorder takes what the group has to say about its end.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// NewTeam opens a group of n ranks.
func NewTeam(t testing.TB, n int) *Team {
	team := &Team{Ranks: n, conductor: exec.NewConductor(n, 0), results: make(chan error), ended: make(chan struct{}), log: recorder{TB: t}}
	for range n {
		team.jobs = append(team.jobs, make(chan func(*member) error))
	}
	go func() {
		defer close(team.ended)
		grouptest.Run(&team.log, n, func(_ int, o *collective.Options) {
			count := counter{}
			o.Timeout = waitLimit
			o.Sim.MemoryBytes = 16 << 20
			o.Sim.Weak, o.Sim.Conductor, o.Sim.Reached, o.Sim.DropEdge = true, team.conductor, team.reach,
				func(from, to string) bool { return team.drop(count.next(from, to)) }
		}, team.part)
	}()
	return team
}

// watch lets c take in what is reached from now on.
func (t *Team) watch(c *coverage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached = c
}

// reach takes a line that was executed.
func (t *Team) reach(kernel string, line int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reached != nil {
		t.reached.lines[place{kernel, line}] = true
	}
}

// replay tells that graphs are recorded that will run, or no more.
func (t *Team) replay(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replays = on
}

// drop takes an edge of a graph, and tells whether it is left out.
func (t *Team) drop(e edge) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.replays {
		return false
	}
	if t.reached != nil {
		t.reached.edges[e], t.reached.edges[edge{e.from, e.to, 0}] = true, true
	}
	return t.dropped.is(e)
}

// part is what a rank does: all jobs, until there are no more.
func (t *Team) part(r *grouptest.Rank) {
	m := &member{Rank: r, memory: r.Alloc(memoryBytes)}
	c, err := nvls.NewChannel(context.Background(), r.Group, m.memory)
	r.OK(err, "NewChannel")
	m.channel = c
	m.copies, err = fallback.NewCopyEngine(context.Background(), r.Group, collective.Tuning{})
	r.OK(err, "NewCopyEngine")
	for job := range t.jobs[r.Rank()] {
		t.results <- m.try(job)
	}
	r.Close(m.copies)
	r.OK(c.Close(context.Background()), "closing the channel")
	r.Close(m.memory)
}

// try runs a job; what it panics with is its error.
func (m *member) try(job func(*member) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rank %d: %v", m.Rank.Rank(), p)
		}
	}()
	return job(m)
}

// Do runs a job on all ranks and waits for all.
func (t *Team) Do(job func(*member) error) error {
	for i := range t.jobs {
		select {
		case t.jobs[i] <- job:
		case <-t.ended:
			return fmt.Errorf("the group could not be opened: %q", t.log.errors)
		}
	}
	var errs []error
	for range t.jobs {
		if err := <-t.results; err != nil {
			errs = append(errs, err)
			if code, _ := device.CodeOf(err); code != 0 {
				t.broken = true
			}
		}
	}
	return errors.Join(errs...)
}

// Close ends the team. What it says is of no interest once a device has failed.
func (t *Team) Close() error {
	for _, j := range t.jobs {
		close(j)
	}
	<-t.ended
	if t.broken || len(t.log.errors) == 0 {
		return nil
	}
	return fmt.Errorf("closing the group: %q", t.log.errors)
}

// Use makes every rank load its kernels anew, broken by a mutant unless that is
// nil, and sets the counters of all ranks to a value that no flag that was left
// behind has come near to.
func (t *Team) Use(mutant *Mutant) error {
	var rewrite func(string) string
	t.mu.Lock()
	t.dropped = edge{}
	if mutant != nil {
		rewrite, t.dropped = mutant.rewrite, mutant.edge
	}
	t.mu.Unlock()
	t.used++
	used := t.used
	return t.Do(func(m *member) error {
		m.Library().Rewrite = rewrite
		err := m.Library().Close()
		s := m.Workspace().Signals()
		return errors.Join(err,
			m.Stream().Set32(s, 0, kernels.StatusBytes/4),
			m.Stream().Set32(s+countersOffset, used<<12, (kernels.SignalBytes-countersOffset)/4),
			m.Stream().Wait(context.Background()))
	})
}

// countersOffset is where the counters begin in struct Signals of control.cuh;
// before them stand the status and the peers' addresses.
const countersOffset = 256

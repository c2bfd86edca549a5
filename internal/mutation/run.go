package mutation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Elements are the data types whose kernels are mutated.
var Elements = []string{"float", "half", "bfloat16"}

// worlds are the numbers of ranks with which a family's mutants run: the largest
// for each of the variants for 2, for up to 4 and for up to 8 ranks that the
// portable kernels have. NVLS kernels have one variant; only what is in no pack
// differs with more than a few ranks.
var worlds = []int{2, 4, 8}

// Outcome of a mutant.
type Outcome struct {
	*Mutant
	Ranks int    // with which it was found out; 0: it survived
	Seed  uint64 // the same
	By    string // what went wrong
	Tried int    // rounds
}

// Runner tries mutants, one at a time.
type Runner struct {
	t       testing.TB
	seeds   uint64 // rounds that a mutant has to survive, for each number of ranks
	teams   map[int]*Team
	reached map[string]*coverage // by kernels and ranks
}

// NewRunner is for mutants that survive if they do so for seeds rounds.
func NewRunner(t testing.TB, seeds uint64) *Runner {
	return &Runner{t: t, seeds: seeds, teams: map[int]*Team{}, reached: map[string]*coverage{}}
}

// team gives the team of n ranks, a new one if need be.
func (r *Runner) team(n int) *Team {
	if t := r.teams[n]; t != nil && !t.broken {
		return t
	}
	r.drop(n)
	r.teams[n] = NewTeam(r.t, n)
	return r.teams[n]
}

func (r *Runner) drop(n int) {
	if t := r.teams[n]; t != nil {
		if err := t.Close(); err != nil {
			r.t.Error(err)
		}
		delete(r.teams, n)
	}
}

// Close ends all teams.
func (r *Runner) Close() {
	for n := range r.teams {
		r.drop(n)
	}
}

// rounds is how many of some rounds are run among n ranks.
func rounds(n int, seeds uint64) uint64 {
	if n == kernels.MaxRanks {
		return max(seeds/2, 1)
	}
	return seeds
}

// workload is the family whose calls run a mutant.
func (m *Mutant) workload() kernels.Family {
	if m.Family == kernels.LocalReduce || m.Family == kernels.RankBarrier {
		return CopyEngine
	}
	return m.Family
}

// covered is what the workload reaches with n ranks. The kernels themselves must pass
// every round that their mutants will run.
func (r *Runner) covered(f kernels.Family, element string, n int) (*coverage, error) {
	key := fmt.Sprint(f, element, n)
	if c := r.reached[key]; c != nil {
		return c, nil
	}
	d, err := collective.ParseDType(element)
	if err != nil {
		return nil, err
	}
	t := r.team(n)
	if err := t.Use(nil); err != nil {
		return nil, err
	}
	c := &coverage{lines: map[place]bool{}, edges: map[edge]bool{}}
	t.watch(c)
	defer t.watch(nil)
	for seed := range rounds(n, r.seeds) {
		if err := t.Round(f, d, seed); err != nil {
			return nil, fmt.Errorf("%s of %s as it ships, %d ranks, seed %d: %w", f, element, n, seed, err)
		}
	}
	r.reached[key] = c
	return c, nil
}

// stubborn is how many times as many rounds a mutant gets that has survived
// without a reason.
const stubborn = 10

// Try runs the workload with a mutant until something goes wrong.
func (r *Runner) Try(m *Mutant) (Outcome, error) {
	out, err := r.try(m, 0, r.seeds)
	if err == nil && out.Tried == 0 {
		d, err := collective.ParseDType(m.Element)
		if err == nil {
			err = r.impatient(m, d, &out)
		}
		return out, err
	}
	if err != nil || out.Killed() || out.Why() != "" {
		return out, err
	}
	more, err := r.try(m, r.seeds, r.seeds*stubborn)
	if err != nil || !more.Killed() {
		return more, err
	}
	// These rounds the kernel itself has not passed yet.
	d, err := collective.ParseDType(m.Element)
	if err != nil {
		return out, err
	}
	t := r.team(more.Ranks)
	if err := errors.Join(t.Use(nil), t.Round(m.workload(), d, more.Seed)); err != nil {
		return out, fmt.Errorf("%s of %s as it ships, %d ranks, seed %d: %w", m.Family, m.Element, more.Ranks, more.Seed, err)
	}
	return more, nil
}

// try runs the seeds from first on, and before limit.
func (r *Runner) try(m *Mutant, first, limit uint64) (Outcome, error) {
	out := Outcome{Mutant: m}
	d, err := collective.ParseDType(m.Element)
	if err != nil {
		return out, err
	}
	for _, n := range worlds {
		c, err := r.covered(m.workload(), m.Element, n)
		if err != nil {
			return out, err
		}
		if !c.has(m) {
			continue
		}
		t := r.team(n)
		if err := t.Use(m); err != nil {
			return out, err
		}
		for seed := first; seed < rounds(n, limit); seed++ {
			out.Tried++
			err := t.Round(m.workload(), d, seed)
			var refused *refusedError
			if errors.As(err, &refused) {
				return out, fmt.Errorf("%v: %w", m, err)
			}
			if err != nil {
				out.Ranks, out.Seed, out.By = n, seed, verdict(err)
				return out, nil
			}
		}
	}
	return out, nil
}

// gaveUp is the verdict on a wait that ran into its deadline.
const gaveUp = "a wait without end"

// verdict says in few words how a mutant was found out.
func verdict(err error) string {
	s := err.Error()
	switch {
	case strings.Contains(s, "expected") && strings.Contains(s, "of the result is"):
		return "wrong result"
	case strings.Contains(s, "data race"):
		return "data race"
	case strings.Contains(s, "the device failed"):
		return "fault"
	case strings.Contains(s, "gave up"):
		return gaveUp
	}
	return strings.SplitN(s, ":", 2)[0]
}

package mutation

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// impatientSeeds is how many impatient rounds a mutant has to survive for each number of
// ranks.
const impatientSeeds = 6

// Impatient runs one call with so little patience that some wait runs into its deadline,
// now early and now late in the kernel. A rank may give up then, and results are
// not compared; but no device may fail. The group is of no use afterwards.
func (t *Team) Impatient(f kernels.Family, d collective.DType, seed uint64) error {
	c := calls(f, d, t.Ranks, seed)[seed%callsOfRound]
	prepared := make([]collective.Prepared, t.Ranks)
	err := t.Do(func(m *member) (err error) {
		prepared[m.Rank.Rank()], err = c.launch(m)
		return err
	})
	if err != nil {
		return &refusedError{err}
	}
	turns := 100 << (mix(seed) % 6)
	t.conductor.TurnTime = waitLimit / time.Duration(t.Ranks*turns)
	t.conductor.Reseed(seed)
	err = t.Do(func(m *member) error { return m.inGraph(prepared[m.Rank.Rank()].Enqueue) })
	if err != nil && !t.broken && verdict(err) == gaveUp {
		t.broken = true
		return nil
	}
	return err
}

// impatient tries a mutant that the workload does not reach where a wait fails.
func (r *Runner) impatient(m *Mutant, d collective.DType, out *Outcome) error {
	f := m.workload()
	for _, n := range worlds {
		key := fmt.Sprint("impatient ", f, m.Element, n)
		c := r.reached[key]
		if c == nil {
			c = &coverage{lines: map[place]bool{}, edges: map[edge]bool{}}
			for seed := range uint64(impatientSeeds) {
				t := r.team(n)
				if err := t.Use(nil); err != nil {
					return err
				}
				t.watch(c)
				err := t.Impatient(f, d, seed)
				t.watch(nil)
				if err != nil {
					return fmt.Errorf("%s of %s as it ships, %d ranks, impatient, seed %d: %w", f, m.Element, n, seed, err)
				}
			}
			r.reached[key] = c
		}
		if !c.has(m) {
			continue
		}
		for seed := range uint64(impatientSeeds) {
			t := r.team(n)
			if err := t.Use(m); err != nil {
				return err
			}
			out.Tried++
			err := t.Impatient(f, d, seed)
			var refused *refusedError
			if errors.As(err, &refused) {
				return fmt.Errorf("%v: %w", m, err)
			}
			if err != nil {
				out.Ranks, out.Seed, out.By = n, seed, verdict(err)
				return nil
			}
		}
	}
	return nil
}

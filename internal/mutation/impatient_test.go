package mutation

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// A wait that fails, early or late in a kernel, ends the kernel and nothing else:
// no device fails, whatever was under way.
func TestImpatient(t *testing.T) {
	gaveUps := 0
	for i, f := range append(Families[:len(Families):len(Families)], CopyEngine) {
		team := NewTeam(t, 2+i%3)
		err := team.Use(nil)
		for seed := uint64(i); err == nil && !team.broken && seed < uint64(i+4); seed++ {
			err = team.Impatient(f, collective.Float, seed)
		}
		if err != nil {
			t.Errorf("%s among %d ranks: %v", f, team.Ranks, err)
		} else if team.broken {
			gaveUps++
		}
		if err := team.Close(); err != nil {
			t.Error(err)
		}
	}
	if gaveUps < len(Families)/2 {
		t.Errorf("a wait failed in the rounds of %d of %d families", gaveUps, len(Families)+1)
	}
}

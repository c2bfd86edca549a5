package mutation

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Outcomes come back from files as they were, of all mutants and of no others.
func TestOutcomesKept(t *testing.T) {
	list, err := Mutants(kernels.Packet, "float")
	if err != nil {
		t.Fatal(err)
	}
	var all []Outcome
	for i, m := range list {
		all = append(all, Outcome{Mutant: m, Ranks: i % 3 * 2, Seed: uint64(i), By: "data race", Tried: i})
	}
	a, b := filepath.Join(t.TempDir(), "a.json"), filepath.Join(t.TempDir(), "b.json")
	for path, part := range map[string][]Outcome{a: all[5:], b: all[:5]} {
		if err := Save(path, part); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load([]string{a, b}, list)
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d of %d outcomes, %v", len(got), len(all), err)
	}
	for i := range all {
		if got[i] != all[i] {
			t.Errorf("%+v, saved as %+v", got[i], all[i])
		}
	}
	if _, err := Load([]string{a}, list); err == nil || !strings.Contains(err.Error(), "not tried") {
		t.Errorf("five missing: %v", err)
	}
	if _, err := Load([]string{a, b}, list[1:]); err == nil || !strings.Contains(err.Error(), "no such mutant") {
		t.Errorf("one too many: %v", err)
	}
}

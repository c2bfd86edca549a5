package mutation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
)

// kept is an outcome in a file.
type kept struct {
	Mutant string // its String
	New    string // what stood there
	Ranks  int
	Seed   uint64
	By     string
	Tried  int
}

// labels begin with the number of the function in its module, which says nothing
// of the kernel.
var labels = regexp.MustCompile(`\$L__BB\d+_`)

func key(mutant, by string) string { return labels.ReplaceAllString(mutant+"\n"+by, "$$L__BB_") }

// Save writes outcomes to a file, so that the kernels can be tried by several
// processes and reported together.
func Save(path string, all []Outcome) error {
	var list []kept
	for _, o := range all {
		list = append(list, kept{o.String(), o.New, o.Ranks, o.Seed, o.By, o.Tried})
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o666)
}

// Load gives the outcomes of mutants that files keep. All must have one, and none
// may be of a mutant that is not asked for: kernels may have changed since.
func Load(paths []string, mutants []*Mutant) (all []Outcome, err error) {
	found := map[string]kept{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		var list []kept
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for _, k := range list {
			found[key(k.Mutant, k.New)] = k
		}
	}
	var errs []error
	for _, m := range mutants {
		k, ok := found[key(m.String(), m.New)]
		if !ok {
			errs = append(errs, fmt.Errorf("%v: not tried", m))
			continue
		}
		delete(found, key(m.String(), m.New))
		all = append(all, Outcome{Mutant: m, Ranks: k.Ranks, Seed: k.Seed, By: k.By, Tried: k.Tried})
	}
	for _, k := range found {
		errs = append(errs, fmt.Errorf("%s: no such mutant any more", k.Mutant))
	}
	return all, errors.Join(errs...)
}

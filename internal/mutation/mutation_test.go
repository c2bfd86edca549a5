package mutation

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	report  = flag.String("mutation.report", "", "try all mutants and write what came of them to this file")
	save    = flag.String("mutation.save", "", "try all mutants and write their outcomes to this file")
	outcome = flag.String("mutation.outcomes", "", "try none, but report what these files keep, comma-separated")
	onlyOf  = flag.String("mutation.kernels", "", "of kernels whose FAMILY/ELEMENT begins so, comma-separated, only")
	seeds   = flag.Uint64("mutation.seeds", 4, "rounds that a mutant has to survive")
	workers = flag.Int("mutation.workers", 2, "mutants at one time")
)

// sample is how many mutants lie between two that a test without flags tries, in
// fewer rounds. Beside these it tries one of each kind.
const (
	sample       = 37
	sampleRounds = 2
)

// Ranks take turns, one at a time: with no more threads of the operating system
// than teams they pass them on without its help.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(max(1, *workers))
	debug.SetGCPercent(400) // a mutant leaves much behind, and little stays
	os.Exit(m.Run())
}

// Every mutant is found out, or there is a reason why it need not be.
func TestMutants(t *testing.T) {
	list := mutants(t)
	var all []Outcome
	switch {
	case *outcome != "":
		var err error
		if all, err = Load(strings.Split(*outcome, ","), list); err != nil {
			t.Fatal(err)
		}
	case *report != "" || *save != "":
		all = try(t, list, *seeds)
	default:
		all = try(t, some(list), sampleRounds)
		if *onlyOf == "" && len(all) < 80 {
			t.Errorf("only %d mutants were tried", len(all))
		}
	}
	killed := 0
	for _, o := range all {
		if o.Killed() {
			killed++
			if e := o.excuse(); e != nil {
				t.Errorf("%v\nwas found out (%s), and yet an excuse fits it: %s", o.Mutant, o.By, e.title)
			}
		} else if o.Why() == "" {
			t.Errorf("%v\nwas not found out in %d rounds", o.Mutant, o.Tried)
		}
	}
	t.Logf("%d of %d mutants were found out", killed, len(all))
	if killed < len(all)*17/20 && *onlyOf == "" {
		t.Error("too few")
	}
	if *save != "" {
		if err := Save(*save, all); err != nil {
			t.Error(err)
		}
	}
	if *report != "" {
		var b bytes.Buffer
		if err := errors.Join(Report(&b, all, *seeds, *onlyOf), os.WriteFile(*report, b.Bytes(), 0o666)); err != nil {
			t.Error(err)
		}
	}
}

// some is a sample of the mutants: every kernel, and every kind, the kernel a different one
// for each kind.
func some(list []*Mutant) (out []*Mutant) {
	kinds := map[string][]*Mutant{}
	for i, m := range list {
		if i%sample == 0 {
			out = append(out, m)
		} else {
			kinds[m.Kind] = append(kinds[m.Kind], m)
		}
	}
	n := 0
	for _, r := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, kinds[r][n*sample%len(kinds[r])])
		n++
	}
	slices.SortStableFunc(out, func(a, b *Mutant) int { return strings.Compare(a.module(), b.module()) })
	return out
}

// try runs mutants, those that survive for so many rounds.
func try(t *testing.T, list []*Mutant, rounds uint64) []Outcome {
	outcomes := make([]Outcome, len(list))
	var all sync.WaitGroup
	for w := range *workers {
		all.Go(func() {
			r := NewRunner(t, rounds)
			defer r.Close()
			// Neighbours go to one worker: they are of one kernel.
			for i := w * len(list) / *workers; i < (w+1)*len(list) / *workers; i++ {
				o, err := r.Try(list[i])
				if err != nil {
					t.Error(err)
					return
				}
				outcomes[i] = o
				if *report != "" || *save != "" {
					fmt.Fprintf(os.Stderr, "%v: %s\n", o.Mutant, fate(o))
				}
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(outcomes, func(o Outcome) bool { return o.Mutant == nil })
}

// mutants lists those of all kernels that are asked for.
func mutants(t *testing.T) (list []*Mutant) {
	for _, f := range Mutated {
		for _, e := range Elements {
			// Of the portable kernels, whose code differs in the arithmetic alone, float's.
			if !f.NeedsMulticast() && *onlyOf == "" && e != "float" {
				continue
			}
			if *onlyOf != "" && !slices.ContainsFunc(strings.Split(*onlyOf, ","), func(k string) bool { return strings.HasPrefix(string(f)+"/"+e, k) }) {
				continue
			}
			l, err := Mutants(f, e)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, l...)
		}
	}
	return list
}

package mutation

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	report  = flag.String("mutation.report", "", "try all mutants and write what came of them to this file")
	onlyOf  = flag.String("mutation.kernels", "", "of kernels whose FAMILY/ELEMENT begins so, comma-separated, only")
	seeds   = flag.Uint64("mutation.seeds", 4, "rounds that a mutant has to survive")
	workers = flag.Int("mutation.workers", 2, "mutants at one time")
)

// sample is how many mutants lie between two that a test without flags tries,
// and sampleTime is how long it tries some.
const (
	sample     = 31
	sampleTime = 20 * time.Second
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
	deadline := time.Now().Add(24 * time.Hour)
	if *report == "" {
		var some []*Mutant
		for i := 0; i < len(list); i += sample {
			some = append(some, list[i])
		}
		list, deadline = some, time.Now().Add(sampleTime)
	}
	outcomes := make([]Outcome, len(list))
	var all sync.WaitGroup
	for w := range *workers {
		all.Go(func() {
			r := NewRunner(t, *seeds)
			defer r.Close()
			// Neighbours go to one worker: they are of one kernel.
			for i := w * len(list) / *workers; i < (w+1)*len(list) / *workers && time.Now().Before(deadline); i++ {
				o, err := r.Try(list[i])
				if err != nil {
					t.Error(err)
					return
				}
				outcomes[i] = o
				if *report != "" {
					fmt.Fprintf(os.Stderr, "%v: %s\n", o.Mutant, fate(o))
				}
				if !o.Killed() && o.Why() == "" {
					t.Errorf("%v\nwas not found out in %d rounds", o.Mutant, o.Tried)
				}
			}
		})
	}
	all.Wait()
	outcomes = slices.DeleteFunc(outcomes, func(o Outcome) bool { return o.Mutant == nil })
	killed := 0
	for _, o := range outcomes {
		if o.Killed() {
			killed++
		}
	}
	t.Logf("%d of %d mutants were found out", killed, len(outcomes))
	if *report == "" {
		if killed < len(outcomes)/2 {
			t.Error("most mutants were not found out")
		}
		return
	}
	f, err := os.Create(*report)
	if err != nil {
		t.Fatal(err)
	}
	if err := Report(f, outcomes, *seeds, *onlyOf); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// mutants lists those of all kernels that are asked for.
func mutants(t *testing.T) (list []*Mutant) {
	for _, f := range Families {
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

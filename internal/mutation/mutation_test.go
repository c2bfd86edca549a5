package mutation

import (
	"bytes"
	"errors"
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
	save    = flag.String("mutation.save", "", "try all mutants and write their outcomes to this file")
	outcome = flag.String("mutation.outcomes", "", "try none, but report what these files keep, comma-separated")
	onlyOf  = flag.String("mutation.kernels", "", "of kernels whose FAMILY/ELEMENT begins so, comma-separated, only")
	seeds   = flag.Uint64("mutation.seeds", 4, "rounds that a mutant has to survive")
	workers = flag.Int("mutation.workers", 2, "mutants at one time")
)

// sample is how many mutants lie between two that a test without flags tries, in
// fewer rounds, and sampleTime is how long it tries some.
const (
	sample       = 31
	sampleRounds = 2
	sampleTime   = 20 * time.Second
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
		all = try(t, list, *seeds, time.Now().Add(24*time.Hour))
	default:
		var some []*Mutant
		for i := 0; i < len(list); i += sample {
			some = append(some, list[i])
		}
		all = try(t, some, sampleRounds, time.Now().Add(sampleTime))
	}
	killed := 0
	for _, o := range all {
		if o.Killed() {
			killed++
		} else if o.Why() == "" {
			t.Errorf("%v\nwas not found out in %d rounds", o.Mutant, o.Tried)
		}
	}
	t.Logf("%d of %d mutants were found out", killed, len(all))
	if killed < len(all)/2 {
		t.Error("most mutants were not found out")
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

// try runs mutants until the deadline, those that survive for so many rounds.
func try(t *testing.T, list []*Mutant, rounds uint64, deadline time.Time) []Outcome {
	outcomes := make([]Outcome, len(list))
	var all sync.WaitGroup
	for w := range *workers {
		all.Go(func() {
			r := NewRunner(t, rounds)
			defer r.Close()
			// Neighbours go to one worker: they are of one kernel.
			for i := w * len(list) / *workers; i < (w+1)*len(list) / *workers && time.Now().Before(deadline); i++ {
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

package mutation

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// classes are data types by the size of an element.
var classes = [][]collective.DType{
	{collective.Int8, collective.Uint8},
	{collective.Half, collective.BFloat16},
	{collective.Float, collective.Int32, collective.Uint32},
	{collective.Double, collective.Int64, collective.Uint64},
}

var exploreFor = flag.Duration("explore.time", 20*time.Second, "how long the kernels as they ship are explored")

// inARow is how many rounds a team has before the next number of ranks gets its
// turn: a team takes time to open, and open ones take memory, some GB.
const inARow = 8

// The kernels as they ship give right results under every seed: each family,
// each size of an element, 2 to 8 ranks. Seeds go on until the time is over; the
// first ones take combinations that lie far apart.
func TestShippedKernels(t *testing.T) {
	type round struct {
		family kernels.Family
		class  int
	}
	var all []round
	families := append(slices.Clone(Families), CopyEngine, Mixed)
	for c := range classes {
		for _, f := range families {
			if !f.NeedsMulticast() || classes[c][0].Size() > 1 { // the switch has no 8-bit arithmetic
				all = append(all, round{f, c})
			}
		}
	}
	const teams = kernels.MaxRanks - 1
	tried := map[kernels.Family]int{}
	var team *Team
	end := func() {
		if team == nil {
			return
		}
		if err := team.Close(); err != nil {
			t.Error(err)
		}
	}
	defer func() { end() }()
	deadline := time.Now().Add(*exploreFor)
	seed := uint64(0)
	// However slow the machine: every number of ranks, and every family and size.
	const least = teams * inARow
	ranks := map[int]int{}
	for ; time.Now().Before(deadline) || seed < least; seed++ {
		if seed%inARow == 0 {
			end()
			team = NewTeam(t, 2+int(seed/inARow%teams))
			if err := team.Use(nil); err != nil {
				t.Fatal(err)
			}
		}
		// 11 is a prime that does not divide their number: all come around, and the
		// shift lets each meet all numbers of ranks.
		n := uint64(len(all))
		r := all[(seed+seed/(n*least))*11%n]
		// Bits of a round's seed choose its shape: they may not follow the combination.
		draw := rand.New(rand.NewPCG(seed, 0))
		d := classes[r.class][draw.IntN(len(classes[r.class]))]
		shape := draw.Uint64()
		if err := team.Round(r.family, d, shape); err != nil {
			t.Fatalf("%s of %s among %d ranks, seed %#x: %v", r.family, d, team.Ranks, shape, err)
		}
		tried[r.family]++
		ranks[team.Ranks]++
	}
	t.Logf("%d seeds of %d combinations, 5 calls each", seed, teams*len(all))
	for _, f := range families {
		t.Logf("%s: %d", f, tried[f])
		if tried[f] < 3 {
			t.Errorf("%s had %d seeds", f, tried[f])
		}
	}
	if len(ranks) != teams {
		t.Errorf("seeds by number of ranks: %v", ranks)
	}
}

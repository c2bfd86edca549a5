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

// The kernels as they ship give right results under every seed: each family,
// each size of an element, 2 to 8 ranks. Seeds go on until the time is over; the
// first ones take combinations that lie far apart.
func TestShippedKernels(t *testing.T) {
	type round struct {
		family kernels.Family
		ranks  int
		class  int
	}
	var all []round
	for c := range classes {
		for n := 2; n <= kernels.MaxRanks; n++ {
			for _, f := range append(slices.Clone(Families), CopyEngine) {
				if !f.NeedsMulticast() || classes[c][0].Size() > 1 { // the switch has no 8-bit arithmetic
					all = append(all, round{f, n, c})
				}
			}
		}
	}
	teams := map[int]*Team{}
	defer func() {
		for _, team := range teams {
			if err := team.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	deadline := time.Now().Add(*exploreFor)
	seed, tried := uint64(0), map[kernels.Family]int{}
	for ; time.Now().Before(deadline); seed++ {
		// 59 is a prime that does not divide their number: all come around.
		r := all[seed*59%uint64(len(all))]
		team := teams[r.ranks]
		if team == nil {
			team = NewTeam(t, r.ranks)
			teams[r.ranks] = team
			if err := team.Use(nil); err != nil {
				t.Fatal(err)
			}
		}
		// Bits of a round's seed choose its shape: they may not follow the combination.
		draw := rand.New(rand.NewPCG(seed, 0))
		d := classes[r.class][draw.IntN(len(classes[r.class]))]
		shape := draw.Uint64()
		if err := team.Round(r.family, d, shape); err != nil {
			t.Fatalf("%s of %s among %d ranks, seed %#x: %v", r.family, d, r.ranks, shape, err)
		}
		tried[r.family]++
	}
	t.Logf("%d seeds of %d combinations, 5 calls each", seed, len(all))
	for _, f := range append(slices.Clone(Families), CopyEngine) {
		t.Logf("%s: %d", f, tried[f])
	}
	if seed < 8 {
		t.Errorf("only %d seeds in %v", seed, *exploreFor)
	}
}

package mutation

import (
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

// exploreFor is how long the test explores, at most; a race detector or a slow
// machine then gets fewer seeds.
const exploreFor = 20 * time.Second

// The kernels as they are give right results under every seed: each family, each
// size of an element, 2 to 8 ranks.
func TestShippedKernels(t *testing.T) {
	deadline := time.Now().Add(exploreFor)
	for n := 2; n <= kernels.MaxRanks; n++ {
		team := NewTeam(t, n)
		if err := team.Use(nil); err != nil {
			t.Fatal(err)
		}
		rounds := 0
		for seed := uint64(0); seed < 3; seed++ {
			for i, f := range Families {
				for j, class := range classes {
					d := class[int(seed)%len(class)]
					if f.NeedsMulticast() && d.Size() == 1 || seed > 0 && (i+j+int(seed)+n)%4 != 0 {
						continue
					}
					if time.Now().After(deadline) {
						t.Logf("out of time with %d ranks, seed %d", n, seed)
					}
					if err := team.Round(f, d, seed); err != nil {
						t.Fatalf("%s of %s among %d ranks, seed %d: %v", f, d, n, seed, err)
					}
					rounds++
				}
			}
		}
		t.Logf("%d ranks: %d rounds of 5 calls", n, rounds)
		if err := team.Close(); err != nil {
			t.Error(err)
		}
	}
}

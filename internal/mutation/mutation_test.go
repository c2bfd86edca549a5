package mutation

import (
	"flag"
	"testing"
	"time"
)

var (
	all    = flag.Bool("mutation.all", false, "try every mutant and write the report")
	stride = flag.Int("mutation.stride", 0, "try every n-th mutant")
)

func TestTry(t *testing.T) {
	r := NewRunner(t, 8)
	defer r.Close()
	start := time.Now()
	i, n := 0, 0
	for _, f := range Families {
		for _, e := range Elements {
			ms, err := Mutants(f, e)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range ms {
				if i++; *stride == 0 || i%*stride != 0 {
					continue
				}
				n++
				from := time.Now()
				o, err := r.Try(m)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%4d ms %v: %d ranks, seed %d, %d rounds: %s", time.Since(from).Milliseconds(), m, o.Ranks, o.Seed, o.Tried, o.By)
			}
		}
	}
	t.Log(n, time.Since(start))
}

//go:build linux

package endtoend

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// sizes is a sweep by factor, as -b, -e and -f ask for it.
type sizes struct {
	min, max uint64
	factor   float64
}

// counts are the elements of each size, by nccl-tests' rule: multiply the
// unrounded bytes, round down to whole elements; from 0 go on at one element.
func (s sizes) counts(element uint64) []uint64 {
	var out []uint64
	for n := s.min; n <= s.max; {
		if c := n / element; (c > 0 || s.min == 0) && !slices.Contains(out, c) {
			out = append(out, c)
		}
		if n == 0 {
			n = element
		} else {
			n = max(uint64(float64(n)*s.factor), n+1)
		}
	}
	return out
}

// call is what tells rows apart.
type call struct {
	mode, dtype, op string
	count           uint64
	placement       result.Placement
	cycle           int
}

// calls are those of a run of modes × dtypes × ops × sizes, without what NVLS
// cannot do.
func calls(modes []string, dtypes []collective.DType, ops []collective.Op, s sizes) []call {
	var out []call
	for _, m := range modes {
		for _, d := range dtypes {
			for _, o := range ops {
				if isNVLS(m) && !switchCan(d, o) {
					continue
				}
				for _, n := range s.counts(uint64(d.Size())) {
					for _, p := range []result.Placement{result.OutOfPlace, result.InPlace} {
						out = append(out, call{m, d.String(), o.String(), n, p, 0})
					}
				}
			}
		}
	}
	return out
}

func isNVLS(mode string) bool { return mode == "nvls-zero-copy" || mode == "nvls-copy-in" }

// switchCan is the table of what NVSwitch can reduce, written down again.
func switchCan(d collective.DType, o collective.Op) bool {
	if o == collective.Prod {
		return false
	}
	sum := o == collective.Sum || o == collective.Avg
	switch d.String() {
	case "int32", "uint32", "int64", "uint64", "half", "bfloat16":
		return true
	case "float", "double":
		return sum
	}
	return false
}

// right checks that a run has the rows of the calls and no others, all verified
// and without a wrong element.
func (o outcome) right(t *testing.T, want []call) {
	t.Helper()
	if o.run == nil {
		t.Fatal("no result was written")
	}
	leftovers.Sockets(t, o.run.ID)
	if !o.run.Simulated {
		t.Error("the result does not say simulated")
	}
	got := map[call]int{}
	for _, r := range o.run.Rows {
		c := call{r.Mode, r.DataType, r.Op, r.Count, r.Placement, r.Cycle}
		got[c]++
		switch {
		case r.Wrong == nil:
			t.Errorf("%v was not checked", c)
		case r.Checked == nil || *r.Checked != r.Count*uint64(o.run.WorldSize*o.run.Sweep.Check):
			t.Errorf("%v: %v elements were checked, by %d ranks in %d calls", c, r.Checked, o.run.WorldSize, o.run.Sweep.Check)
		case *r.Wrong != 0:
			t.Errorf("%v: %d elements are wrong, first %+v", c, *r.Wrong, r.FirstWrong)
		}
	}
	for _, c := range want {
		if got[c] != 1 {
			t.Errorf("%v: %d rows, want 1", c, got[c])
		}
		delete(got, c)
	}
	for _, c := range slices.SortedFunc(maps.Keys(got), func(a, b call) int { return cmp.Compare(a.count, b.count) }) {
		t.Errorf("%v was not asked for", c)
	}
}

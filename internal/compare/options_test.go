package compare_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/compare"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// peers is one run of auto and two peers, of which each is the faster at one
// size, in two data types.
func peers() *result.Run {
	r := run(
		row("nccl", 1<<10, around(6)...), row("nccl", 1<<20, around(14)...), row("nccl", 1<<30, around(3282)...),
		row("nccl-symmetric", 1<<10, around(3.7)...), row("nccl-symmetric", 1<<20, around(14.3)...), row("nccl-symmetric", 1<<30, around(4195)...),
		row("auto", 1<<10, around(3.2)...), row("auto", 1<<20, around(9.4)...), row("auto", 1<<30, around(3156)...),
	)
	for i, a := range []string{"p2p-packet packet 1x128", "p2p-two-shot two-shot 32x512", "p2p-two-shot two-shot 132x512"} {
		r.Rows[6+i].Algorithm = a
	}
	for _, x := range r.Rows[6:] {
		x.DataType, x.Times = "bfloat16", around(x.Time*1.02)
		r.Rows = append(r.Rows, x)
	}
	r.LinkLimit, r.LinkRates = 396, &result.LinkRates{Store: 361, Load: 335, Copy: 396}
	return r
}

func compared(t *testing.T, a, b *result.Run, o compare.Options) *compare.Comparison {
	t.Helper()
	c, err := compare.Compare(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Of several modes the fastest of each size is the one compared with, and it is
// named.
func TestFastestOfSeveral(t *testing.T) {
	r := peers()
	o := compare.Options{ModesA: []string{"nccl", "nccl-symmetric", "torch"}, ModesB: []string{"auto"}, Goals: []compare.Goal{{From: 1 << 10, To: 16 << 10, Time: 0.9}, {From: 1 << 20, To: 1 << 30, Time: 0.8}}}
	c := compared(t, r, r, o)
	type found struct {
		size         uint64
		a, b, ran    string
		met, hasGoal bool
	}
	var got []found
	for _, x := range c.Rows {
		got = append(got, found{x.Size, x.ModeA, x.ModeB, x.AlgorithmB, x.Met(), x.Goal != nil})
	}
	want := []found{
		{1 << 10, "nccl-symmetric", "auto", "p2p-packet packet 1x128", true, true},
		{1 << 20, "nccl", "auto", "p2p-two-shot two-shot 32x512", true, true},
		{1 << 30, "nccl", "auto", "p2p-two-shot two-shot 132x512", false, true},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(found{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if missed := c.Missed(); len(missed) != 1 || !strings.Contains(missed[0], "1073741824 bytes: 0.962 of A's time, the goal is 0.8") {
		t.Errorf("%q", missed)
	}
	if !slices.Equal(c.MissingA, []string{"torch"}) || len(c.OnlyB) != 3 {
		t.Errorf("missing %v, only in B %v", c.MissingA, c.OnlyB)
	}
	// 1 GiB in 3156 us on 8 ranks is 595 GB/s of bus bandwidth over 361.
	if s := c.Rows[2].StoreShareB; s == nil || *s < 1.6 || *s > 1.7 {
		t.Errorf("share of the stores' rate %v", s)
	}
	// A mode whose data is wrong is no fast one.
	one := uint64(1)
	r.Rows[3].Wrong = &one
	if x := compared(t, r, r, o).Rows[0]; x.ModeA != "nccl" || x.Verdict != compare.Faster {
		t.Errorf("against wrong data: %+v", x)
	}
	// Wrong data reaches no goal, however fast.
	r.Rows[6].Wrong = &one
	c = compared(t, r, r, o)
	if missed := c.Missed(); c.Rows[0].Met() || len(missed) != 2 || !strings.Contains(missed[0], "wrong data") {
		t.Errorf("%q", missed)
	}
}

// The best of several modes is as fast as the least of their medians, and a goal is
// met exactly where the ratio of times says so.
func TestFastestProperty(t *testing.T) {
	us := rapid.Float64Range(1, 100)
	rapid.Check(t, func(t *rapid.T) {
		x, y, z, goal := us.Draw(t, "x"), us.Draw(t, "y"), us.Draw(t, "z"), rapid.Float64Range(0.01, 10).Draw(t, "goal")
		r := run(average("x", 64, x), average("y", 64, y), average("z", 64, z))
		c, err := compare.Compare(r, r, compare.Options{ModesA: []string{"x", "y"}, ModesB: []string{"z"}, Goals: []compare.Goal{{From: 64, To: 64, Time: goal}}})
		if err != nil {
			t.Fatal(err)
		}
		if row := c.Rows[0]; row.A.Median != min(x, y) || row.Met() != (z/min(x, y) <= goal) || (len(c.Missed()) == 0) != row.Met() {
			t.Fatalf("%+v, missed %v", row, c.Missed())
		}
	})
}

// Two data types are compared at the same bytes.
func TestTypes(t *testing.T) {
	r := peers()
	c := compared(t, r, r, compare.Options{ModesA: []string{"auto"}, ModesB: []string{"auto"}, TypeA: "float", TypeB: "bfloat16"})
	if len(c.Rows) != 3 || len(c.OnlyA)+len(c.OnlyB) != 0 {
		t.Fatalf("%d rows, only in A %v, in B %v", len(c.Rows), c.OnlyA, c.OnlyB)
	}
	for _, x := range c.Rows {
		if x.DataType != "float > bfloat16" || x.TimeRatio() < 1.01 || x.TimeRatio() > 1.03 {
			t.Errorf("%+v", x)
		}
	}
}

// Averages and placement choose what is compared.
func TestChoice(t *testing.T) {
	a, b := sample()
	c := compared(t, a, b, compare.Options{Averages: true, Placement: result.InPlace})
	for _, x := range c.Rows {
		if x.Basis != compare.Averages || x.Placement != result.InPlace {
			t.Errorf("%+v", x)
		}
	}
	if len(c.Rows) != 2 {
		t.Errorf("%d rows", len(c.Rows))
	}
	c = compared(t, a, b, compare.Options{Averages: true})
	if x := c.Rows[0]; x.Basis != compare.Averages || x.A.Median != a.Rows[0].Time {
		t.Errorf("%+v", x)
	}
}

// What a result does not have is refused, and named.
func TestChoiceRefused(t *testing.T) {
	r := peers()
	for name, tt := range map[string]struct {
		o    compare.Options
		want string
	}{
		"mode":      {compare.Options{ModesA: []string{"ring", "torch"}, ModesB: []string{"auto"}}, "A has no rows of mode ring or torch: it has nccl, nccl-symmetric, auto"},
		"mode of B": {compare.Options{ModesA: []string{"nccl"}, ModesB: []string{"ring"}}, "B has no rows of mode ring"},
		"type":      {compare.Options{TypeA: "float", TypeB: "half"}, "B has no rows of data type half: it has float, bfloat16"},
		"placement": {compare.Options{Placement: result.InPlace}, "no row that was asked for"},
	} {
		if _, err := compare.Compare(r, r, tt.o); failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParse(t *testing.T) {
	a, b, err := compare.ParseModes("nccl|nccl-symmetric,auto")
	if err != nil || !slices.Equal(a, []string{"nccl", "nccl-symmetric"}) || !slices.Equal(b, []string{"auto"}) {
		t.Errorf("%v %v %v", a, b, err)
	}
	for _, s := range []string{"", "nccl", "nccl,", ",auto", "nccl|,auto", "a,b,c"} {
		if _, _, err := compare.ParseModes(s); failure.CodeOf(err) != failure.Usage {
			t.Errorf("--modes %q: %v", s, err)
		}
	}
	for _, s := range []string{"", "float", "float,", ",half", "a,b,c"} {
		if _, _, err := compare.ParseTypes(s); failure.CodeOf(err) != failure.Usage {
			t.Errorf("--types %q: %v", s, err)
		}
	}
	for s, want := range map[string]compare.Goal{
		"64K:16M=0.80": {From: 64 << 10, To: 16 << 20, Time: 0.8},
		"1G=0.91":      {From: 1 << 30, To: 1 << 30, Time: 0.91},
	} {
		g, err := compare.ParseGoal(s)
		if err != nil || g != want {
			t.Errorf("--goal %q: %+v %v", s, g, err)
		}
		if again, err := compare.ParseGoal(g.String()); err != nil || again != g {
			t.Errorf("%v is read as %+v: %v", g, again, err)
		}
	}
	for _, s := range []string{"", "1K", "1K=", "1K=x", "1K=0", "1K=-1", "1K=NaN", "1K=Inf", "x=1", "1K:x=1", "2K:1K=1", "1K:2K:3K=1"} {
		if _, err := compare.ParseGoal(s); failure.CodeOf(err) != failure.Usage {
			t.Errorf("--goal %q: %v", s, err)
		}
	}
}

// A goal for sizes that were not measured is missed: nothing silent.
func TestGoalOfNoRow(t *testing.T) {
	r := peers()
	c := compared(t, r, r, compare.Options{ModesA: []string{"nccl"}, ModesB: []string{"auto"}, Goals: []compare.Goal{{From: 4 << 30, To: 8 << 30, Time: 1}}})
	if missed := c.Missed(); len(missed) != 1 || !strings.Contains(missed[0], "4G:8G=1: no row") {
		t.Errorf("%q", missed)
	}
}

// A size that one of several modes lacks is compared with the others, and a note
// says so.
func TestModeLacksSize(t *testing.T) {
	r := peers()
	r.Rows = slices.DeleteFunc(r.Rows, func(x result.Row) bool { return x.Mode == "nccl-symmetric" && x.Size == 1<<10 })
	c := compared(t, r, r, compare.Options{ModesA: []string{"nccl", "nccl-symmetric"}, ModesB: []string{"auto"}})
	var w strings.Builder
	if err := c.WriteBrief(&w, compare.Names{A: "a", B: "b"}); err != nil || !strings.Contains(w.String(), "lacks some of its modes: 1;") || c.Rows[0].ModeA != "nccl" {
		t.Errorf("%v\n%s", err, &w)
	}
}

// A mode and its algorithm are named, and a name that both have stands there once.
func TestBriefNamesOnce(t *testing.T) {
	for _, w := range []struct{ mode, algorithm, want string }{
		{"ring", "ring 132x512", " ring 132x512 "}, {"p2p-two-shot", "two-shot 4x512", " p2p-two-shot 4x512 "},
		{"p2p", "push 4x512", " p2p push 4x512 "}, {"nvls-zero-copy", "two-shot 4x512", " nvls-zero-copy two-shot 4x512 "}, {"nccl", "", " nccl "},
	} {
		x := row(w.mode, 1<<10, around(6)...)
		x.Algorithm = w.algorithm
		r := run(x)
		var out strings.Builder
		if err := compared(t, r, r, compare.Options{}).WriteBrief(&out, compare.Names{A: "a", B: "b"}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), w.want) || strings.Contains(out.String(), "ring ring") {
			t.Errorf("%+v:\n%s", w, &out)
		}
	}
}

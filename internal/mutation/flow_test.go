package mutation

import (
	"regexp"
	"strings"
	"testing"
)

// What can follow a line is a matter of branches: a block that stands behind in
// the text may come before, and the other way round.
func TestFlow(t *testing.T) {
	m := &Mutant{flow: &flow{}, lines: strings.Split(`	bra.uni 	$L__BB0_2;
$L__BB0_1:
	st.global.v4.b32 [%rd1], {%r1,%r2,%r3,%r4};
	ret;
$L__BB0_2:
	ld.acquire.sys.global.b32 %r1, [%rd2];
	@%p1 bra 	$L__BB0_1;
	bar.sync 	0;
	ld.volatile.shared.u32 	%r5, [blockFailed];
	@%p2 ret;
	st.release.sys.global.b32 [%rd3], %r1;
	ret;
	ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1];`, "\n")}
	for _, c := range []struct {
		at   int
		fits string
		stop func(string) bool
		want bool
	}{
		{5, `st\.global\.v4`, nil, true},
		{5, `st\.release`, nil, true},
		{5, `st\.release`, isBarrier, false},
		{5, `ld\.global\.v4`, nil, false},
		{7, `st\.global\.v4`, nil, false},
		{2, `st\.release`, nil, false},
	} {
		if got := m.passes(c.at, regexp.MustCompile(c.fits), c.stop); got != c.want {
			t.Errorf("from line %d to %s: %v", c.at, c.fits, got)
		}
	}
}

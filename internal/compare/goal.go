package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Goal is what B is to reach over a range of sizes.
type Goal struct {
	From configs.Size `json:"from_bytes"` // inclusive, as To
	To   configs.Size `json:"to_bytes"`
	// Time is the largest part of A's time that B may take.
	Time float64 `json:"time"`
}

// ParseGoal reads "64K:16M=0.80", or "1G=0.91" for one size. The error is a
// failure with code Usage.
func ParseGoal(s string) (Goal, error) {
	bad := func(why string) (Goal, error) {
		return Goal{}, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--goal %q is not possible", s), Why: why,
			Do: "write sizes and the largest part of A's time that B may take: 64K:16M=0.80", By: failure.User}
	}
	sizes, part, two := strings.Cut(s, "=")
	if !two {
		return bad("it has no =")
	}
	from, to, two := strings.Cut(sizes, ":")
	if !two {
		to = from
	}
	var g Goal
	var err error
	if g.From, err = configs.ParseSize(from); err != nil {
		return bad(err.Error())
	}
	if g.To, err = configs.ParseSize(to); err != nil {
		return bad(err.Error())
	}
	g.Time, err = strconv.ParseFloat(part, 64)
	switch {
	case g.From > g.To:
		return bad("the first size is above the last")
	case err != nil:
		return bad(fmt.Sprintf("%q is no number", part))
	case !(g.Time > 0) || math.IsInf(g.Time, 0):
		return bad("the part must be above 0")
	}
	return g, nil
}

// String is the form that ParseGoal reads.
func (g Goal) String() string {
	if g.From == g.To {
		return fmt.Sprintf("%v=%g", g.From, g.Time)
	}
	return fmt.Sprintf("%v:%v=%g", g.From, g.To, g.Time)
}

// holds reports whether g is for rows of this size.
func (g Goal) holds(size uint64) bool { return uint64(g.From) <= size && size <= uint64(g.To) }

// Met reports whether a row reaches its goal; true where it has none. Wrong data
// reaches nothing.
func (r Row) Met() bool {
	return r.Goal == nil || r.Verdict != Wrong && r.TimeRatio() <= *r.Goal
}

// TimeRatio is the time of B as a part of A's: below 1 B is faster.
func (r Row) TimeRatio() float64 { return r.B.Median / r.A.Median }

// Missed lists the goals that B does not reach, and those that no row is for.
func (c *Comparison) Missed() []string {
	var out []string
	for _, r := range c.Rows {
		switch {
		case r.Met():
		case r.Verdict == Wrong:
			out = append(out, fmt.Sprintf("%v: wrong data", r))
		default:
			out = append(out, fmt.Sprintf("%v: %s of A's time, the goal is %g (%s)", r, figure(r.TimeRatio(), 3), *r.Goal, r.Verdict))
		}
	}
	for _, g := range c.Goals {
		found := false
		for _, r := range c.Rows {
			found = found || g.holds(r.Size)
		}
		if !found {
			out = append(out, fmt.Sprintf("the goal %v: no row of these sizes", g))
		}
	}
	return out
}

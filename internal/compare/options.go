package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Options say which rows of two results are set against each other. The zero
// value is every row against the row of the same mode and data type.
type Options struct {
	// ModesA and ModesB are the modes of each side; of several the fastest counts
	// at each size. Either both are given or none.
	ModesA, ModesB []string
	// TypeA and TypeB are the data types of each side, compared at the same bytes.
	// Either both are given or none.
	TypeA, TypeB string
	// Placement is the only one that counts; "" is both.
	Placement result.Placement
	// Averages compares the averages of each cycle, as nccl-tests takes times, where
	// there are iterations too.
	Averages bool
	// Goals are what B is to reach.
	Goals []Goal
}

// modeSeparator stands between the modes of one side.
const modeSeparator = "|"

// ParseModes reads "nccl|nccl-symmetric,auto": the modes of A, a comma, the
// modes of B. The error is a failure with code Usage.
func ParseModes(s string) (a, b []string, err error) {
	left, right, two := strings.Cut(s, ",")
	a, b = strings.Split(left, modeSeparator), strings.Split(right, modeSeparator)
	if !two || slices.Contains(a, "") || slices.Contains(b, "") || strings.Contains(right, ",") {
		return nil, nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--modes %q is not possible", s),
			Do: "write a mode of A, a comma, and a mode of B; for the fastest of several: 'nccl|nccl-symmetric,auto', in quotes", By: failure.User}
	}
	return a, b, nil
}

// ParseTypes reads "float,bfloat16". The error is a failure with code Usage.
func ParseTypes(s string) (a, b string, err error) {
	a, b, _ = strings.Cut(s, ",")
	if a == "" || b == "" || strings.Contains(b, ",") {
		return "", "", &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--types %q is not possible", s),
			Do: "write a data type of A, a comma, and a data type of B", By: failure.User}
	}
	return a, b, nil
}

// selection is what Options say of one result.
type selection struct {
	name     string // A or B
	modes    []string
	datatype string
}

// check refuses a mode or a data type that no row of r has. Of several modes one
// is enough, for those that could not run are what a comparison must survive; the
// others are returned.
func (s selection) check(r *result.Run) (missing []string, err error) {
	refuse := func(what, kind string, there []string) error {
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("%s has no rows of %s", s.name, what),
			Why: fmt.Sprintf("it has %s", strings.Join(there, ", ")), Do: "name a " + kind + " that it has", By: failure.User}
	}
	there := distinct(r, func(x *result.Row) string { return x.Mode })
	for _, m := range s.modes {
		if !slices.Contains(there, m) {
			missing = append(missing, m)
		}
	}
	if len(s.modes) > 0 && len(missing) == len(s.modes) {
		return nil, refuse("mode "+strings.Join(missing, " or "), "mode", there)
	}
	types := distinct(r, func(x *result.Row) string { return x.DataType })
	if s.datatype != "" && !slices.Contains(types, s.datatype) {
		return nil, refuse("data type "+s.datatype, "data type", types)
	}
	return missing, nil
}

// distinct lists what of gives for the rows, in their order.
func distinct(r *result.Run, of func(*result.Row) string) []string {
	var out []string
	for i := range r.Rows {
		if v := of(&r.Rows[i]); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// takes reports whether x counts.
func (s selection) takes(x *result.Row, o Options) bool {
	return x.Time > 0 && // else it has no speed
		(len(s.modes) == 0 || slices.Contains(s.modes, x.Mode)) &&
		(s.datatype == "" || s.datatype == x.DataType) &&
		(o.Placement == "" || o.Placement == x.Placement)
}

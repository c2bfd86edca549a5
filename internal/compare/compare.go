package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Verdict is B against A.
type Verdict string

const (
	Faster Verdict = "faster"
	Slower Verdict = "slower"
	// Same means that the intervals of both medians overlap.
	Same Verdict = "same within noise"
	// Undecided means that there are too few samples for an interval.
	Undecided Verdict = "no noise estimate"
	// Wrong means that the data of either side is wrong, and no speed counts.
	Wrong Verdict = "wrong data"
)

// Basis is what the samples are.
type Basis string

const (
	// Iterations are device event times, for each the slowest rank.
	Iterations Basis = "iterations"
	// Averages are times as nccl-tests takes them, one for each cycle of the
	// sweep.
	Averages Basis = "averages"
)

// Key is what two rows must share to be compared.
type Key struct {
	Mode      string           `json:"mode"` // "" when both sides have one mode each, and another
	Placement result.Placement `json:"placement"`
	DataType  string           `json:"datatype"`
	Op        string           `json:"op"`
	Graph     bool             `json:"graph"`
	Size      uint64           `json:"size_bytes"`
}

func (k Key) String() string {
	graph := ""
	if k.Graph {
		graph = ", graph"
	}
	return fmt.Sprintf("%s, %s, %s, %s%s, %d bytes", cmp.Or(k.Mode, "any mode"), k.Placement, cmp.Or(k.DataType, "unknown type"), cmp.Or(k.Op, "unknown op"), graph, k.Size)
}

// Row is one size on both sides.
type Row struct {
	Key
	Basis Basis    `json:"basis"`
	A     Estimate `json:"a"`
	B     Estimate `json:"b"`
	BusA  float64  `json:"a_busbw_gb_s"`
	BusB  float64  `json:"b_busbw_gb_s"`
	// Ratio is the speed of B over that of A: the median of A over the median of
	// B. Above 1 B is faster.
	Ratio   float64 `json:"ratio"`
	Verdict Verdict `json:"verdict"`
}

// Comparison is the outcome.
type Comparison struct {
	A, B *result.Run
	// ModeA and ModeB are the modes when each side has one and they differ.
	ModeA, ModeB string
	Rows         []Row
	OnlyA, OnlyB []Key // rows that the other side lacks
}

// Compare sets b against a. It fails, with code Usage, on results that cannot be
// compared: another number of ranks, one simulated and one not, nothing in
// common.
func Compare(a, b *result.Run) (*Comparison, error) {
	refuse := func(what, why string) error {
		return &failure.Error{Code: failure.Usage, What: what, Why: why}
	}
	if a.WorldSize != b.WorldSize {
		return nil, refuse("the results cannot be compared", fmt.Sprintf("A has %d ranks and B has %d", a.WorldSize, b.WorldSize))
	}
	if a.Label() != b.Label() {
		return nil, refuse("the results cannot be compared", fmt.Sprintf("A is %s and B is %s", cmp.Or(a.Label(), "measured"), cmp.Or(b.Label(), "measured")))
	}
	c := &Comparison{A: a, B: b}
	if x, y := modes(a), modes(b); len(x) == 1 && len(y) == 1 && x[0] != y[0] {
		c.ModeA, c.ModeB = x[0], y[0]
	}
	rowsA, orderA := c.group(a)
	rowsB, orderB := c.group(b)
	for _, k := range orderA {
		if rowsB[k] == nil {
			c.OnlyA = append(c.OnlyA, k)
			continue
		}
		c.Rows = append(c.Rows, compare(k, rowsA[k], rowsB[k], a.WorldSize))
	}
	for _, k := range orderB {
		if rowsA[k] == nil {
			c.OnlyB = append(c.OnlyB, k)
		}
	}
	if len(c.Rows) == 0 {
		why := "one of them has no rows"
		if len(c.OnlyA) > 0 && len(c.OnlyB) > 0 {
			why = fmt.Sprintf("the first of A is %v; the first of B is %v", c.OnlyA[0], c.OnlyB[0])
		}
		return nil, refuse("the results have no row in common", why)
	}
	return c, nil
}

func modes(r *result.Run) []string {
	var out []string
	for i := range r.Rows {
		if m := r.Rows[i].Mode; !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// group collects the rows of each key: several when the sweep was repeated. Keys
// come by mode in the order measured, then by what else differs, then by size.
func (c *Comparison) group(r *result.Run) (map[Key][]*result.Row, []Key) {
	rows := map[Key][]*result.Row{}
	var order []Key
	first := map[string]int{}
	for i := range r.Rows {
		x := &r.Rows[i]
		k := Key{x.Mode, x.Placement, x.DataType, x.Op, x.Graph > 0, x.Size}
		if c.ModeA != "" {
			k.Mode = ""
		}
		if x.Time <= 0 {
			continue // no speed
		}
		if rows[k] == nil {
			order = append(order, k)
		}
		if _, ok := first[k.Mode]; !ok {
			first[k.Mode] = i
		}
		rows[k] = append(rows[k], x)
	}
	graph := func(k Key) int {
		if k.Graph {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(x, y Key) int {
		return cmp.Or(cmp.Compare(first[x.Mode], first[y.Mode]), cmp.Compare(graph(x), graph(y)), cmp.Compare(x.DataType, y.DataType),
			cmp.Compare(x.Op, y.Op), -cmp.Compare(x.Placement, y.Placement), cmp.Compare(x.Size, y.Size))
	})
	return rows, order
}

// compare judges the rows of one key.
func compare(k Key, a, b []*result.Row, ranks int) Row {
	r := Row{Key: k, Basis: Iterations}
	x, okA := iterations(a)
	y, okB := iterations(b)
	if !okA || !okB {
		r.Basis = Averages
		x, y = averages(a), averages(b)
	}
	r.A, r.B = estimate(x), estimate(y)
	r.Ratio = r.A.Median / r.B.Median
	r.BusA, r.BusB = bus(r.Basis, a, r.A, ranks), bus(r.Basis, b, r.B, ranks)
	switch {
	case wrong(a) || wrong(b):
		r.Verdict = Wrong
	case r.A.Low == nil || r.B.Low == nil:
		r.Verdict = Undecided
	case *r.B.High < *r.A.Low:
		r.Verdict = Faster
	case *r.B.Low > *r.A.High:
		r.Verdict = Slower
	default:
		r.Verdict = Same
	}
	return r
}

// iterations joins the iterations of rows; false when any row has none.
func iterations(rows []*result.Row) ([]float64, bool) {
	var all []float64
	for _, r := range rows {
		if len(r.Times) == 0 || slices.Min(r.Times) <= 0 {
			return nil, false
		}
		all = append(all, r.Times...)
	}
	return all, true
}

func averages(rows []*result.Row) []float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, r.Time)
	}
	return all
}

// bus is the bus bandwidth of an estimate; that of a single row as it stands,
// for an imported log may print it with more digits than its time.
func bus(basis Basis, rows []*result.Row, e Estimate, ranks int) float64 {
	if basis == Averages && len(rows) == 1 {
		return rows[0].BusBW
	}
	return result.BusBW(result.AlgBW(rows[0].Size, e.Median), ranks)
}

func wrong(rows []*result.Row) bool {
	return slices.ContainsFunc(rows, func(r *result.Row) bool { return r.Wrong != nil && *r.Wrong > 0 })
}

// Below lists why b does not keep up with a at ratio: rows below it, rows with
// wrong data, and rows of a that b lacks, which may be what a crash left. It is
// empty when b passes.
func (c *Comparison) Below(ratio float64) []string {
	var out []string
	for _, r := range c.Rows {
		switch {
		case r.Verdict == Wrong:
			out = append(out, fmt.Sprintf("%v: wrong data", r.Key))
		case r.Ratio < ratio:
			out = append(out, fmt.Sprintf("%v: %.3f of A's speed (%s)", r.Key, r.Ratio, r.Verdict))
		}
	}
	for _, k := range c.OnlyA {
		out = append(out, fmt.Sprintf("%v: not in B", k))
	}
	if s := c.B.Status; s.State != result.Complete {
		out = append(out, fmt.Sprintf("B is not complete: %s %s", s.State, s.Reason))
	}
	return out
}

// Count gives the number of rows of each verdict.
func (c *Comparison) Count() map[Verdict]int {
	n := map[Verdict]int{}
	for _, r := range c.Rows {
		n[r.Verdict]++
	}
	return n
}

package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	Mode      string           `json:"mode"` // "" when the sides have different modes
	Placement result.Placement `json:"placement"`
	DataType  string           `json:"datatype"` // "float > bfloat16" when the sides have different types
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

// String names a row's key, with both modes where they differ.
func (r Row) String() string {
	if r.ModeA != "" && r.ModeB != "" {
		r.Mode = r.ModeA + " > " + r.ModeB
	}
	return r.Key.String()
}

// Row is one size on both sides.
type Row struct {
	Key
	// ModeA and ModeB are what was compared, of several modes the fastest; "" when
	// the mode is the key's.
	ModeA string `json:"a_mode,omitempty"`
	ModeB string `json:"b_mode,omitempty"`
	// AlgorithmB is what B's mode ran; "" when not known.
	AlgorithmB string   `json:"b_algorithm,omitempty"`
	Basis      Basis    `json:"basis"`
	A          Estimate `json:"a"`
	B          Estimate `json:"b"`
	BusA       float64  `json:"a_busbw_gb_s"`
	BusB       float64  `json:"b_busbw_gb_s"`
	// Ratio is the speed of B over that of A: the median of A over the median of
	// B. Above 1 B is faster.
	Ratio   float64 `json:"ratio"`
	Verdict Verdict `json:"verdict"`
	// StoreShareB is what one GPU's links carried for B as a part of what B's run
	// measured stores to carry with all GPUs at once; nil when either is not known.
	StoreShareB *float64 `json:"b_store_share,omitempty"`
	// Goal is the largest part of A's time that B may take; nil without a goal.
	Goal *float64 `json:"goal_time,omitempty"`
}

// Comparison is the outcome.
type Comparison struct {
	A, B *result.Run
	// ModeA and ModeB are the modes when each side has its own: names, joined by
	// "|" where the fastest of several counts. TypeA and TypeB are the same for data
	// types.
	ModeA, ModeB string
	TypeA, TypeB string
	// MissingA and MissingB are modes that were asked for and that have no rows.
	MissingA, MissingB []string
	Goals              []Goal
	Rows               []Row
	OnlyA, OnlyB       []Key // rows that the other side lacks

	partial int // rows for which a side has some of its modes only
}

// Compare sets b against a. It fails, with code Usage, on results that cannot be
// compared: another number of ranks, one simulated and one not, nothing in
// common.
func Compare(a, b *result.Run, o Options) (*Comparison, error) {
	refuse := func(what, why string) error {
		return &failure.Error{Code: failure.Usage, What: what, Why: why}
	}
	if a.WorldSize != b.WorldSize {
		return nil, refuse("the results cannot be compared", fmt.Sprintf("A has %d ranks and B has %d", a.WorldSize, b.WorldSize))
	}
	if a.Label() != b.Label() {
		return nil, refuse("the results cannot be compared", fmt.Sprintf("A is %s and B is %s", cmp.Or(a.Label(), "measured"), cmp.Or(b.Label(), "measured")))
	}
	if len(o.ModesA) == 0 {
		// One mode on each side, and another, is what was meant.
		mode := func(x *result.Row) string { return x.Mode }
		if x, y := distinct(a, mode), distinct(b, mode); len(x) == 1 && len(y) == 1 && x[0] != y[0] {
			o.ModesA, o.ModesB = x, y
		}
	}
	c := &Comparison{A: a, B: b, TypeA: o.TypeA, TypeB: o.TypeB, Goals: o.Goals,
		ModeA: strings.Join(o.ModesA, modeSeparator), ModeB: strings.Join(o.ModesB, modeSeparator)}
	sideA, sideB := selection{"A", o.ModesA, o.TypeA}, selection{"B", o.ModesB, o.TypeB}
	var err error
	if len(a.Rows) > 0 && len(b.Rows) > 0 {
		if c.MissingA, err = sideA.check(a); err != nil {
			return nil, err
		}
		if c.MissingB, err = sideB.check(b); err != nil {
			return nil, err
		}
	}
	rowsA, orderA := c.group(a, sideA, o)
	rowsB, orderB := c.group(b, sideB, o)
	for _, k := range orderA {
		if rowsB[k] == nil {
			c.OnlyA = append(c.OnlyA, k)
			continue
		}
		c.Rows = append(c.Rows, c.compare(k, rowsA[k], rowsB[k], o))
	}
	for _, k := range orderB {
		if rowsA[k] == nil {
			c.OnlyB = append(c.OnlyB, k)
		}
	}
	if len(c.Rows) == 0 {
		why := "one of them has no rows"
		switch {
		case len(c.OnlyA) > 0 && len(c.OnlyB) > 0:
			why = fmt.Sprintf("the first of A is %v; the first of B is %v", c.OnlyA[0], c.OnlyB[0])
		case len(a.Rows) > 0 && len(b.Rows) > 0:
			why = "one of them has no row that was asked for"
		}
		return nil, refuse("the results have no row in common", why)
	}
	return c, nil
}

// candidates are the rows of one key on one side, by mode: several modes when the
// fastest of them counts, several rows of a mode when the sweep was repeated.
type candidates [][]*result.Row

// group collects the rows of each key. Keys come by mode in the order measured,
// then by what else differs, then by size.
func (c *Comparison) group(r *result.Run, s selection, o Options) (map[Key]candidates, []Key) {
	rows := map[Key]candidates{}
	var order []Key
	first := map[string]int{}
	for i := range r.Rows {
		x := &r.Rows[i]
		if !s.takes(x, o) {
			continue
		}
		k := Key{x.Mode, x.Placement, x.DataType, x.Op, x.Graph > 0, x.Size}
		if len(s.modes) > 0 {
			k.Mode = ""
		}
		if s.datatype != "" {
			k.DataType = c.TypeA + " > " + c.TypeB
		}
		if rows[k] == nil {
			order = append(order, k)
		}
		if _, ok := first[k.Mode]; !ok {
			first[k.Mode] = i
		}
		n := slices.IndexFunc(rows[k], func(of []*result.Row) bool { return of[0].Mode == x.Mode })
		if n < 0 {
			n = len(rows[k])
			rows[k] = append(rows[k], nil)
		}
		rows[k][n] = append(rows[k][n], x)
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
func (c *Comparison) compare(k Key, as, bs candidates, o Options) Row {
	r := Row{Key: k, Basis: Iterations}
	samples := iterations
	if o.Averages || !as.all(iterations) || !bs.all(iterations) {
		r.Basis, samples = Averages, averages
	}
	a, b := as.fastest(samples), bs.fastest(samples)
	if len(as) < len(o.ModesA)-len(c.MissingA) || len(bs) < len(o.ModesB)-len(c.MissingB) {
		c.partial++
	}
	if k.Mode == "" {
		r.ModeA, r.ModeB = a[0].Mode, b[0].Mode
	}
	r.AlgorithmB = b[0].Algorithm
	x, _ := samples(a)
	y, _ := samples(b)
	r.A, r.B = estimate(x), estimate(y)
	r.Ratio = r.A.Median / r.B.Median
	ranks := c.A.WorldSize
	r.BusA, r.BusB = bus(r.Basis, a, r.A, ranks), bus(r.Basis, b, r.B, ranks)
	r.StoreShareB = storeShare(c.B, b[0], r.B)
	for i := range o.Goals {
		if o.Goals[i].holds(k.Size) {
			r.Goal = &o.Goals[i].Time
		}
	}
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

// all reports whether every candidate has samples.
func (x candidates) all(samples func([]*result.Row) ([]float64, bool)) bool {
	return !slices.ContainsFunc(x, func(rows []*result.Row) bool { _, ok := samples(rows); return !ok })
}

// fastest is the candidate of the least median; one of wrong data only where all
// are.
func (x candidates) fastest(samples func([]*result.Row) ([]float64, bool)) []*result.Row {
	median := func(rows []*result.Row) float64 {
		s, _ := samples(rows)
		return estimate(s).Median
	}
	return slices.MinFunc(x, func(a, b []*result.Row) int {
		if wrongA, wrongB := wrong(a), wrong(b); wrongA != wrongB {
			if wrongB {
				return -1
			}
			return 1
		}
		return cmp.Compare(median(a), median(b))
	})
}

// storeShare is the links' rate at an estimate of r's time as a part of what
// stores were measured to carry in the same run; nil when either is not known.
func storeShare(run *result.Run, r *result.Row, e Estimate) *float64 {
	factor, ok := result.LinkFactor(r.Mode, r.Algorithm, run.WorldSize)
	if !ok || run.LinkRates == nil || run.LinkRates.Store <= 0 {
		return nil
	}
	share := result.AlgBW(r.Size, e.Median) * factor / run.LinkRates.Store
	return &share
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

// averages are one for each row; there always are.
func averages(rows []*result.Row) ([]float64, bool) {
	var all []float64
	for _, r := range rows {
		all = append(all, r.Time)
	}
	return all, true
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
			out = append(out, fmt.Sprintf("%v: wrong data", r))
		case r.Ratio < ratio:
			out = append(out, fmt.Sprintf("%v: %s of A's speed (%s)", r, figure(r.Ratio, 3), r.Verdict))
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

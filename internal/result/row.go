package result

import "strings"

// Placement tells whether an all-reduce overwrote its own input.
type Placement string

const (
	OutOfPlace Placement = "out-of-place"
	InPlace    Placement = "in-place"
)

// Row is the measurement of one size in one mode and placement.
type Row struct {
	Mode string `json:"mode"` // that ran
	// Requested names the modes that were asked for and that Mode ran for, in the
	// order of the request; empty when that is Mode alone. Another one in it could
	// not run.
	Requested []string `json:"requested,omitempty"`
	// Algorithm and launch geometry: "two-shot 16x512"; "" when not known.
	Algorithm string    `json:"algorithm,omitempty"`
	Size      uint64    `json:"size_bytes"`
	Count     uint64    `json:"count"` // elements
	DataType  string    `json:"datatype"`
	Op        string    `json:"op"`
	Placement Placement `json:"placement"`
	Graph     int       `json:"graph"` // graph launches; 0 = no graph
	Cycle     int       `json:"cycle"` // 0 for the first repetition of the sweep

	// Time is in µs as nccl-tests takes it: host clock around all launches and
	// one synchronisation, divided by their number, then joined over ranks.
	Time  float64 `json:"time_us"`
	AlgBW float64 `json:"algbw_gb_s"`
	BusBW float64 `json:"busbw_gb_s"`
	// LinkBW is what one GPU's links carried in one direction, in GB/s; nil when
	// the algorithm is not known.
	LinkBW *float64 `json:"linkbw_gb_s"`
	// LinkShare is LinkBW as a part of the links' peak, 1 = all of it; nil when
	// either is not known.
	LinkShare *float64 `json:"link_share"`

	// Wrong counts wrong elements over all ranks; nil when not checked.
	Wrong *uint64 `json:"wrong"`
	// Checked counts the elements that were compared, over all ranks and verified
	// calls: the check itself counts them. It is nil when not checked or, in an
	// imported row, not known.
	Checked    *uint64     `json:"checked,omitempty"`
	FirstWrong *FirstWrong `json:"first_wrong,omitempty"`

	// Iterations summarises device event times, for each iteration the maximum
	// over ranks; nil when not taken.
	Iterations *Stats `json:"iterations,omitempty"`
	// Times are those times in order, in µs; nil when not kept.
	Times []float64 `json:"iteration_times_us,omitempty"`
	// Range is what an imported log tells of its iterations when it gives no
	// median; nil else.
	Range *Range `json:"iteration_range,omitempty"`
	// HostTime is what enqueueing one call costs the host, in µs; nil when not
	// taken.
	HostTime *float64 `json:"host_us"`

	// Source is where an imported row stands; nil for a row of this program.
	Source *Source `json:"source,omitempty"`
}

// FirstWrong is the first element found different from what was expected, in
// order of rank and then of index.
type FirstWrong struct {
	Rank     int     `json:"rank"`
	Index    uint64  `json:"index"`
	Expected Element `json:"expected"`
	Got      Element `json:"got"`
}

// Element is one value of a buffer. Both forms are strings because a wrong
// value may be one that JSON has no number for.
type Element struct {
	Bits  string `json:"bits"`  // "0x3f800000"
	Value string `json:"value"` // "1", "NaN", "-Inf"
}

// Title names what was asked for, and what ran where that is another mode:
// "ring"; "nvls-zero-copy (ran as ring)"; "ring and nvls-zero-copy (ran as ring)"
// where ring was asked for too.
func (r *Row) Title() string { return Title(r.Mode, r.Requested) }

// Title is that of rows whose mode was asked for as those of requested, none where
// it was asked for by its own name alone.
func Title(mode string, requested []string) string {
	if len(requested) == 0 {
		return mode
	}
	last := len(requested) - 1
	names := requested[last]
	if last > 0 {
		names = strings.Join(requested[:last], ", ") + " and " + names
	}
	return names + " (ran as " + mode + ")"
}

// Rate computes bandwidths and link share from r's size, time, mode and
// algorithm. peak is the links' rate in bytes per second in one direction, 0
// when not known.
func (r *Row) Rate(ranks int, peak float64) {
	r.AlgBW = AlgBW(r.Size, r.Time)
	r.BusBW = BusBW(r.AlgBW, ranks)
	r.LinkBW, r.LinkShare = nil, nil
	f, ok := LinkFactor(r.Mode, r.Algorithm, ranks)
	if !ok {
		return
	}
	link := r.AlgBW * f
	r.LinkBW = &link
	if peak > 0 {
		share := link * gb / peak
		r.LinkShare = &share
	}
}

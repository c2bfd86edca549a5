package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// table is one table of a log, of whatever program.
type table struct {
	log    *log
	number int // in its file, from 1
	line   int // of its header
	tool   string
	// libraries that did the work, as the log names them.
	libraries []string

	ranks int // as the log tells; 0 when it does not
	// split is why ranks is less than the ranks of the log's job.
	split   string
	devices []result.Device
	sweep   *result.Sweep // nil when the log does not tell
	graph   int           // graph launches

	rows   []result.Row
	ratios []ratio // of the rows whose ranks are not known yet
	// unsized is true when there are measurements that make no row before the
	// number of ranks is known.
	unsized bool

	skip   string // why the table is left out
	closed bool   // its end was seen
	cut    string // why rows are missing at the end
	failed string // why the numbers cannot be trusted
	notes  []string
}

// ratio is the bus bandwidth of a row over its algorithm bandwidth, which tells
// the number of ranks, as a range.
type ratio struct {
	line      int
	low, high float64
}

// open starts a table of tool whose header is at line.
func (l *log) open(line int, tool string) *table {
	t := &table{log: l, number: len(l.tables) + 1, line: line, tool: tool}
	l.tables = append(l.tables, t)
	return t
}

// name is how notes and errors call t.
func (t *table) name() string { return place(t.log.name, t.line) }

func (t *table) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, n)
	}
}

// worldSize is the number of ranks: what the table tells, else what the user
// said, else that of NCCL's communicators in the log; 0 when none does.
func (t *table) worldSize() int {
	return cmp.Or(t.ranks, t.log.options.Ranks, t.log.tuning.ranks())
}

// add appends a row of the line, with bandwidths as printed. alg and bus are
// nil where the log has none. It checks that the numbers agree with each
// other; a fault is reported and the row left out.
func (t *table) add(line int, r result.Row, time printed, alg, bus *printed) {
	fault := func(why string) {
		t.log.problems.at(t.log.name, line, fmt.Sprintf("the numbers of %d bytes contradict each other", r.Size), why,
			"check the units of the table; a result needs µs and 10^9 bytes per second")
	}
	if time.value <= 0 {
		fault("the time is 0")
		return
	}
	r.Time = time.value
	r.AlgBW = result.AlgBW(r.Size, r.Time)
	if alg != nil {
		// µs and bytes make 10^-3 GB/s.
		size := float64(r.Size) / 1e3
		fast := time.high()
		slow := time.low()
		if slow > 0 && !alg.agrees(size/fast, size/slow) {
			fault(fmt.Sprintf("%d bytes in %g µs are %.6g GB/s, and the row says %g", r.Size, time.value, r.AlgBW, alg.value))
			return
		}
		if alg.exact() {
			r.AlgBW = alg.value
		}
	}
	ranks := t.worldSize()
	r.BusBW = result.BusBW(r.AlgBW, ranks)
	if bus != nil {
		if alg != nil && alg.exact() && (bus.exact() || bus.value == 0) {
			x := ratio{line, bus.low() / alg.high(), bus.high() / alg.low()}
			if ranks == 0 {
				t.ratios = append(t.ratios, x)
			} else if !t.fits(x, ranks) {
				return
			}
		}
		if bus.exact() {
			r.BusBW = bus.value
		}
	}
	t.append(line, r)
}

// append keeps a row as it is.
func (t *table) append(line int, r result.Row) {
	r.Graph = t.graph
	if n := len(t.rows); n > 0 && line > 0 && t.rows[n-1].Source.Line == line {
		r.Source = t.rows[n-1].Source // both halves of a line
	} else {
		r.Source = &result.Source{File: t.log.name, Line: line, Table: t.number}
	}
	t.rows = append(t.rows, r)
}

// fits reports a row whose bus bandwidth is not that of an all-reduce of so
// many ranks.
func (t *table) fits(x ratio, ranks int) bool {
	want := result.BusFactor(ranks)
	if x.low <= want && want <= x.high {
		return true
	}
	t.log.problems.at(t.log.name, x.line, "bus bandwidth and ranks contradict each other",
		fmt.Sprintf("bus bandwidth is %.4g times the algorithm bandwidth; an all-reduce of %d ranks has %.4g%s",
			(x.low+x.high)/2, ranks, want, likely(x)), "")
	return false
}

// likely names the numbers of ranks that would fit.
func likely(x ratio) string {
	var fit []string
	for n := 2; n <= 1024 && len(fit) < 4; n++ {
		if f := result.BusFactor(n); x.low <= f && f <= x.high {
			fit = append(fit, fmt.Sprint(n))
		}
	}
	switch {
	case len(fit) == 0:
		return ", and no number of ranks fits: another collective?"
	case len(fit) > 3:
		return fmt.Sprintf(", and %s or more ranks fit", fit[0])
	}
	return fmt.Sprintf(", and %s ranks fit", strings.Join(fit, " or "))
}

// bytesOf gives the bytes of an element by the name that nccl-tests uses; 0 for
// a name that is not known.
func bytesOf(datatype string) uint64 {
	switch datatype {
	case "int8", "uint8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char":
		return 1
	case "half", "bfloat16":
		return 2
	case "float", "int32", "uint32", "int":
		return 4
	case "double", "int64", "uint64":
		return 8
	}
	return 0
}

package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// table is one table of a log, of whatever program. Its rows are in the spool.
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
	gpu     string // name of the first device
	devices []result.Device
	sweep   *result.Sweep // nil when the log does not tell
	graph   int           // graph launches

	rows    int
	modes   []string // of the rows, each once
	wrong   bool     // a row has wrong elements
	noBus   bool     // a row waits for the number of ranks
	pending []byte   // rows that are not in the spool yet
	parts   []extent
	ratios  *ratios // of the rows whose ranks are not known yet
	repeats *repeats
	sealed  bool
	// trial is a run of the PyTorch script, which makes no row before the number
	// of ranks is known.
	trial *torchTrial

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

// ratios are the rows that say most of the number of ranks.
type ratios struct {
	narrow, low, high ratio // the narrowest range, the highest lower end, the lowest upper end
}

func (x *ratios) add(r ratio) {
	if r.high/r.low < x.narrow.high/x.narrow.low {
		x.narrow = r
	}
	if r.low > x.low.low {
		x.low = r
	}
	if r.high < x.high.high {
		x.high = r
	}
}

// open starts a table of tool whose header is at line.
func (l *log) open(line int, tool string) *table {
	t := &table{log: l, number: len(l.tables) + 1, line: line, tool: l.word(tool), repeats: newRepeats()}
	l.tables = append(l.tables, t)
	if l.set.tables++; l.set.tables > maxTables {
		l.full(line, maxTables, "tables")
	}
	return t
}

// name is how notes and errors call t.
func (t *table) name() string { return place(t.log.name, t.line) }

func (t *table) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, t.log.word(n))
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
			switch {
			case ranks > 0:
				if !t.fits(x, ranks) {
					return
				}
			case t.ratios == nil:
				t.ratios = &ratios{x, x, x}
			default:
				t.ratios.add(x)
			}
		}
	}
	marks := byte(0)
	switch {
	case bus != nil && bus.exact():
		r.BusBW = bus.value
	case ranks == 0:
		marks, t.noBus = noBus, true
	}
	t.append(line, r, marks)
}

// append keeps a row as it is.
func (t *table) append(line int, r result.Row, marks byte) {
	set := t.log.set
	r.Graph = t.graph
	if !slices.Contains(t.modes, r.Mode) {
		t.modes = append(t.modes, r.Mode)
	}
	number := set.kinds.number(kindOf(&r))
	if len(set.kinds.list) > maxKinds {
		t.log.full(line, maxKinds, "modes, algorithms, data types and operations")
	}
	if len(r.Times) > maxTimes {
		t.log.full(line, maxTimes, "iterations of one row")
	}
	r.Cycle = t.repeats.count(set, set.kinds.series[number], r.Size, line)
	if set.sizes > maxSizes {
		t.log.full(line, maxSizes, "different sizes")
	}
	t.wrong = t.wrong || r.Wrong != nil && *r.Wrong > 0
	t.rows++
	t.pending = encodeRow(t.pending, number, &r, line, marks)
	if len(t.pending) >= set.spool.chunk {
		t.parts = set.spool.add(t.parts, t.pending)
		t.pending = t.pending[:0]
	}
}

// seal ends t: no row follows. What was only needed for the next row is let go,
// for a log may have many thousand tables.
func (t *table) seal() {
	if t == nil || t.sealed {
		return
	}
	t.sealed = true
	set := t.log.set
	t.parts = set.spool.add(t.parts, t.pending)
	t.pending = nil
	if n := t.repeats.note(t.line > 0); n != "" {
		t.note("%s", n)
	}
	set.join(t)
	t.repeats = nil
	if len(t.devices) > 0 {
		t.gpu = t.log.word(t.devices[0].Name)
	}
	last := &t.log.last
	if last.devices > 0 && last.devices < t.number || t.rows == 0 {
		t.devices = nil // those of an earlier table stand in the result
	} else if t.devices != nil {
		last.devices = t.number
	}
	if last.sweep != nil && t.sweep != nil && *last.sweep == *t.sweep {
		t.sweep = last.sweep
	}
	last.sweep = t.sweep
	share(&last.libraries, &t.libraries)
	share(&last.modes, &t.modes)
	share(&last.notes, &t.notes)
}

// share makes list the last one when it is equal. What is appended later is
// not shared.
func share(last, list *[]string) {
	if !slices.Equal(*last, *list) {
		*last = slices.Clip(*list)
	}
	*list = *last
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

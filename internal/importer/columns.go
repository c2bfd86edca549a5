package importer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// columns is the layout of a table of nccl-tests or mscclpp-test, from its
// header.
type columns struct {
	typed     bool // type and redop
	root      bool // root: since nccl-tests 2.13
	deviation bool // the last column of a half is the largest deviation, not a count: up to 2.12
	perIter   bool // -I: four columns of iterations in each half
	stamp     bool // -S: date and time at the end
	oneHalf   bool // a row fills one half only: mscclpp-test
	width     int  // of the last column of a half
}

// operations are the reductions by nccl-tests' names, no one the beginning of a
// later one.
var operations = []string{"sum", "prod", "min", "max", "avg", "mulsum"}

// front is the number of columns before the halves, half that of one half.
func (c columns) front() int {
	n := 2
	if c.typed {
		n += 2
	}
	if c.root {
		n++
	}
	return n
}

func (c columns) half() int {
	if c.perIter {
		return 8
	}
	return 4
}

func (c columns) total() int {
	n := c.front() + 2*c.half()
	if c.stamp {
		n += 2
	}
	return n
}

// parseColumns reads the names of a header. The columns of all versions: a
// front, two halves alike, perhaps a timestamp.
func parseColumns(names []string) (c columns, ok bool) {
	i := 2
	if len(names) < 2 || names[0] != "size" || names[1] != "count" {
		return c, false
	}
	if len(names) > i+1 && names[i] == "type" && names[i+1] == "redop" {
		c.typed = true
		i += 2
	}
	if len(names) > i && names[i] == "root" {
		c.root = true
		i++
	}
	c.oneHalf = !c.typed
	rest := names[i:]
	if n := len(rest); n > 0 && rest[n-1] == "timestamp" {
		c.stamp = true
		rest = rest[:n-1]
	}
	if len(rest) != 8 && len(rest) != 16 {
		return c, false
	}
	first, second := rest[:len(rest)/2], rest[len(rest)/2:]
	if !slices.Equal(first, second) || first[1] != "algbw" || first[2] != "busbw" {
		return c, false
	}
	c.deviation = first[3] == "error"
	if !c.deviation && first[3] != "#wrong" {
		return c, false
	}
	c.perIter = len(first) == 8
	if c.perIter && !slices.Equal(first[4:], []string{"i_min", "i_max", "i_p99", "i_cv%"}) {
		return c, false
	}
	return c, first[0] == "time"
}

// openTable reads the header of a table.
func (s *stream) openTable(t string, n int) {
	s.close("another table starts before its end")
	names := strings.Fields(t)
	if slices.Contains(names, "cputime") {
		s.log.problems.at(s.log.name, n, "the table has no times of all-reduce", "cputime is what the host takes to enqueue a call",
			"run nccl-tests without -C")
		return
	}
	c, ok := parseColumns(names)
	if !ok {
		s.log.problems.at(s.log.name, n, "the columns of the table are not known", t, "")
		return
	}
	switch {
	case c.perIter:
		c.width = 7
	case strings.Contains(t, "busbw  #wrong"): // since 2.17.5
		c.width = 6
	default:
		c.width = 5
	}
	h := &s.head
	if !h.placed && !c.typed {
		s.log.problems.at(s.log.name, n, "the placements of the table are not known", "the line before its header is missing: out-of-place, in-place", "")
		return
	}
	tool := h.tool
	switch {
	case tool != "":
	case c.typed:
		tool = "nccl-tests"
	default:
		tool = "mscclpp-test"
	}
	tab := s.log.open(n, tool)
	tab.libraries = h.libraries
	tab.sweep, tab.graph = h.sweep, h.graph
	if h.collective != "" && !allReduce(h.collective) {
		tab.skip = "it is of " + h.collective
	}
	ranks, split, err := h.ranks()
	if err != nil {
		s.log.problems.at(s.log.name, n, "mixed numbers of ranks in a table", err.Error(), "")
	}
	tab.ranks, tab.split = ranks, split
	if split == "" && h.whole() {
		tab.devices = h.devices
	}
	s.table, s.cols = tab, c
	if c.deviation {
		tab.note("the error column is the largest deviation and no count; wrong is 0 where it is 0 and unknown elsewhere")
	}
	if !h.placed {
		tab.note("the line of the placements is missing; out of place comes first in every version of nccl-tests")
	}
	if c.stamp {
		tab.note("the timestamps of the rows were left out")
	}
	if c.oneHalf {
		tab.note("mscclpp-test prints neither data type nor operation")
	}
}

// allReduce reports whether a program's name is that of an all-reduce test.
func allReduce(program string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(program), "_", ""), "allreduce")
}

// units checks the line of units under a header.
func (s *stream) units(t string, n int) {
	half := []string{"(us)", "(GB/s)", "(GB/s)"}
	if s.cols.perIter {
		half = append(half, "(us)", "(us)", "(us)", "(%)")
	}
	want := slices.Concat([]string{"(B)", "(elements)"}, half, half)
	got := strings.Fields(t)
	if s.cols.stamp {
		got = got[:min(len(got), len(want))]
	}
	if !slices.Equal(got, want) {
		s.log.problems.at(s.log.name, n, "the units of the table are not known", fmt.Sprintf("%s; nccl-tests has %s",
			strings.Join(got, " "), strings.Join(want, " ")), "")
		s.table = nil
	}
}

// data reads a line that begins with a digit.
func (s *stream) data(b, raw []byte, n int) {
	f, all := fields(s.log.fields[:], b)
	if s.osu.open {
		s.osuRow(f, n)
		return
	}
	if s.table == nil {
		if looksLikeRow(f) {
			s.log.problems.at(s.log.name, n, "a row without a table", "the header of its table is missing or could not be read", "give the whole log")
		}
		return
	}
	if s.table.skip != "" {
		return
	}
	want := s.cols.total()
	switch {
	case !all || len(f) > want:
		s.unreadable(n, fmt.Sprintf("it has %d columns or more and the header has %d", len(f), want))
	case s.cols.oneHalf:
		s.halfRow(f, raw, n)
	case len(f) < want:
		s.short = &shortRow{n, len(f), want}
	default:
		s.row(f, n)
	}
}

// looksLikeRow reports whether a line outside tables is a row of nccl-tests.
func looksLikeRow(f [][]byte) bool {
	return len(f) >= 8 && digits(f[0]) && digits(f[1]) && slices.Contains(operations, string(f[3]))
}

func (s *stream) unreadable(n int, why string) {
	s.log.problems.at(s.log.name, n, "cannot read a row", why, "repair or remove the line")
}

// row reads a full row of nccl-tests.
func (s *stream) row(f [][]byte, n int) {
	c := s.cols
	var r result.Row
	if !s.front(&r, f, n) {
		return
	}
	first, second := result.OutOfPlace, result.InPlace
	if s.head.inFirst {
		first, second = second, first
	}
	rest := f[c.front():]
	r.Placement = first
	s.measured(r, rest[:c.half()], n)
	r.Placement = second
	s.measured(r, rest[c.half():2*c.half()], n)
	if c.stamp && !(timestamp(rest[2*c.half()], '-') && timestamp(rest[2*c.half()+1], ':')) {
		s.unreadable(n, "it does not end in a date and a time")
	}
}

func timestamp(b []byte, separator byte) bool {
	return bytes.Count(b, []byte{separator}) == 2 && digits(bytes.ReplaceAll(b, []byte{separator}, nil))
}

// halfRow reads a row of mscclpp-test, which fills the half of its placement
// only: the columns are told apart by where they stand.
func (s *stream) halfRow(f [][]byte, raw []byte, n int) {
	// Sizes take 26 characters, a half 33.
	const halfAt = 26 + 33
	if len(f) != 5 && len(f) != 6 {
		if len(f) < 5 {
			s.short = &shortRow{n, len(f), 6}
		} else {
			s.unreadable(n, fmt.Sprintf("it has %d columns and not 5 or 6", len(f)))
		}
		return
	}
	var r result.Row
	if !s.front(&r, f, n) {
		return
	}
	second := blank(raw, 26, halfAt)
	r.Placement = result.OutOfPlace
	if s.head.inFirst != second {
		r.Placement = result.InPlace
	}
	half := f[2:]
	if len(half) == 3 {
		half = append(half, []byte("N/A"))
	}
	s.measured(r, half, n)
}

// blank reports whether raw has only spaces from column a to b.
func blank(raw []byte, a, b int) bool {
	return len(raw) > b && len(bytes.TrimSpace(raw[a:b])) == 0
}

// front reads size, count, type, operation and root.
func (s *stream) front(r *result.Row, f [][]byte, n int) bool {
	var ok bool
	if r.Size, ok = count(f[0]); !ok {
		s.unreadable(n, fmt.Sprintf("the size is %q", f[0]))
		return false
	}
	if r.Count, ok = count(f[1]); !ok {
		s.unreadable(n, fmt.Sprintf("the count is %q", f[1]))
		return false
	}
	r.Mode = "nccl"
	width := uint64(0)
	if s.cols.typed {
		r.DataType, r.Op = s.log.wordOf(f[2]), s.log.wordOf(f[3])
		width = bytesOf(r.DataType)
		// Before 2.17 no name of the program tells the collective.
		if r.Op == "none" {
			s.other(n, "it has no operation")
			return false
		}
	} else {
		r.Mode = "mscclpp"
		width = 4
	}
	if s.cols.root && string(f[4]) != "-1" {
		if digits(f[4]) {
			s.other(n, "it has a root")
		} else {
			s.unreadable(n, fmt.Sprintf("the root is %q: an all-reduce prints -1", f[4]))
		}
		return false
	}
	if width != 0 && r.Count*width != r.Size {
		s.unreadable(n, fmt.Sprintf("%d elements of %d bytes are not %d bytes", r.Count, width, r.Size))
		return false
	}
	return true
}

// other leaves a table out whose first row is of another collective; such a row
// further down is damage.
func (s *stream) other(n int, why string) {
	if s.table.rows > 0 {
		s.unreadable(n, why+", and the rows before are of all-reduce")
		return
	}
	s.table.skip = why + ", so it is of no all-reduce"
}

// measured reads one half of a row: time, bandwidths, wrong elements and the
// iterations of -I.
func (s *stream) measured(r result.Row, f [][]byte, n int) {
	var v [3]printed
	for i, name := range [...]string{"time", "algorithm bandwidth", "bus bandwidth"} {
		var ok bool
		if v[i], ok = parse(f[i]); !ok {
			s.unreadable(n, fmt.Sprintf("the %s is %q", name, f[i]))
			return
		}
	}
	if !bytes.Equal(f[3], []byte("N/A")) {
		wrong, ok := parse(f[3])
		switch {
		case s.cols.deviation:
			// inf and nan are deviations too.
			if ok && wrong.value == 0 {
				r.Wrong = new(uint64)
			}
			if !ok && string(f[3]) != "inf" && string(f[3]) != "nan" && string(f[3]) != "-nan" {
				s.unreadable(n, fmt.Sprintf("the error is %q", f[3]))
				return
			}
		case !ok || wrong.value >= 1<<63:
			s.unreadable(n, fmt.Sprintf("the number of wrong elements is %q", f[3]))
			return
		default:
			w := uint64(wrong.value)
			r.Wrong = &w
		}
	}
	if len(f) == 8 {
		var x [4]printed
		for i, name := range [...]string{"i_min", "i_max", "i_p99", "i_cv%"} {
			var ok bool
			if x[i], ok = parse(f[4+i]); !ok {
				s.unreadable(n, fmt.Sprintf("%s is %q", name, f[4+i]))
				return
			}
		}
		if x[0].low() > x[2].high() || x[2].low() > x[1].high() {
			s.unreadable(n, fmt.Sprintf("i_min %g, i_p99 %g and i_max %g are not in order", x[0].value, x[2].value, x[1].value))
			return
		}
		r.Range = &result.Range{Min: x[0].value, Max: x[1].value, P99: x[2].value, CV: x[3].value}
		if w := s.table.sweep; w != nil {
			r.Range.N = max(0, w.Iters-s.head.skipped)
		}
	}
	s.table.add(n, r, v[0], &v[1], &v[2])
}

package importer

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// mscclppTable is a table of MSCCL++'s Python benchmarks while it is read:
// allreduce_bench.py draws one with '|' and '+' borders, bench_collective.py one
// with columns between " | ".
type mscclppTable struct {
	pretty  *table // of allreduce_bench.py
	columns []string
	element uint64 // bytes
	dtype   string

	banner *bench // of bench_collective.py
	bench  *bench // whose table is open
}

// bench is one run of bench_collective.py.
type bench struct {
	collective, dtype string
	ranks, graph      int
	sku               string
	table             *table
	low, high         float64    // bytes of a batch, as the rows so far allow
	rows              []benchRow // as long as they allow several
}

// benchRow waits until the bytes of a batch are known: its own size is rounded,
// and only several rows together tell them.
type benchRow struct {
	line           int
	batch          uint64
	low, high      float64 // bytes
	algorithm      string
	time, alg, bus printed
}

var (
	reBanner  = regexp.MustCompile(`^MSCCL\+\+ (\w+) benchmark: profile=HardwareProfile\(sku=(?:'([^']*)'|None), scale=(\d+|None)\) dtype=(\w+) graph_launches=(\d+) iterations=(\d+)$`)
	reSize    = regexp.MustCompile(`^(\d+\.\d) (B|KiB|MiB|GiB|TiB|PiB)$`)
	benchHead = []string{"batch", "msg", "total", "algorithm", "nblocks", "nthreads", "time_us", "algBW_GB/s", "busBW_GB/s", "check", "max_diff", "mean_diff", "mismatch"}
	prettyEnd = []string{"Time (us)", "AlgBW (GB/s)", "Correctness", "NCCL Time (us)", "NCCL AlgBW (GB/s)", "NCCL Correctness", "Speed Up"}
)

// mscclppTypes are nccl-tests' names by those of the benchmarks.
var mscclppTypes = map[string]string{
	"fp16": "half", "fp32": "float", "int32": "int32",
	"float16": "half", "float32": "float", "uint8": "uint8",
	"float8_e4m3fn": "f8e4m3",
}

var binaryUnits = map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}

// rounded reads "1.2 MiB" as the range that it can stand for.
func rounded(cell string) (value, low, high float64, ok bool) {
	m := reSize.FindStringSubmatch(cell)
	if m == nil {
		return 0, 0, 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, 0, 0, false
	}
	unit := binaryUnits[m[2]]
	return v * unit, (v - 0.05) * unit, (v + 0.05) * unit, true
}

func cells(t []byte, separator string) []string {
	var out []string
	for c := range strings.SplitSeq(string(bytes.Trim(t, "|")), separator) {
		out = append(out, strings.TrimSpace(c))
	}
	return out
}

// pretty reads a line of a table with borders.
func (s *stream) pretty(t []byte, n int) {
	m := &s.mscclpp
	if t[0] == '+' {
		if m.pretty != nil && m.pretty.rows > 0 && bytes.HasPrefix(t, []byte("+--")) {
			m.pretty.closed = true
			m.pretty.seal()
			m.pretty = nil
		}
		return
	}
	c := cells(t, "|")
	if strings.HasPrefix(c[0], "Size (") && slices.Contains(c, "AlgBW (GB/s)") {
		s.closePretty()
		dtype := strings.TrimSuffix(strings.TrimPrefix(c[0], "Size ("), ")")
		if !slices.Equal(c[1:], prettyEnd) || mscclppTypes[dtype] == "" {
			s.log.problems.at(s.log.name, n, "the columns of the table are not known", string(t), "")
			return
		}
		m.columns, m.dtype = c, mscclppTypes[dtype]
		m.element = bytesOf(m.dtype)
		m.pretty = s.log.open(n, "MSCCL++ allreduce_bench.py")
		// Each time is of one launch of a graph that holds all iterations.
		m.pretty.graph = 1
		m.pretty.note("allreduce_bench.py prints no placement; the rows are taken as in place")
		m.pretty.note("sizes were read back from one decimal and checked against time and bandwidth; correctness there is within a tolerance, so wrong is not known")
		return
	}
	if m.pretty == nil {
		return
	}
	if len(c) != len(m.columns) {
		s.unreadable(n, fmt.Sprintf("it has %d columns and the header has %d", len(c), len(m.columns)))
		return
	}
	size, _, _, ok := rounded(c[0])
	if !ok || size != math.Trunc(size) || size > 1<<53 || uint64(size)%m.element != 0 {
		s.unreadable(n, fmt.Sprintf("the size %q is no whole number of elements: it was rounded too far", c[0]))
		return
	}
	for i, mode := range []string{"mscclpp", "nccl"} {
		time, ok := parse([]byte(c[1+3*i]))
		alg, ok2 := parse([]byte(c[2+3*i]))
		if !ok || !ok2 || c[3+3*i] != "PASS" && c[3+3*i] != "FAIL" {
			s.unreadable(n, fmt.Sprintf("%s is %q, %q, %q", mode, c[1+3*i], c[2+3*i], c[3+3*i]))
			return
		}
		if c[3+3*i] == "FAIL" {
			m.pretty.failed = fmt.Sprintf("%s: wrong data in mode %s at %s", place(s.log.name, n), mode, c[0])
		}
		m.pretty.add(n, result.Row{Mode: mode, Size: uint64(size), Count: uint64(size) / m.element, DataType: m.dtype, Op: "sum",
			Placement: result.InPlace}, time, &alg, nil)
	}
}

func (s *stream) closePretty() {
	if t := s.mscclpp.pretty; t != nil {
		t.cut = "the log ends inside the table"
		t.seal()
		s.mscclpp.pretty = nil
	}
}

// benchText reads banner and header of bench_collective.py.
func (s *stream) benchText(t []byte, n int) bool {
	m := &s.mscclpp
	switch {
	case bytes.HasPrefix(t, []byte("MSCCL++ ")):
		s.closeBench()
		x := reBanner.FindStringSubmatch(string(t))
		if x == nil {
			return false
		}
		m.banner = &bench{collective: x[1], sku: x[2], dtype: x[4], high: math.Inf(1)}
		m.banner.ranks, _ = strconv.Atoi(x[3])
		m.banner.graph, _ = strconv.Atoi(x[5])
		return true
	case bytes.HasPrefix(t, []byte("batch ")) && bytes.IndexByte(t, '|') > 0:
		s.closeBench()
		if c := cells(t, " | "); !slices.Equal(c, benchHead) {
			s.log.problems.at(s.log.name, n, "the columns of the table are not known", string(t), "")
			return true
		}
		b := m.banner
		m.banner = nil
		if b == nil || mscclppTypes[b.dtype] == "" {
			s.log.problems.at(s.log.name, n, "the data type of the table is not known", "the line \"MSCCL++ … benchmark: … dtype=…\" is missing or names another", "give the whole log")
			return true
		}
		b.table = s.log.open(n, "MSCCL++ bench_collective.py")
		b.table.closed = true
		b.table.ranks, b.table.graph = b.ranks, b.graph
		m.bench = b
		if !allReduce(b.collective) {
			b.table.skip = "it is of " + b.collective
		}
		if b.sku != "" {
			b.table.note("the benchmark calls the GPU %s", b.sku)
		}
		b.table.note("bench_collective.py prints no placement; the rows are taken as in place, its default")
		b.table.note("sizes are rounded to one decimal and were found from all rows together; correctness there is within a tolerance, so wrong is not known")
		return true
	}
	if m.bench != nil && bytes.HasPrefix(t, []byte("-")) && bytes.Contains(t, []byte("-+-")) {
		return true
	}
	if m.bench != nil {
		s.closeBench()
	}
	return false
}

// benchRow reads a row of bench_collective.py.
func (s *stream) benchRow(t []byte, n int) bool {
	b := s.mscclpp.bench
	if b == nil || bytes.IndexByte(t, '|') < 0 {
		return false
	}
	if b.table.skip != "" {
		return true
	}
	c := cells(t, " | ")
	if len(c) != len(benchHead) {
		s.unreadable(n, fmt.Sprintf("it has %d columns and the header has %d", len(c), len(benchHead)))
		return true
	}
	r := benchRow{line: n, algorithm: s.log.word(fmt.Sprintf("%s %sx%s", c[3], c[4], c[5]))}
	var ok [5]bool
	r.batch, ok[0] = count([]byte(c[0]))
	_, r.low, r.high, ok[1] = rounded(c[1])
	r.time, ok[2] = parse([]byte(c[6]))
	r.alg, ok[3] = parse([]byte(c[7]))
	r.bus, ok[4] = parse([]byte(c[8]))
	for i, column := range []int{0, 1, 6, 7, 8} {
		if !ok[i] {
			s.unreadable(n, fmt.Sprintf("%s is %q", benchHead[column], c[column]))
			return true
		}
	}
	if r.high > 1<<53 {
		s.unreadable(n, fmt.Sprintf("msg is %q", c[1]))
		return true
	}
	if r.batch == 0 || c[9] != "PASS" && c[9] != "SKIP" && c[9] != "FAIL" {
		s.unreadable(n, fmt.Sprintf("batch is %q and check is %q", c[0], c[9]))
		return true
	}
	if c[9] == "FAIL" {
		b.table.failed = fmt.Sprintf("%s: wrong data at %s", place(s.log.name, n), c[1])
	}
	b.low = max(b.low, r.low/float64(r.batch))
	b.high = min(b.high, r.high/float64(r.batch))
	b.rows = append(b.rows, r)
	if first, last := b.fit(); first == last {
		b.add(first)
	} else if len(b.rows) > maxPending {
		s.log.full(n, maxPending, "rows that do not tell the bytes of a batch")
	}
	return true
}

// fit gives the fewest and the most bytes that a batch can have; the fewest are
// more when there is no fit.
func (b *bench) fit() (first, last uint64) {
	element := bytesOf(mscclppTypes[b.dtype])
	return uint64(math.Ceil(b.low/float64(element))) * element, uint64(math.Floor(b.high/float64(element))) * element
}

// add adds the rows that waited to the table.
func (b *bench) add(perBatch uint64) {
	dtype := mscclppTypes[b.dtype]
	for _, r := range b.rows {
		size := r.batch * perBatch
		b.table.add(r.line, result.Row{Mode: "mscclpp", Algorithm: r.algorithm, Size: size, Count: size / bytesOf(dtype), DataType: dtype, Op: "sum",
			Placement: result.InPlace}, r.time, &r.alg, &r.bus)
	}
	b.rows = b.rows[:0]
}

// closeBench ends a table: every row must be batch times the same number of
// bytes, and each rounded size narrows it down.
func (s *stream) closeBench() {
	b := s.mscclpp.bench
	s.mscclpp.bench = nil
	if b == nil {
		return
	}
	if first, last := b.fit(); b.table.skip == "" && b.high > 0 && !math.IsInf(b.high, 1) && first != last {
		why := fmt.Sprintf("its rows fit every size from %d to %d bytes a batch", first, last)
		if first > last {
			why = "no number of bytes a batch fits all rows"
		}
		s.log.problems.at(s.log.name, b.table.line, "the sizes of the table are rounded and cannot be found", why, "run the benchmark with more batch sizes")
		return
	}
	b.table.seal()
}

package importer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// kind is what many rows share.
type kind struct {
	mode, algorithm, datatype, op string
	placement                     result.Placement
	graph                         int
}

func kindOf(r *result.Row) kind {
	return kind{r.Mode, r.Algorithm, r.DataType, r.Op, r.Placement, r.Graph}
}

// kinds numbers kinds. Its series are kinds without algorithm: rows of one
// series and size measure the same.
type kinds struct {
	list    []kind
	series  []int // by kind, the first kind of its series
	numbers map[kind]int
}

// number gives the number of k.
func (s *kinds) number(k kind) int {
	// Rows come in pairs.
	for i := range min(2, len(s.list)) {
		if s.list[i] == k {
			return i
		}
	}
	if n, ok := s.numbers[k]; ok {
		return n
	}
	if s.numbers == nil {
		s.numbers = map[kind]int{}
	}
	series := len(s.list)
	if k.algorithm != "" {
		bare := k
		bare.algorithm = ""
		series = s.number(bare)
	}
	n := len(s.list)
	s.numbers[k] = n
	s.list, s.series = append(s.list, k), append(s.series, series)
	return n
}

// A row in a spool: its length in four bytes, then what it has by these marks.
const (
	noBus = 1 << iota // the bus bandwidth waits for the number of ranks
	hasWrong
	hasRange
	hasStats
)

// encodeRow appends a row of this package. Fields that no log gives (first
// wrong element, host time, link) are not kept.
func encodeRow(b []byte, number int, r *result.Row, line int, marks byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	if r.Wrong != nil {
		marks |= hasWrong
	}
	if r.Range != nil {
		marks |= hasRange
	}
	if r.Iterations != nil {
		marks |= hasStats
	}
	b = append(b, marks)
	uint := func(n uint64) { b = binary.AppendUvarint(b, n) }
	floats := func(v ...float64) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	uint(uint64(number))
	uint(r.Size)
	uint(r.Count)
	uint(uint64(r.Cycle))
	uint(uint64(line))
	floats(r.Time, r.AlgBW)
	if marks&noBus == 0 {
		floats(r.BusBW)
	}
	if r.Wrong != nil {
		uint(*r.Wrong)
	}
	if x := r.Range; x != nil {
		uint(uint64(x.N))
		floats(x.Min, x.P99, x.Max, x.CV)
	}
	if x := r.Iterations; x != nil {
		uint(uint64(x.N))
		floats(x.Min, x.P50, x.P99, x.Max, x.Mean)
		uint(uint64(len(r.Times)))
		floats(r.Times...)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// errRow is a spool that does not hold what was written.
var errRow = errors.New("the temporary file was changed")

// decodeRow reads what stands behind the length.
func decodeRow(b []byte, s *kinds, r *result.Row) (marks byte, err error) {
	bad := len(b) == 0
	uint := func() uint64 {
		n, width := binary.Uvarint(b)
		if width <= 0 {
			bad = true
			return 0
		}
		b = b[width:]
		return n
	}
	float := func() float64 {
		if len(b) < 8 {
			bad = true
			return 0
		}
		x := math.Float64frombits(binary.LittleEndian.Uint64(b))
		b = b[8:]
		return x
	}
	if bad {
		return 0, errRow
	}
	marks, b = b[0], b[1:]
	number := uint()
	if bad || number >= uint64(len(s.list)) {
		return 0, errRow
	}
	k := &s.list[number]
	r.Mode, r.Algorithm, r.DataType, r.Op, r.Placement, r.Graph = k.mode, k.algorithm, k.datatype, k.op, k.placement, k.graph
	r.Size, r.Count, r.Cycle = uint(), uint(), int(uint())
	r.Source.Line = int(uint())
	r.Time, r.AlgBW = float(), float()
	if marks&noBus == 0 {
		r.BusBW = float()
	}
	if marks&hasWrong != 0 {
		n := uint()
		r.Wrong = &n
	}
	if marks&hasRange != 0 {
		r.Range = &result.Range{N: int(uint()), Min: float(), P99: float(), Max: float(), CV: float()}
	}
	if marks&hasStats != 0 {
		r.Iterations = &result.Stats{N: int(uint()), Min: float(), P50: float(), P99: float(), Max: float(), Mean: float()}
		n := uint()
		if n > uint64(len(b)/8) {
			return 0, errRow
		}
		r.Times = make([]float64, n)
		for i := range r.Times {
			r.Times[i] = float()
		}
	}
	if bad || len(b) > 0 {
		return 0, errRow
	}
	return marks, nil
}

// reader reads the rows of tables from a spool.
type reader struct {
	spool *spool
	kinds *kinds
	in    *bufio.Reader
	long  []byte // a row longer than in's buffer
}

func newReader(s *spool, k *kinds) *reader {
	return &reader{spool: s, kinds: k, in: bufio.NewReaderSize(nil, s.chunk)}
}

// table calls f with every row of t until it says false. The row is new each
// time; its table and file are filled in.
func (x *reader) table(t *table, f func(r *result.Row, marks byte) bool) error {
	for _, part := range t.parts {
		x.in.Reset(io.NewSectionReader(x.spool, part.at, int64(part.n)))
		for left := part.n; left > 0; {
			b, err := x.in.Peek(4)
			if err != nil {
				return fmt.Errorf("rows of %s: %w", t.name(), err)
			}
			n := int(binary.LittleEndian.Uint32(b))
			if n > left-4 {
				return errRow
			}
			x.in.Discard(4)
			left -= n + 4
			if n <= x.in.Size() {
				b, err = x.in.Peek(n)
			} else {
				x.long = append(x.long[:0], make([]byte, n)...)
				b = x.long
				_, err = io.ReadFull(x.in, b)
			}
			if err != nil {
				return fmt.Errorf("rows of %s: %w", t.name(), err)
			}
			row := new(struct {
				result.Row
				source result.Source
			})
			r := &row.Row
			r.Source = &row.source
			r.Source.File, r.Source.Table = t.log.name, t.number
			marks, err := decodeRow(b, x.kinds, r)
			if err != nil {
				return fmt.Errorf("rows of %s: %w", t.name(), err)
			}
			if n <= x.in.Size() {
				x.in.Discard(n)
			}
			if !f(r, marks) {
				return nil
			}
		}
	}
	return nil
}

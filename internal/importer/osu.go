package importer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// osuTable is a table of the OSU Micro-Benchmarks while it is read.
type osuTable struct {
	version  string // "7.4"; "" before a title
	mode     string // "mpi", or the library whose all-reduce it calls
	other    string // title of a test that is not osu_allreduce
	accel    string // "CUDA", "ROCM"; "" for host memory
	datatype string // "MPI_FLOAT"; since 7.4
	open     bool
	columns  []string
}

var (
	reOSUTitle  = regexp.MustCompile(`^OSU (MPI|NCCL|RCCL|XCCL)(?:-(\w+))? (.*) Test v(\S+)$`)
	reOSUColumn = regexp.MustCompile(`^(Size|Avg Latency\(us\)|Min Latency\(us\)|Max Latency\(us\)|Iterations|Validation|P\d+ Tail Lat\(us\)) *`)
)

// osuTitle reads "OSU MPI-CUDA Allreduce Latency Test v7.4".
func (s *stream) osuTitle(t string) {
	s.close("another program starts before its end")
	s.osu = osuTable{}
	m := reOSUTitle.FindStringSubmatch(t)
	if m == nil {
		return
	}
	s.osu.mode, s.osu.accel, s.osu.version = strings.ToLower(m[1]), m[2], m[4]
	if m[3] != "Allreduce Latency" {
		s.osu.other = t
	}
}

// osuHeader reads the names of the columns and opens the table.
func (s *stream) osuHeader(t string, n int) {
	if s.osu.version == "" {
		return
	}
	if s.osu.other != "" {
		tab := s.log.open(n, "OSU Micro-Benchmarks "+s.osu.version)
		tab.skip, tab.closed = "it is of "+s.osu.other, true
		return
	}
	var columns []string
	rest := t
	for rest != "" {
		m := reOSUColumn.FindStringSubmatch(rest)
		if m == nil {
			s.log.problems.at(s.log.name, n, "the columns of the table are not known", fmt.Sprintf("at %q; osu_allreduce has Size and times in us", rest), "")
			s.osu = osuTable{}
			return
		}
		columns = append(columns, m[1])
		rest = rest[len(m[0]):]
	}
	if len(columns) < 2 || columns[0] != "Size" || columns[1] != "Avg Latency(us)" {
		s.log.problems.at(s.log.name, n, "the columns of the table are not known", t, "")
		s.osu = osuTable{}
		return
	}
	tab := s.log.open(n, "OSU Micro-Benchmarks "+s.osu.version)
	s.table, s.osu.open, s.osu.columns = tab, true, columns
	// Nothing tells the end of a table.
	tab.closed = true
	tab.note("time is OSU's average latency over ranks and iterations; bandwidths were computed from it")
	tab.note("osu_allreduce reduces by MPI_SUM and does not print whether in place (-l); the rows are taken as out of place")
	if s.osu.datatype == "" {
		tab.note("osu_allreduce %s prints no data type", s.osu.version)
	}
	if s.osu.accel != "" {
		tab.note("buffers on %s", s.osu.accel)
	}
	var left []string
	for _, c := range columns[2:] {
		if c != "Iterations" && c != "Validation" {
			left = append(left, c)
		}
	}
	if len(left) > 0 {
		tab.note("left out, for they are no times of the slowest rank in each iteration: %s", strings.Join(left, ", "))
	}
}

// osuTypes are the data types by the names of MPI.
var osuTypes = map[string]string{
	"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float", "MPI_DOUBLE": "double",
}

// osuRow reads a row.
func (s *stream) osuRow(f [][]byte, n int) {
	if len(f) != len(s.osu.columns) {
		s.unreadable(n, fmt.Sprintf("it has %d columns and the header has %d", len(f), len(s.osu.columns)))
		return
	}
	r := result.Row{Mode: s.osu.mode, Op: "sum", Placement: result.OutOfPlace, DataType: osuTypes[s.osu.datatype]}
	if r.DataType == "" {
		r.DataType = s.osu.datatype
	}
	var time printed
	for i, c := range s.osu.columns {
		ok := true
		switch {
		case c == "Size":
			r.Size, ok = count(f[i])
		case c == "Iterations":
			_, ok = count(f[i])
		case c == "Validation":
			ok = string(f[i]) == "Pass" || string(f[i]) == "Fail"
			if string(f[i]) == "Fail" {
				s.table.failed = fmt.Sprintf("%s: validation failed at %d bytes", place(s.log.name, n), r.Size)
			}
		case i == 1:
			time, ok = parse(f[i])
		default:
			_, ok = parse(f[i])
		}
		if !ok {
			s.unreadable(n, fmt.Sprintf("%s is %q", c, f[i]))
			return
		}
	}
	if w := bytesOf(r.DataType); w != 0 {
		if r.Size%w != 0 {
			s.unreadable(n, fmt.Sprintf("%d bytes are no whole number of %s", r.Size, r.DataType))
			return
		}
		r.Count = r.Size / w
	}
	s.table.add(n, r, time, nil, nil)
}

package importer

import (
	"bytes"
	"fmt"
	"regexp"
)

// stream is the lines of one rank, as far as a launcher tells them apart. Ranks
// write between each other's lines, so each has a table of its own.
type stream struct {
	log   *log
	head  header
	table *table
	cols  columns // of table, when it is nccl-tests' or mscclpp-test's

	// part is a row that a line of NCCL's log cut in two; it goes on in the next
	// line of the stream.
	part     []byte
	partLine int
	// short is a row with too few columns. At the end of the log it means that the
	// program was killed; anywhere else it is damage.
	short *shortRow

	osu     osuTable
	mscclpp mscclppTable
	torch   *torchTrial
}

// idle reports whether s has seen nothing that matters for a later line.
func (s *stream) idle() bool {
	h := &s.head
	return s.table == nil && s.part == nil && s.short == nil && s.torch == nil &&
		s.osu.version == "" && s.mscclpp.pretty == nil && s.mscclpp.banner == nil && s.mscclpp.bench == nil &&
		h.tool == "" && h.collective == "" && h.sweep == nil && h.skipped == 0 && !h.listed && h.devices == nil && !h.placed
}

type shortRow struct {
	line      int
	has, want int
}

// line reads one line: trimmed at the right, and raw for tables whose columns
// are found by position.
func (s *stream) line(b, raw []byte, n int) {
	t := bytes.TrimLeft(b, " \t")
	if len(t) == 0 {
		return
	}
	if at := bytes.Index(b, []byte("NCCL ")); at >= 0 {
		if rest, done := s.record(b, at, n); done {
			if len(rest) > 0 {
				s.fragment(rest, n)
			}
			return
		}
	}
	if bytes.Contains(b, []byte(": Test ")) && s.failure(b) {
		return
	}
	if s.part != nil {
		joined, at := append(s.part, b...), s.partLine
		s.part = nil
		s.data(joined, joined, at)
		return
	}
	if s.short != nil {
		s.log.problems.at(s.log.name, s.short.line, "cannot read a row",
			fmt.Sprintf("it has %d columns and the header has %d", s.short.has, s.short.want), "repair or remove the line")
		s.short = nil
	}
	switch c := t[0]; {
	case c == '#':
		s.comment(t, n)
	case c == '|' || c == '+':
		s.pretty(t, n)
	case c >= '0' && c <= '9':
		if !s.benchRow(t, n) {
			s.data(b, raw, n)
		}
	default:
		s.text(t, n)
	}
}

// reFailure is how nccl-tests ends when a call fails or takes too long. The
// message comes in the middle of a row, before its first number.
var reFailure = regexp.MustCompile(`Test (?:(?:\w+ )?failure|timeout) .*$`)

// failure reads such a message; the row before it was not finished.
func (s *stream) failure(b []byte) bool {
	m := reFailure.Find(b)
	if m == nil || s.table == nil {
		return false
	}
	s.part, s.short = nil, nil
	if s.table.failed == "" {
		s.table.failed = fmt.Sprintf("%s: nccl-tests says: %s", s.table.name(), m)
	}
	return true
}

// end is the end of the log: what is still open was cut.
func (s *stream) end(last int) {
	if s.part != nil {
		s.short = &shortRow{line: s.partLine}
	}
	s.closePretty()
	s.closeBench()
	s.closeTorch()
	s.close("the log ends inside the table")
}

// close ends an open table whose last line was not seen.
func (s *stream) close(why string) {
	t := s.table
	s.table = nil
	defer t.seal()
	if t == nil || t.closed {
		s.short = nil
		return
	}
	if s.short != nil {
		why = fmt.Sprintf("%s, in the row of line %d", why, s.short.line)
		s.short = nil
	}
	t.cut = why
}

// text reads a line that is neither comment nor row.
func (s *stream) text(t []byte, n int) {
	switch {
	case s.benchText(t, n):
	case s.torchText(t, n):
	case bytes.HasPrefix(t, []byte("NCCL version ")):
		s.log.tuning.version(t[len("NCCL version "):])
	}
}

package importer

import (
	"bytes"
	"regexp"
)

// reNRanks finds the size of a communicator in the lines of its init.
var reNRanks = regexp.MustCompile(`ncclCommInit\w* .*\brank \d+ nranks (\d+) `)

// record reads a line of NCCL's log of which "NCCL " stands at at. done is false
// for a line that is none. rest is the part of a row that stands before it in
// the same line: NCCL and nccl-tests write to the same stream, and a row is
// printed in parts.
func (s *stream) record(b []byte, at, n int) (rest []byte, done bool) {
	message := b[at+len("NCCL "):]
	level, message, _ := bytes.Cut(message, []byte(" "))
	switch string(level) {
	case "INFO", "WARN", "TRACE":
	default:
		return nil, false
	}
	if bytes.Contains(message, []byte(" Bytes -> ")) {
		s.tuned(bytes.TrimSpace(message), n)
	} else if bytes.Contains(message, []byte("nranks ")) {
		if m := reNRanks.FindSubmatch(message); m != nil {
			if ranks, ok := count(m[1]); ok {
				s.log.tuning.communicator(int(ranks))
			}
		}
	}
	if s.table == nil || s.osu.open {
		return nil, true
	}
	return s.before(b[:at]), true
}

// before gives what stands before "host:process:thread [device] " at the end of
// b. The host follows a number without a space: its last column, and the host
// may begin with a digit, as the names of containers do.
func (s *stream) before(b []byte) []byte {
	b, ok := cutBracket(b)
	if !ok {
		return nil
	}
	b = bytes.TrimRight(b, " ")
	start := bytes.LastIndexByte(b, ' ') + 1
	host := b[start:]
	if bytes.Count(host, []byte(":")) < 2 {
		return nil
	}
	row := b[:start]
	// A launcher's "[0]" or NCCL's time of day may stand between.
	tagged := false
	for {
		t, ok := cutBracket(row)
		if !ok {
			break
		}
		row, tagged = t, true
	}
	if len(bytes.TrimSpace(row)) == 0 {
		return nil
	}
	if tagged {
		return row
	}
	return b[:start+s.glued(row, host)]
}

// cutBracket cuts "[0]" or "[2026-01-02 03:04:05]" from the end of b.
func cutBracket(b []byte) ([]byte, bool) {
	t := bytes.TrimRight(b, " ")
	open := bytes.LastIndexByte(t, '[')
	if open < 0 || t[len(t)-1] != ']' || len(bytes.Trim(t[open+1:len(t)-1], "0123456789:. T-")) > 0 {
		return b, false
	}
	return t[:open], true
}

// glued is the length of the last column at the beginning of host. row is what
// stands before.
func (s *stream) glued(row, host []byte) int {
	c := s.cols
	if s.part == nil {
		// The first part of a row ends with the root, or with the operation.
		if c.root {
			return len("-1")
		}
		for _, op := range operations {
			if bytes.HasPrefix(host, []byte(op)) {
				return len(op)
			}
		}
		return 0
	}
	if bytes.HasPrefix(host, []byte("N/A")) {
		return len("N/A")
	}
	// The others end with a half, whose last column is aligned at the right, two
	// spaces and its width behind the column before.
	n := len(bytes.TrimRight(row, " ")) + 2 + c.width - len(row)
	if n < 0 || n > len(host) {
		return 0
	}
	return n
}

// fragment keeps what stands before a line of NCCL's log when it is a part of a
// row.
func (s *stream) fragment(b []byte, n int) {
	if s.part == nil {
		// The first part of a row has its size at least.
		if word, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte(" ")); !digits(word) {
			return
		}
		s.part, s.partLine = bytes.Clone(b), n
		return
	}
	s.part = append(s.part, b...)
}

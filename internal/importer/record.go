package importer

import (
	"bytes"
	"regexp"
)

// reRecord finds a line of NCCL's log in another line: host:process:thread,
// device, level. A launcher's "[0] " or NCCL's own time of day may stand before
// it.
var reRecord = regexp.MustCompile(`(?:\[[\d:. T-]+\] ?)*[A-Za-z][\w.-]*:\d+:\d+ \[-?\d+\] NCCL (?:INFO|WARN|TRACE|VERSION)`)

// reNRanks finds the size of a communicator in the lines of its init.
var reNRanks = regexp.MustCompile(`ncclCommInit\w* .*\brank \d+ nranks (\d+) `)

// record reads a line of NCCL's log of which "NCCL " stands at at. done is false
// for a line that is none. rest is what stands before it in the same line: NCCL
// and nccl-tests write to the same stream, and a row is printed in parts.
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
	// A line of its own begins with host:process:thread.
	head := bytes.TrimLeft(b[:at], " \t")
	if word := bytes.IndexByte(head, ' '); s.part == nil && word >= 0 && bytes.Count(head[:word], []byte(":")) >= 2 && !digits(head[:1]) && head[0] != '-' {
		return nil, true
	}
	if m := reRecord.FindIndex(b); m != nil && m[0] < at {
		return bytes.TrimRight(b[:m[0]], "\r"), true
	}
	return nil, true
}

// fragment keeps what stands before a line of NCCL's log when it is a part of a
// row.
func (s *stream) fragment(b []byte, n int) {
	t := bytes.TrimSpace(b)
	if len(t) == 0 || s.table == nil || s.osu.open {
		return
	}
	if s.part == nil {
		// The first part of a row has its size at least.
		if word, _, _ := bytes.Cut(t, []byte(" ")); !digits(word) {
			return
		}
		s.part, s.partLine = bytes.Clone(b), n
		return
	}
	s.part = append(s.part, b...)
}

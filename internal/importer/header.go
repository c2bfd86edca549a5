package importer

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// header is what nccl-tests or mscclpp-test tells before its table.
type header struct {
	tool       string // with version, when it is told
	libraries  []string
	collective string // program's name; since nccl-tests 2.17
	sweep      *result.Sweep
	graph      int
	skipped    int // leading iterations that -I leaves out of its summary
	devices    []result.Device
	groups     []int // of devices, beside them
	listCut    bool  // the list of devices ends in "..."
	listed     bool  // there is a list of devices
	inFirst    bool  // the in-place half is the first
	placed     bool  // the line with the placements was seen
}

var (
	reVersion  = regexp.MustCompile(`^nccl-tests version (\S+)(?:.* nccl-library=(\d+))?`)
	reParams   = regexp.MustCompile(`minBytes (\d+) maxBytes (\d+) step: (\d+)\((bytes|factor)\) warmup iters: (\d+) iters: (\d+)`)
	reParam    = regexp.MustCompile(`(validation|graph): (\d+)`)
	reDevice   = regexp.MustCompile(`^Rank +(\d+) +(?:Group +(\d+) +)?Pid +(\d+) on +(\S+) device +(\d+) \[([^\]]*)\] ?(.*)$`)
	reOutBound = regexp.MustCompile(`^Out of bounds values *: *(\d+)`)
	reSkips    = regexp.MustCompile(`summary skips first (\d+) iterations`)
)

// comment reads a line that begins with '#'.
func (s *stream) comment(line []byte, n int) {
	t := string(bytes.TrimSpace(bytes.TrimLeft(line, "#")))
	switch {
	case t == "":
	case strings.HasPrefix(t, "nvls-allreduce version "):
		s.log.problems.at(s.log.name, n, "this is a log of nvls-allreduce itself", "the text of a run is rounded and the JSON is not",
			"give the run's JSON (--output_file) to plot, report or compare")
	case strings.HasPrefix(t, "nccl-tests version "):
		s.restart()
		if m := reVersion.FindStringSubmatch(t); m != nil {
			s.head.tool = "nccl-tests " + m[1]
			if v := ncclVersion(m[2]); v != "" {
				s.head.libraries = []string{"NCCL " + v}
			}
		}
	case strings.HasPrefix(t, "Collective test starting: "):
		if s.head.collective != "" || s.head.sweep != nil {
			s.restart()
		}
		s.head.collective = strings.TrimPrefix(t, "Collective test starting: ")
	case strings.HasPrefix(t, "nThread "), strings.HasPrefix(t, "minBytes "):
		if s.head.sweep != nil {
			s.restart()
		}
		if s.head.tool == "" {
			s.head.tool = "nccl-tests"
			if strings.HasPrefix(t, "minBytes ") {
				s.head.tool = "mscclpp-test"
			}
		}
		s.parameters(t)
	case t == "Using devices":
		s.head.devices, s.head.groups, s.head.listed, s.head.listCut = nil, nil, true, false
	case s.head.listed && strings.HasSuffix(t, "..."):
		s.head.listCut = true
		s.device(strings.TrimSuffix(t, "..."), n)
	case strings.HasPrefix(t, "Rank "):
		s.device(t, n)
	case strings.HasPrefix(t, "Per-Iteration Report"):
		if m := reSkips.FindStringSubmatch(t); m != nil {
			s.head.skipped, _ = strconv.Atoi(m[1])
		}
	case strings.Contains(t, "out-of-place") && strings.Contains(t, "in-place"):
		s.head.placed = true
		s.head.inFirst = strings.Index(t, "in-place") < strings.Index(t, "out-of-place")
	case strings.HasPrefix(t, "size ") && strings.Contains(t, "busbw"):
		s.openTable(t, n)
	case strings.HasPrefix(t, "(B) ") && s.table != nil:
		s.units(t, n)
	case strings.HasPrefix(t, "Out of bounds values"):
		s.outOfBounds(t)
	case strings.HasPrefix(t, "OSU "):
		s.osuTitle(t)
	case strings.HasPrefix(t, "Datatype: "):
		s.osu.datatype = strings.TrimSuffix(strings.TrimPrefix(t, "Datatype: "), ".")
	case strings.HasPrefix(t, "Size "):
		s.osuHeader(t, n)
	}
}

// restart forgets the head of the program before.
func (s *stream) restart() {
	s.close("another program starts before its end")
	s.head = header{}
}

// parameters reads the line of nThread and minBytes.
func (s *stream) parameters(t string) {
	m := reParams.FindStringSubmatch(t)
	if m == nil {
		return
	}
	u := func(s string) uint64 { n, _ := strconv.ParseUint(s, 10, 64); return n }
	w := &result.Sweep{MinBytes: u(m[1]), MaxBytes: u(m[2]), Warmup: int(u(m[5])), Iters: int(u(m[6])), Cycles: 1}
	if m[4] == "factor" {
		w.StepFactor = float64(u(m[3]))
	} else {
		w.StepBytes = u(m[3])
	}
	for _, p := range reParam.FindAllStringSubmatch(t, -1) {
		if p[1] == "graph" {
			w.Graph = int(u(p[2]))
		} else {
			w.Check = int(u(p[2]))
		}
	}
	s.head.sweep, s.head.graph = w, w.Graph
}

// device reads one line of the list of devices.
func (s *stream) device(t string, n int) {
	m := reDevice.FindStringSubmatch(t)
	if m == nil {
		// The text of one process is cut after 2 KiB, in the middle of a line.
		if s.head.listed && !s.head.listCut {
			s.log.problems.at(s.log.name, n, "cannot read a device", "it is no line of nccl-tests' list", "repair or remove the line")
		}
		return
	}
	rank, _ := strconv.Atoi(m[1])
	group, _ := strconv.Atoi(m[2])
	pid, _ := strconv.Atoi(m[3])
	ordinal, _ := strconv.Atoi(m[5])
	for _, d := range s.head.devices {
		if d.Rank == rank && d.PID != pid {
			s.log.problems.at(s.log.name, n, fmt.Sprintf("rank %d is listed twice, as processes %d and %d", rank, d.PID, pid),
				"several programs of one process each ran side by side, none of them an all-reduce of all: nccl-tests was built without MPI, or with another MPI than the launcher's",
				"build nccl-tests with MPI=1 and run it again")
			return
		}
	}
	s.head.devices = append(s.head.devices, result.Device{Rank: rank, Host: m[4], PID: pid, Ordinal: ordinal, PCI: m[6], Name: m[7]})
	s.head.groups = append(s.head.groups, group)
}

// ranks gives the number of ranks of one all-reduce, and why it is not that of
// the job. It is 0 when the header does not tell.
func (h *header) ranks() (n int, split string, err error) {
	if !h.whole() {
		return 0, "", nil
	}
	groups := map[int]int{}
	for _, g := range h.groups {
		groups[g]++
	}
	for _, c := range groups {
		if n != 0 && c != n {
			return 0, "", fmt.Errorf("its groups have %d and %d ranks", n, c)
		}
		n = c
	}
	if len(groups) > 1 {
		split = fmt.Sprintf("%d groups of %d ranks ran side by side; the table is that of the first", len(groups), n)
	}
	return n, split, nil
}

// whole reports whether the list of devices has every rank: that of a pasted log
// may have lost lines.
func (h *header) whole() bool {
	last := -1
	for _, d := range h.devices {
		last = max(last, d.Rank)
	}
	return len(h.devices) > 0 && !h.listCut && last == len(h.devices)-1
}

// ncclVersion writes a version code as NCCL counts: 21903 is 2.19.3, and up to
// 2.8 a thousand was 1.0.
func ncclVersion(code string) string {
	n, err := strconv.Atoi(code)
	switch {
	case err != nil || n <= 0:
		return ""
	case n < 10000:
		return fmt.Sprintf("%d.%d.%d", n/1000, n/100%10, n%100)
	}
	return fmt.Sprintf("%d.%d.%d", n/10000, n/100%100, n%100)
}

func (s *stream) outOfBounds(t string) {
	tab := s.table
	if tab == nil {
		return
	}
	if m := reOutBound.FindStringSubmatch(t); m != nil && m[1] != "0" {
		if !tab.wrong {
			tab.failed = fmt.Sprintf("%s: %s values out of bounds, says the log", tab.name(), m[1])
		}
	}
	tab.closed = true
	tab.seal()
	s.table = nil
}

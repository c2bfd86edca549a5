package importer

import "fmt"

// What memory grows with, and how far. A log of any length is read; one with
// more of these is refused, for it is no log of a benchmark.
const (
	maxTables  = 1 << 17
	maxStreams = 1 << 14 // launcher's tags behind which something was found
	maxSizes   = 1 << 22 // different sizes, counted for each mode, type and placement
	maxKinds   = 1 << 14 // modes, algorithms, types and operations together
	maxSets    = 1 << 10 // groups of algorithms that were chosen at one size
	maxTimes   = 1 << 18 // iterations or trials of one row
	maxPending = 1 << 16 // rows of bench_collective.py whose size is not known yet
	// What is beyond these is left out, with a note that says so.
	maxPredictions = 1 << 14 // different tuning lines
	maxChoices     = 1 << 18 // sizes in tuning lines, for each table
	maxNotes       = 1 << 10
)

// full ends the reading of a log that has too many of what.
func (l *log) full(n, limit int, what string) {
	if !l.stop {
		l.stop = true
		l.problems.at(l.name, n, "the log is too large", fmt.Sprintf("it has more than %d %s", limit, what), "cut it and import the parts as results of their own")
	}
}

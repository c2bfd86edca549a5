//go:build linux

package mpiboot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// PeersError says why an operation among the ranks of a host did not complete.
// All ranks in it are world ranks.
type PeersError struct {
	Stage   string
	Op      string        // "barrier", "vote", …
	Missing []int         // did not answer in time
	Gone    []Departure   // ended, in the order in which that was seen
	OutOf   []OutOfStep   // answered, but for something else
	Empty   []int         // answered without the descriptor that they owed
	Waited  time.Duration // until the operation was given up
	Cause   error         // the context's, where Missing is not empty
}

// Departure is a rank whose connection closed.
type Departure struct {
	Rank int
	Code *ExitCode // with which it said it would leave; nil if it said nothing
	Err  error     // what else is known; nil for a plain end
}

// OutOfStep is a rank that is somewhere else than this one.
type OutOfStep struct {
	Rank    int
	Theirs  string // stage
	TheirOp string
	Step    uint32 // the number of the operation there
	OwnRank int
	Own     string
	OwnOp   string
	OwnStep uint32
}

func (o OutOfStep) String() string {
	return fmt.Sprintf("rank %d is at stage %q (%s, step %d) while rank %d is at %q (%s, step %d)",
		o.Rank, o.Theirs, o.TheirOp, o.Step, o.OwnRank, o.Own, o.OwnOp, o.OwnStep)
}

func (e *PeersError) Error() string {
	var parts []string
	for _, g := range e.Gone {
		switch {
		case g.Code != nil:
			parts = append(parts, fmt.Sprintf("rank %d left with exit code %d", g.Rank, *g.Code))
		case g.Err != nil:
			parts = append(parts, fmt.Sprintf("rank %d closed its connection (%v)", g.Rank, g.Err))
		default:
			parts = append(parts, fmt.Sprintf("rank %d closed its connection (it ended)", g.Rank))
		}
	}
	for _, o := range e.OutOf {
		parts = append(parts, o.String())
	}
	if len(e.Empty) > 0 {
		parts = append(parts, fmt.Sprintf("%s brought no descriptor", rankList(e.Empty)))
	}
	if len(e.Missing) > 0 {
		how := "did not answer within"
		if e.Op == "mesh" {
			how = "did not connect within"
		}
		text := fmt.Sprintf("%s %s %v", rankList(e.Missing), how, e.Waited.Round(time.Millisecond))
		if e.Cause != nil {
			text += fmt.Sprintf(" (%v)", e.Cause)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives the context's error, so that a cancelled wait can be told from
// one that ran out of time.
func (e *PeersError) Unwrap() error { return e.Cause }

// ExitCode is the highest code that a departed rank announced; without one, and
// if ranks were missing, that of the context's cause (a signal, for instance)
// or Timeout; else Internal.
func (e *PeersError) ExitCode() ExitCode {
	code := failure.OK
	for _, g := range e.Gone {
		if g.Code != nil {
			code = max(code, *g.Code)
		}
	}
	switch {
	case code != failure.OK:
		return code
	case len(e.Missing) > 0 && len(e.Gone) == 0 && len(e.OutOf) == 0:
		var f *failure.Error
		if errors.As(e.Cause, &f) {
			return f.Code
		}
		return failure.Timeout
	}
	return failure.Internal
}

// explain puts the error into the shape for the user.
func (e *PeersError) explain(rank int, host string) *failure.Error {
	what := fmt.Sprintf("%s at stage %q did not complete", e.Op, e.Stage)
	if e.Op == "mesh" {
		what = e.Stage + " did not complete"
	}
	f := &failure.Error{Code: e.ExitCode(), What: what, Where: fmt.Sprintf("rank %d on %s", rank, host), Err: e, By: failure.User}
	switch {
	case len(e.Gone) > 0:
		f.Do = "see what " + rankList(slices.Sorted(ranksOf(e.Gone))) + " printed last"
	case len(e.OutOf) > 0:
		f.Do = "give every rank the same flags, configuration and build"
	case len(e.Missing) > 0:
		f.Do = "see what " + rankList(e.Missing) + " printed last; if it was only slow, raise timeout under [bootstrap]"
	}
	return f
}

func ranksOf(gone []Departure) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, g := range gone {
			if !yield(g.Rank) {
				return
			}
		}
	}
}

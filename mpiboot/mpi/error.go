//go:build linux

package mpi

import (
	"fmt"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Error is an MPI call that returned an error code.
type Error struct {
	Call  string // "MPI_Bcast"
	Stage string // what the program was doing
	Code  int    // the return value
	Text  string // MPI_Error_string of it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s at stage %q returned %d (%s)", e.Call, e.Stage, e.Code, e.Text)
}

// ExitCode is that of an internal failure.
func (e *Error) ExitCode() failure.Code { return failure.Internal }

// DeadlineError is an MPI call for which the caller no longer waits. The call
// itself goes on: MPI has no way to take it back, so no other can follow.
type DeadlineError struct {
	Call   string
	Stage  string
	Waited time.Duration
	Err    error // the context's
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("%s at stage %q has not returned after %v (%v): a rank did not come to this stage",
		e.Call, e.Stage, e.Waited.Round(time.Millisecond), e.Err)
}

func (e *DeadlineError) Unwrap() error { return e.Err }

// ExitCode is that of a timeout.
func (e *DeadlineError) ExitCode() failure.Code { return failure.Timeout }

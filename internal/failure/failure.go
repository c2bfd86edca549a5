// Package failure is the shape of every error that reaches the user: what
// failed, where, why in this context, what to do about it, and who can do it.
// It also owns the exit codes, so that an error carries the code with which
// all ranks leave.
package failure

import (
	"errors"
	"fmt"
	"strings"
)

// Code is an exit code of the program. They follow nccl-tests where that has
// the same case; all stay at or below 125 but Terminated, which is 128+SIGTERM.
type Code int

const (
	OK          Code = 0
	Internal    Code = 1   // a fault of this program, or of the system below it
	Device      Code = 2   // the CUDA driver (or the software device) failed
	Unavailable Code = 3   // the requested mode cannot run here
	Timeout     Code = 4   // a rank or a kernel did not answer within its deadline
	Usage       Code = 6   // wrong flag, key, value or file
	WrongData   Code = 7   // verification failed, or the required bandwidth was missed
	Terminated  Code = 143 // ended by SIGTERM after writing what was measured
)

// Who can act on a failure.
type Who string

const (
	User          Who = "user"
	Administrator Who = "administrator"
)

// Error is a failure with its explanation. Fields may be empty, What may not.
type Error struct {
	Code  Code
	What  string // what failed: "NVLS zero-copy cannot run"
	Where string // rank, host, device: "rank 3 on node7, GPU-…"
	Why   string // the reason in this context
	Do    string // what to do about it: one command or one config line
	By    Who    // who can do it
	Err   error  // the cause
}

// Error writes everything in one line: what, where, why, cause, remedy.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	if e.Where != "" {
		fmt.Fprintf(&b, " (%s)", e.Where)
	}
	if e.Why != "" {
		fmt.Fprintf(&b, ": %s", e.Why)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Do != "" {
		by := ""
		if e.By != "" {
			by = " (" + string(e.By) + ")"
		}
		fmt.Fprintf(&b, ". To do%s: %s", by, e.Do)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Format writes the cause's details under %+v.
func (e *Error) Format(f fmt.State, verb rune) {
	fmt.Fprint(f, e.Error())
	if verb == 'v' && f.Flag('+') {
		var in fmt.Formatter
		if errors.As(e.Err, &in) {
			fmt.Fprintf(f, "\n%+v", in)
		}
	}
}

// New makes a failure from a code and a formatted What.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, What: fmt.Sprintf(format, args...)}
}

// Wrap makes a failure of err with a formatted What. The code of a failure
// inside err is kept; code is for errors that have none.
func Wrap(code Code, err error, format string, args ...any) *Error {
	var inner *Error
	if errors.As(err, &inner) {
		code = inner.Code
	}
	return &Error{Code: code, What: fmt.Sprintf(format, args...), Err: err}
}

// CodeOf finds the exit code of err: OK for nil, Internal when none is named.
// Any error with an ExitCode method counts.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var f *Error
	if errors.As(err, &f) {
		return f.Code
	}
	var c interface{ ExitCode() Code }
	if errors.As(err, &c) {
		return c.ExitCode()
	}
	return Internal
}

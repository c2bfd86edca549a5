//go:build linux

package mpiboot

import "github.com/nvls-allreduce/nvls-allreduce/internal/failure"

// ExitCode is the exit code of a rank, on which all agree in World.Finish.
type ExitCode = failure.Code

// The exit codes of the program; docs of the command have the same. A program of
// its own may add others, above ExitWrongData and up to 125.
const (
	ExitOK          = failure.OK
	ExitInternal    = failure.Internal    // a fault of the program, or of the system below it
	ExitDevice      = failure.Device      // the CUDA driver, or the software device, failed
	ExitUnavailable = failure.Unavailable // what was asked for cannot be had here
	ExitTimeout     = failure.Timeout     // a rank or a kernel did not answer within its deadline
	ExitUsage       = failure.Usage       // wrong flag, key, value or file
	ExitWrongData   = failure.WrongData   // verification failed
	ExitTerminated  = failure.Terminated  // SIGTERM: 128+15
)

// Error is the shape of this module's errors: what failed, where, why, what to do
// and who can do it. errors.As finds it.
type Error = failure.Error

// Who can act on an Error: User or Administrator.
type Who = failure.Who

// Who can act.
const (
	User          = failure.User
	Administrator = failure.Administrator
)

// ExitCodeOf is the exit code that an error of this module stands for: ExitOK for
// nil, ExitInternal for any other error.
func ExitCodeOf(err error) ExitCode { return failure.CodeOf(err) }

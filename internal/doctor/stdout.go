//go:build linux

package doctor

/*
#include <fcntl.h>

// Go's runtime puts /dev/null in the place of a closed standard output before any
// Go code runs. Constructors run earlier.
static int closed_at_start;
__attribute__((constructor)) static void look(void) { closed_at_start = fcntl(1, F_GETFD) < 0; }
static int stdout_closed(void) { return closed_at_start; }
*/
import "C"

import (
	"errors"
	"io"
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// CheckOutput says whether a report can reach a reader: w must not be a standard
// output that was closed when the process started.
func CheckOutput(w io.Writer) error {
	if w == io.Writer(os.Stdout) && C.stdout_closed() != 0 {
		return unwritten(errors.New("it is closed"))
	}
	return nil
}

// unwritten is the failure of a report that could not be written.
func unwritten(err error) *failure.Error {
	return &failure.Error{Code: failure.Internal, What: "cannot write the report to standard output", Err: err,
		Do: "see that standard output is open and has space", By: failure.User}
}

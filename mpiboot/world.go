//go:build linux

package mpiboot

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// Comm is what the ranks of the world do together: over MPI, or without MPI
// over the sockets of the one host.
type Comm interface {
	Rank() int
	Size() int
	Barrier(ctx context.Context, stage string) error
	Bcast(ctx context.Context, stage string, root int, data []byte) ([]byte, error)
	Allgather(ctx context.Context, stage string, mine []byte) ([][]byte, error)
	AllreduceInt64(ctx context.Context, stage string, op mpi.Op, values []int64) ([]int64, error)
	AllreduceFloat64(ctx context.Context, stage string, op mpi.Op, values []float64) ([]float64, error)
}

var (
	_ Comm = (*mpi.Comm)(nil)
	_ Comm = (*Node)(nil)
)

// World is all ranks that were started together.
type World struct {
	evidence Evidence
	rank     int
	size     int
	hosts    []host // by world rank
	id       UniqueID
	node     *Node
	lib      *mpi.Library // nil without MPI
	comm     *mpi.Comm    // nil without MPI and after MPI_Finalize
	hints    []hint       // why MPI may fail here
	timeout  time.Duration
	stderr   io.Writer
	stage    func(rank int, stage string) // Options.Stage
	abort    sync.Once
	ending   atomic.Bool // see Signalled
	exit     func(int)   // os.Exit
}

// Names of stages that have none in an error.
const (
	StageInit     = "MPI_Init"
	StageFinalize = "MPI_Finalize"
	StageExit     = "exit"
)

// enter tells the observer of Options that this rank enters a stage.
func (w *World) enter(stage string) {
	if w.stage != nil {
		w.stage(w.rank, stage)
	}
}

// Rank is this process's number, from 0.
func (w *World) Rank() int { return w.rank }

// Size is the number of processes.
func (w *World) Size() int { return w.size }

// Launcher names what started the ranks: one of the Launcher constants.
func (w *World) Launcher() string { return w.evidence.Launcher }

// Evidence is what the environment said.
func (w *World) Evidence() Evidence { return w.evidence }

// ID names this run; it is the same on every rank.
func (w *World) ID() UniqueID { return w.id }

// Host is the name of this rank's host.
func (w *World) Host() string { return w.hosts[w.rank].Name }

// Library is the MPI library's version and file, "" without MPI.
func (w *World) Library() string {
	if w.lib == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s)", w.lib.Version(), w.lib.File())
}

// Comm is the world as a communicator, never nil.
func (w *World) Comm() Comm {
	if w.comm == nil {
		return w.node
	}
	return w.comm
}

// Node is the ranks of this host.
func (w *World) Node() *Node { return w.node }

// Nodes is the number of hosts on which the ranks are.
func (w *World) Nodes() int { return len(ranksByHost(w.hosts)) }

// RequireOneNode fails where the ranks are on several hosts. The switch that
// adds up the data is inside one node.
func (w *World) RequireOneNode() error {
	groups := ranksByHost(w.hosts)
	if len(groups) == 1 {
		return nil
	}
	var where []string
	for _, g := range groups {
		h := w.hosts[g[0]]
		name := h.Name
		if h.Override != "" {
			name += " as " + h.Override
		}
		where = append(where, fmt.Sprintf("%s: %s", name, rankList(g)))
	}
	why, do := whySeveral(w.hosts, groups)
	return &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("the %d ranks are on %d hosts", w.size, len(groups)),
		Where: strings.Join(where, "; "),
		Why:   why + "; this program reduces among the GPUs of one node",
		Do:    do, By: failure.User}
}

// terminatedTimeout bounds the wait for the others after SIGTERM: batch
// systems kill what is left half a minute later or sooner.
const terminatedTimeout = 5 * time.Second

// Finish is the planned end. All ranks agree on the highest code that one of
// them brings, MPI is finalized, and every rank gets that code to exit with.
// This order is the only one of which all launchers keep the code. A rank that
// does not come makes it an Abort, but not after SIGTERM: every rank got that,
// and an MPI_Abort then may wait until the batch system kills.
func (w *World) Finish(code ExitCode) ExitCode {
	timeout := w.timeout
	if code == failure.Terminated {
		timeout = min(timeout, terminatedTimeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	comm := w.Comm()
	if w.node.Size() == w.size {
		comm = w.node // as good, and it can say who did not come
	} else {
		w.enter("agreement on the exit code")
	}
	all, err := comm.AllreduceInt64(ctx, "agreement on the exit code", mpi.Max, []int64{int64(code)})
	if err == nil {
		code = failure.Code(all[0])
	}
	if w.comm == nil {
		if err != nil {
			code = max(code, failure.CodeOf(err))
			w.print(code, err)
		}
		w.node.leave(code)
		return code
	}
	if err == nil {
		w.enter(StageFinalize)
		err = w.comm.Finalize(ctx)
	}
	if err != nil {
		if code == failure.Terminated {
			w.print(code, err)
			w.node.leave(code)
			return code
		}
		w.Abort(max(code, failure.CodeOf(err)), err)
	}
	w.comm = nil
	// The first rank that ends with an error makes some launchers kill the
	// others, so all should end at once. A rank that is gone by now did its part; one
	// that neither comes nor goes would keep the launcher waiting, and MPI_Finalize
	// does not tell of it (see finalizeAlone).
	if err := w.node.Barrier(ctx, StageExit); failure.CodeOf(err) == failure.Timeout && code != failure.Terminated {
		w.Abort(max(code, failure.Timeout), err)
	}
	w.node.leave(code)
	return code
}

const (
	// abortTimeout bounds MPI_Abort itself.
	abortTimeout = 10 * time.Second
	// abortPause lets the launcher fetch what was printed: on an abort it may
	// drop what is still in the pipe.
	abortPause = 200 * time.Millisecond
	// abortTurn is how long a rank leaves MPI_Abort to one before it, which ends this
	// one too, so that the user reads of one abort. When several ranks called it while
	// one was stopped, mpirun of Open MPI 4.1.4 hung in one run of ten.
	abortTurn = 2 * time.Second
)

// Abort is the end after an error that only this rank knows: it prints the
// error, tells the other ranks, and ends all processes with code (srun with
// PMI-2 turns that into 137). It never returns. With Terminated it ends only
// this rank, for the same reason as in Finish. A nil World, which Join gives
// where it failed early, just prints and exits.
func (w *World) Abort(code ExitCode, err error) {
	if w == nil {
		fmt.Fprintf(os.Stderr, "nvls-allreduce: %v\n", err)
		os.Exit(int(code))
	}
	w.abort.Do(func() {
		w.print(code, err)
		if w.node != nil {
			w.node.announce(code)
		}
		if w.comm != nil && code != failure.Terminated {
			time.Sleep(abortPause)
			if w.node != nil && w.node.aborting() {
				time.Sleep(abortTurn)
			}
		}
		if w.comm != nil && code != failure.Terminated && !w.ending.Load() {
			done := make(chan struct{})
			go func() { defer close(done); w.comm.Abort(int(code)) }()
			select {
			case <-done:
			case <-time.After(abortTimeout):
				fmt.Fprintf(w.stderr, "nvls-allreduce: rank %d: MPI_Abort has not ended this process within %v: exiting\n", w.rank, abortTimeout)
			}
		}
		w.exit(int(code))
	})
	select {} // another goroutine is ending the process
}

// Signalled says that a signal is ending this process. An Abort that is under way,
// or comes, then exits without MPI_Abort: other ranks learn of it all the same, and
// where the launcher sent the signal it is ending the job.
func (w *World) Signalled() { w.ending.Store(true) }

func (w *World) print(code failure.Code, err error) {
	fmt.Fprintf(w.stderr, "nvls-allreduce: rank %d of %d on %s: %v (exit code %d)\n", w.rank, w.size, w.Host(), err, code)
}

package bench

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// signalGrace is how long a rank that sees another one go waits for a signal of
// its own, and how long ranks other than 0 leave rank 0 to write.
const signalGrace = 300 * time.Millisecond

// writePatience is how long files may take after a signal.
const writePatience = 4 * time.Second

// watchSignals ends the run on SIGTERM and its like: what was measured is
// written and the process exits with 143. There is no MPI_Abort and no finalize:
// the signal reaches every rank, and the launcher is ending the job already.
// USR1 and USR2 are what batch systems are told to send before the time limit.
func (r *record) watchSignals() (stop func()) {
	c := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // nohup and a shell's & ask to ignore one
			signal.Notify(c, s)
		}
	}
	go func() {
		s, ok := <-c
		if !ok {
			return
		}
		r.b.world.Signalled()
		name := signalName(s)
		if r.first() {
			fmt.Fprintf(r.b.process.Stderr, "nvls-allreduce: rank 0: %s: writing what was measured\n", name)
			written, concluded := make(chan struct{}), make(chan struct{})
			go func() {
				err := r.end(result.Status{State: result.Interrupted, Reason: name})
				close(written)
				r.conclude(err)
				close(concluded)
			}()
			select {
			case <-written:
			case <-time.After(writePatience): // an output that takes no data
			}
			select {
			case <-concluded:
			case <-time.After(signalGrace): // nobody reads our output any more
			}
		} else {
			time.Sleep(signalGrace)
		}
		os.Exit(int(failure.Terminated))
	}()
	return func() { signal.Stop(c); close(c) }
}

func signalName(s os.Signal) string {
	names := map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP", syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2"}
	if n, ok := names[s]; ok {
		return n
	}
	return s.String()
}

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

// watchSignals ends the run on SIGTERM and its like: what was measured is
// written and the process exits with 143. There is no MPI_Abort and no finalize:
// the signal reaches every rank, and the launcher is ending the job already.
// USR1 and USR2 are what batch systems are told to send before the time limit.
func (r *record) watchSignals() (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		s, ok := <-c
		if !ok {
			return
		}
		name := signalName(s)
		if r.first() {
			fmt.Fprintf(r.b.process.Stderr, "nvls-allreduce: rank 0: %s: writing what was measured\n", name)
			err := r.end(result.Status{State: result.Interrupted, Reason: name})
			concluded := make(chan struct{})
			go func() { r.conclude(err); close(concluded) }()
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

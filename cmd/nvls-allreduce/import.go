package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/importer"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// importCommand makes a result of the logs of other programs.
type importCommand struct {
	Output string   `short:"o" required:"" placeholder:"FILE.json" help:"Result to write."`
	Ranks  *int     `placeholder:"N" takes:"a whole number of ranks from 1" example:"8" help:"Number of ranks, for logs that do not tell it."`
	Logs   []string `arg:"" name:"log" help:"Logs of nccl-tests, MSCCL++, OSU or the PyTorch script, or NCCL's tuning lines."`
}

// Run reads all logs before it writes anything.
func (c *importCommand) Run(e *environment) error {
	ranks := 0
	if c.Ranks != nil {
		if ranks = *c.Ranks; ranks < 1 {
			f := failure.New(failure.Usage, "--ranks %d is not possible", ranks)
			f.Do, f.By = "give a whole number of ranks from 1; for example --ranks 8", failure.User
			return f
		}
	}
	if !strings.HasSuffix(c.Output, ".json") {
		f := failure.New(failure.Usage, "--output %q is not possible", c.Output)
		f.Why, f.Do, f.By = "an imported result is JSON", "give a name that ends in .json", failure.User
		return f
	}
	var logs []importer.Log
	for _, name := range c.Logs {
		f, err := userfile.OpenStream(name)
		if err != nil {
			e := failure.Wrap(failure.Usage, err, "cannot read the log (%s)", name)
			e.Do, e.By = "give the file that the other program's output was written to", failure.User
			return e
		}
		defer f.Close()
		if userfile.Same(name, c.Output) {
			e := failure.New(failure.Usage, "--output %s is one of the logs", c.Output)
			e.Why, e.Do, e.By = "it would be replaced by the result", "give another name", failure.User
			return e
		}
		for i, other := range c.Logs[:len(logs)] {
			if userfile.Same(name, other) {
				e := failure.New(failure.Usage, "a log is given twice")
				e.Why, e.Do, e.By = fmt.Sprintf("%s and %s are one file, and its rows would stand twice", c.Logs[i], name), "give it once", failure.User
				return e
			}
		}
		logs = append(logs, importer.Log{Name: name, Reader: f})
	}
	// Rows of a long log wait beside the result, where there must be space.
	imported, err := importer.Read(logs, importer.Options{Ranks: ranks, Version: moduleVersion()}, filepath.Dir(c.Output))
	if err != nil {
		return err
	}
	defer imported.Close()
	if err := writeUnlessEnded(e.ctx, imported, c.Output); err != nil {
		return err
	}
	run := imported.Run
	said := fmt.Sprintf("%s: %d rows and %d predictions of %s, %d ranks\n", c.Output, imported.NumRows, len(run.Predictions), run.Tool, run.WorldSize)
	for _, n := range run.Notes {
		said += fmt.Sprintf("  %s\n", n)
	}
	if run.Status.State != result.Complete {
		said += fmt.Sprintf("  not complete: %s\n", run.Status.Reason)
	}
	return e.tell("%s", said)
}

// writeUnlessEnded writes the result. A signal that ends the program ends it after
// the half-written file is removed, which may be large.
func writeUnlessEnded(ctx context.Context, x *importer.Imported, path string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var got atomic.Pointer[os.Signal]
	go func() {
		select {
		case s := <-signals:
			got.Store(&s)
			stop(fmt.Errorf("ended by %v", s))
		case <-ctx.Done():
		}
	}()
	err := x.WriteFile(ctx, path)
	if s := got.Load(); s != nil {
		signal.Reset(*s)
		if n, ok := (*s).(syscall.Signal); ok && syscall.Kill(os.Getpid(), n) == nil {
			time.Sleep(time.Second) // it comes to any thread
		}
	}
	return err
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/importer"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// importCommand makes a result of the logs of other programs.
type importCommand struct {
	Output string   `short:"o" required:"" placeholder:"FILE.json" help:"Result to write."`
	Ranks  *int     `placeholder:"N" help:"Number of ranks, for logs that do not tell it."`
	Logs   []string `arg:"" name:"log" help:"Logs of nccl-tests, MSCCL++, OSU or the PyTorch script, or NCCL's tuning lines."`
}

// Run reads all logs before it writes anything.
func (c *importCommand) Run(e *environment) error {
	ranks := 0
	if c.Ranks != nil {
		if ranks = *c.Ranks; ranks < 1 {
			return failure.New(failure.Usage, "--ranks %d is not possible", ranks)
		}
	}
	if !strings.HasSuffix(c.Output, ".json") {
		f := failure.New(failure.Usage, "--output %q is not possible", c.Output)
		f.Why, f.Do, f.By = "an imported result is JSON", "give a name that ends in .json", failure.User
		return f
	}
	var logs []importer.Log
	for _, name := range c.Logs {
		f, err := os.Open(name)
		if err != nil {
			return failure.Wrap(failure.Usage, err, "cannot read a log")
		}
		defer f.Close()
		if same(f, c.Output) {
			e := failure.New(failure.Usage, "--output %s is one of the logs", c.Output)
			e.Why, e.Do, e.By = "it would be replaced by the result", "give another name", failure.User
			return e
		}
		logs = append(logs, importer.Log{Name: name, Reader: f})
	}
	// Rows of a long log wait beside the result, where there must be space.
	imported, err := importer.Read(logs, importer.Options{Ranks: ranks, Version: moduleVersion()}, filepath.Dir(c.Output))
	if err != nil {
		return err
	}
	defer imported.Close()
	if err := imported.WriteFile(c.Output); err != nil {
		return err
	}
	run := imported.Run
	fmt.Fprintf(e.stdout, "%s: %d rows and %d predictions of %s, %d ranks\n", c.Output, imported.NumRows, len(run.Predictions), run.Tool, run.WorldSize)
	for _, n := range run.Notes {
		fmt.Fprintf(e.stdout, "  %s\n", n)
	}
	if run.Status.State != result.Complete {
		fmt.Fprintf(e.stdout, "  not complete: %s\n", run.Status.Reason)
	}
	return nil
}

// same reports whether path is the open file.
func same(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

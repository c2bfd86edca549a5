package main

import (
	"path/filepath"

	reports "github.com/nvls-allreduce/nvls-allreduce/internal/report"
)

// reportCommand writes results that are files as a page.
type reportCommand struct {
	results `embed:""`
	Output  string `short:"o" required:"" help:"Folder to write report.html, report.md and the charts to." placeholder:"DIR"`
}

// Run writes all or, on any fault of the input, nothing.
func (c *reportCommand) Run(e *environment) error {
	if err := reports.CheckDir(c.Output); err != nil {
		return err
	}
	runs, o, err := c.read()
	if err != nil {
		return err
	}
	if err := reports.Write(c.Output, runs, o); err != nil {
		return err
	}
	return e.tell("wrote %s\nwrote %s\n", filepath.Join(c.Output, reports.HTML), filepath.Join(c.Output, reports.Markdown))
}

package main

import (
	"io"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// configCommand prints the configuration that run would use, as a file that
// --config reads.
type configCommand struct {
	Flags flags `embed:""`
}

// Run prints only what is valid.
func (c *configCommand) Run(e *environment) error {
	cfg, err := c.Flags.config(e.given)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(e.stdout, cfg.TOML()); err != nil {
		return failure.Wrap(failure.Internal, err, "cannot write the configuration")
	}
	return nil
}

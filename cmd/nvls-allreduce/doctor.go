package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nvls-allreduce/nvls-allreduce/internal/doctor"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// doctorCommand foretells a run with the same flags, and says why not.
type doctorCommand struct {
	Flags flags `embed:""`
	JSON  bool  `name:"json" help:"Print the report as JSON." group:"Results"`
}

// Run starts the local ranks, or is one.
func (c *doctorCommand) Run(e *environment, code *failure.Code) error {
	cfg, err := c.Flags.config(e.given)
	if err != nil {
		return err
	}
	self, err := executable()
	if err != nil && c.Flags.NP != nil {
		f := failure.Wrap(failure.Internal, err, "cannot start ranks of this program")
		f.Do, f.By = "mount /proc, or start the program by its whole path", failure.User
		return f
	}
	var probe []string
	if err == nil {
		probe = []string{self, "doctor-probe"}
	}
	local, err := isLocalRank(e.environ, c.Flags.NP)
	if err != nil {
		return err
	}
	if np := c.Flags.NP; np != nil && !local {
		if err := checkNP(*np, cfg, e.environ); err != nil {
			return err
		}
		if err := doctor.CheckOutput(e.stdout); err != nil {
			return err
		}
		exit, err := mpiboot.Launch(e.ctx, *np, append([]string{self}, e.args...), e.environ, e.stdout, e.stderr)
		*code = failure.Code(exit)
		return err
	}
	*code = doctor.Main(e.ctx, doctor.Options{
		Config: cfg, JSON: c.JSON, Probe: probe, System: doctor.Host(e.environ),
		Version: moduleVersion(), Stdout: e.stdout, Stderr: e.stderr,
	})
	return nil
}

// executable is this program's file: as Linux tells it, or where /proc is hidden, as
// it was called.
func executable() (string, error) {
	self, err := os.Executable()
	if err == nil {
		return self, nil
	}
	if path, e := exec.LookPath(os.Args[0]); e == nil && filepath.IsAbs(path) {
		return path, nil
	}
	return "", err
}

// doctorProbeCommand is a probe process of the doctor.
type doctorProbeCommand struct {
	Request string `arg:"" help:"What to probe, as the doctor writes it."`
}

// Run does what may hang or break a process.
func (c *doctorProbeCommand) Run(e *environment, code *failure.Code) error {
	*code = doctor.Probe(e.ctx, c.Request, e.environ, e.stdout, e.stderr, nil)
	return nil
}

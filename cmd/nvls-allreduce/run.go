package main

import (
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/bench"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// measure is this rank's run.
func measure(e *environment, cfg *configs.Config) (failure.Code, error) {
	return bench.Main(e.ctx, cfg, bench.Process{
		Version: moduleVersion(), Args: append([]string{program}, e.args...), Environ: e.environ, Stdout: e.stdout, Stderr: e.stderr,
	}), nil
}

package main

import (
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// measure is this rank's run.
//
// NOT WIRED YET: calls internal/bench when that is there.
func measure(e *environment, cfg *configs.Config) (failure.Code, error) {
	return failure.Internal, failure.New(failure.Internal, "not wired yet: measurement")
}

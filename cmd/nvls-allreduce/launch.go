package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// maxNP is how many ranks --np starts at most: what a group can have.
const maxNP = collective.MaxRanks

var npTakes = fmt.Sprintf("a whole number of ranks from 1 to %d", maxNP)

// runCommand measures.
type runCommand struct {
	Flags flags `embed:""`
}

// Run checks the configuration, then either starts the local ranks or is one.
func (c *runCommand) Run(e *environment, code *failure.Code) error {
	cfg, err := c.Flags.config(e.given)
	if err != nil {
		return err
	}
	np := c.Flags.NP
	local, err := isLocalRank(e.environ, np)
	if err != nil {
		return err
	}
	if np == nil || local {
		*code, err = measure(e, cfg)
		return err
	}
	if err := checkNP(*np, cfg, e.environ); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return failure.Wrap(failure.Internal, err, "cannot start ranks of this program")
	}
	exit, err := mpiboot.Launch(e.ctx, *np, append([]string{self}, e.args...), e.environ, e.stdout, e.stderr)
	*code = failure.Code(exit)
	return err
}

// isLocalRank says whether this process is one that --np started. Variables of
// the own launcher that --np did not set for it are refused: a stale one would
// make this a world of one without a word.
func isLocalRank(environ []string, np *int) (bool, error) {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	rank, set := env[mpiboot.EnvRank]
	if !set {
		return false, nil
	}
	size := env[mpiboot.EnvSize]
	_, badID := mpiboot.ParseUniqueID(env[mpiboot.EnvUniqueID])
	if rank != "" && badID == nil && (np == nil || size == fmt.Sprint(*np)) {
		return true, nil
	}
	return false, &failure.Error{Code: failure.Usage, What: "the variables of the own launcher are set, and not by it",
		Why: fmt.Sprintf("%s=%q, %s=%q, %s=%q", mpiboot.EnvRank, rank, mpiboot.EnvSize, size, mpiboot.EnvUniqueID, env[mpiboot.EnvUniqueID]),
		Do:  "unset " + mpiboot.EnvRank + " " + mpiboot.EnvSize + " " + mpiboot.EnvUniqueID, By: failure.User}
}

// checkNP refuses --np where a launcher already made several ranks: each of
// them would start a world of its own. One task of srun is no such world, and
// in interactive allocations every shell is one.
func checkNP(np int, cfg *configs.Config, environ []string) error {
	if np < 1 || np > maxNP {
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--np %d is not possible", np),
			Do: "give " + npTakes + "; for example --np 4", By: failure.User}
	}
	switch l := cfg.Bootstrap.Launcher; l {
	case configs.LauncherAuto, configs.LauncherLocal:
	default:
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--np %d and launcher %q exclude each other", np, l),
			Where: cfg.Origin("bootstrap.launcher"), Do: "leave out --np, or set launcher = \"local\"", By: failure.User}
	}
	if l := cfg.Bootstrap.MPILibrary; l != "" {
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--np %d and MPI library %q exclude each other", np, l), Why: "ranks that --np starts use no MPI",
			Where: cfg.Origin("bootstrap.mpi_library"), Do: "leave out --np and start the ranks with the mpirun of that library, or leave out the library", By: failure.User}
	}
	if n := cfg.Sim.Devices; cfg.Run.Device == configs.DeviceSim && n > 0 && np > n && !cfg.Run.ShareGPU {
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--np %d is more than the %d software devices", np, n),
			Where: cfg.Origin("sim.devices"), Do: "lower --np, or raise sim.devices; --share-gpu lets ranks share one", By: failure.User}
	}
	found, err := mpiboot.Detect(environ)
	if err != nil {
		return err
	}
	alone := found.Launcher == mpiboot.LauncherNone || found.Launcher == mpiboot.LauncherLocal ||
		found.Launcher == mpiboot.LauncherSlurm && found.Size == 1
	if !alone {
		return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--np %d inside a launcher", np),
			Why: fmt.Sprintf("%s is set: %s already started this process as a rank", found.From["Rank"], found.Launcher),
			Do:  "leave out --np, or start the program without the launcher", By: failure.User}
	}
	return nil
}

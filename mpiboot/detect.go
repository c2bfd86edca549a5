//go:build linux

package mpiboot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Launchers by the names that Options and the configuration use.
const (
	LauncherAuto    = "auto"
	LauncherOpenMPI = "openmpi" // mpirun of Open MPI, prterun
	LauncherMPICH   = "mpich"   // Hydra of MPICH, Intel MPI, MVAPICH; Cray PALS
	LauncherSlurm   = "slurm"   // srun
	LauncherLocal   = "local"   // this package's Launch
	LauncherNone    = "none"    // started by hand: a world of one
)

// Environment of the ranks that Launch starts.
const (
	EnvRank     = "NVLS_ALLREDUCE_RANK"
	EnvSize     = "NVLS_ALLREDUCE_SIZE"
	EnvUniqueID = "NVLS_ALLREDUCE_UNIQUE_ID"
)

// Evidence is what the environment says about the launcher. A number that it
// does not tell is -1.
type Evidence struct {
	Launcher  string
	Rank      int
	Size      int
	LocalRank int
	LocalSize int
	// PMI is the interface that the launcher offers to the MPI library: "pmix",
	// "pmi2", "pmi" (either version of PMI over a descriptor), "none", or "" where
	// it takes no part.
	PMI string
	// From names the variable from which each number was read, by the field's
	// name: From["Rank"] == "OMPI_COMM_WORLD_RANK".
	From map[string]string
	// Note is something the user may not have meant, for instance to run in a
	// batch script of 8 tasks without srun. Empty if there is nothing.
	Note string
}

// source says by which variables one launcher is known. The first variable of
// a list that is set counts.
type source struct {
	launcher  string
	pmi       string
	signs     []string // all of them must be set; NAME=text: and begin with text
	rank      []string
	size      []string
	localRank []string
	localSize []string
}

// sources in order of precedence. Whoever started this process last comes
// first: our own launcher runs inside any other, and the MPI launchers run
// inside Slurm's batch scripts and job steps, whose variables their ranks
// inherit unchanged (SLURM_PROCID is 0 on every rank that mpirun starts on the
// batch host).
var sources = []source{
	{LauncherLocal, "", []string{EnvRank, EnvSize},
		[]string{EnvRank}, []string{EnvSize}, []string{EnvRank}, []string{EnvSize}},
	{LauncherOpenMPI, "pmix", []string{"OMPI_COMM_WORLD_RANK"},
		[]string{"OMPI_COMM_WORLD_RANK"}, []string{"OMPI_COMM_WORLD_SIZE"},
		[]string{"OMPI_COMM_WORLD_LOCAL_RANK"}, []string{"OMPI_COMM_WORLD_LOCAL_SIZE"}},
	{LauncherMPICH, "pmi", []string{"PALS_RANKID"},
		[]string{"PALS_RANKID"}, []string{"PMI_SIZE"},
		[]string{"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"}, []string{"PMI_LOCAL_SIZE"}},
	{LauncherMPICH, "pmi", []string{"MV2_COMM_WORLD_RANK"},
		[]string{"MV2_COMM_WORLD_RANK"}, []string{"MV2_COMM_WORLD_SIZE"},
		[]string{"MV2_COMM_WORLD_LOCAL_RANK"}, []string{"MV2_COMM_WORLD_LOCAL_SIZE"}},
	{LauncherMPICH, "pmi", []string{"PMI_RANK", "MPI_LOCALRANKID"},
		[]string{"PMI_RANK"}, []string{"PMI_SIZE"}, []string{"MPI_LOCALRANKID"}, []string{"MPI_LOCALNRANKS"}},
	slurmSource("pmix", "PMIX_RANK", "SLURM_STEP_ID", "PMIX_NAMESPACE=slurm.pmix"),
	slurmSource("pmi2", "PMI_RANK", "SLURM_STEP_ID", "PMI_JOBID"),
	{LauncherMPICH, "pmi", []string{"PMI_RANK"},
		[]string{"PMI_RANK"}, []string{"PMI_SIZE"}, []string{"PMI_LOCAL_RANK"}, []string{"PMI_LOCAL_SIZE"}},
	{LauncherOpenMPI, "pmix", []string{"PMIX_RANK"},
		[]string{"PMIX_RANK"}, nil, nil, nil},
	// SLURM_STEP_NUM_TASKS and not SLURM_NTASKS: the latter is there in a batch
	// script too, where there is one process and not that many.
	slurmSource("none", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"),
}

func slurmSource(pmi string, signs ...string) source {
	return source{LauncherSlurm, pmi, append(signs, "SLURM_PROCID"),
		[]string{"SLURM_PROCID"}, []string{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, []string{"SLURM_LOCALID"}, nil}
}

// Detect reads the launcher's variables from an environment in the form of
// os.Environ. It fails where they contradict each other or are not numbers.
func Detect(environ []string) (Evidence, error) { return detect(environ, LauncherAuto) }

// DetectAs is Detect for one launcher only, or for any ("auto", ""), as Join reads
// the environment.
func DetectAs(environ []string, launcher string) (Evidence, error) { return detect(environ, launcher) }

// detect is Detect for one launcher only, or for any ("auto", "").
func detect(environ []string, launcher string) (Evidence, error) {
	env := variables(environ)
	alone := Evidence{Launcher: LauncherNone, Rank: 0, Size: 1, LocalRank: 0, LocalSize: 1, From: map[string]string{}}
	switch launcher {
	case LauncherNone:
		// What cannot be read is not asked for.
		if other, err := detect(environ, LauncherAuto); err == nil && other.Size > 1 {
			alone.Note = fmt.Sprintf("started by %s as rank %d of %d (%s), but the launcher is set to %q: this is a world of one",
				launcherName(other), other.Rank, other.Size, other.From["Rank"], LauncherNone)
		}
		return alone, nil
	case LauncherAuto, "":
		launcher = ""
	case LauncherOpenMPI, LauncherMPICH, LauncherSlurm, LauncherLocal:
	default:
		return Evidence{}, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("unknown launcher %q", launcher),
			Do: "use one of auto, openmpi, mpich, slurm, local, none", By: failure.User}
	}

	var found *Evidence
	for _, s := range sources {
		if launcher != "" && s.launcher != launcher || !allSet(env, s.signs) {
			continue
		}
		ev, err := s.read(env)
		if err != nil {
			return Evidence{}, err
		}
		if found == nil {
			found = &ev
			continue
		}
		if rivals(*found, ev) {
			return Evidence{}, &failure.Error{Code: failure.Usage,
				What: fmt.Sprintf("two launchers claim this process: %s=%s of %s and %s=%s of %s",
					found.From["Size"], env[found.From["Size"]], found.Launcher, ev.From["Size"], env[ev.From["Size"]], ev.Launcher),
				Why: "one ran inside the other, and their variables do not tell which was the inner one",
				Do:  fmt.Sprintf("name it: launcher = %q or %q under [bootstrap]", found.Launcher, ev.Launcher), By: failure.User}
		}
	}
	switch {
	case found != nil:
		return *found, nil
	case launcher != "":
		return Evidence{}, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("launcher %q was asked for, but it did not start this process", launcher),
			Why: "none of its variables is in the environment", Do: `set launcher = "auto" under [bootstrap], or start the program with that launcher; in a container, keep the environment (no --cleanenv)`, By: failure.User}
	}
	if n := env["SLURM_NTASKS"]; env["SLURM_JOB_ID"] != "" && n != "" && n != "1" {
		alone.Note = fmt.Sprintf("inside a Slurm allocation of %s tasks, but not started by srun: this is a world of one", n)
	}
	if n := env["WORLD_SIZE"]; env["RANK"] != "" && env["LOCAL_RANK"] != "" && n != "" && n != "1" {
		return Evidence{}, &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("started by torchrun as one of WORLD_SIZE=%s", n),
			Why: "torchrun gives no way to find the other ranks that this program speaks; it would run that many worlds of one",
			Do:  "start it with mpirun, with srun, or with its own --np " + n, By: failure.User}
	}
	return alone, nil
}

// variables reads the form of os.Environ; the last of equal names counts.
func variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// rivals says whether two MPI launchers claim the process with different sizes,
// or stale variables of the own launcher would make each of an MPI launcher's ranks
// a world of one. Slurm's variables under another launcher are inherited and mean nothing.
func rivals(a, b Evidence) bool {
	if a.Launcher == LauncherLocal {
		return a.Size == 1 && (b.Launcher == LauncherOpenMPI || b.Launcher == LauncherMPICH) && b.Size > 1
	}
	mpi := func(e Evidence) bool { return e.Launcher == LauncherOpenMPI || e.Launcher == LauncherMPICH }
	return mpi(a) && mpi(b) && a.Launcher != b.Launcher && a.Size > 0 && b.Size > 0 && a.Size != b.Size
}

func allSet(env map[string]string, signs []string) bool {
	for _, sign := range signs {
		name, begin, _ := strings.Cut(sign, "=")
		if env[name] == "" || !strings.HasPrefix(env[name], begin) {
			return false
		}
	}
	return true
}

func (s source) read(env map[string]string) (Evidence, error) {
	ev := Evidence{Launcher: s.launcher, PMI: s.pmi, Rank: -1, Size: -1, LocalRank: -1, LocalSize: -1, From: map[string]string{}}
	for _, f := range []struct {
		field string
		to    *int
		names []string
		least int
	}{
		{"Rank", &ev.Rank, s.rank, 0},
		{"Size", &ev.Size, s.size, 1},
		{"LocalRank", &ev.LocalRank, s.localRank, 0},
		{"LocalSize", &ev.LocalSize, s.localSize, 1},
	} {
		for _, name := range f.names {
			text := env[name]
			if text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < f.least {
				return Evidence{}, badVariable(name, text, "it is not a number that a launcher would set")
			}
			*f.to, ev.From[f.field] = n, name
			break
		}
	}
	// srun tells the tasks of each node only in its compressed form, which means
	// this node only where all are alike or there is one node.
	if name := "SLURM_STEP_TASKS_PER_NODE"; s.launcher == LauncherSlurm && env[name] != "" {
		node, err := strconv.Atoi(env["SLURM_NODEID"])
		if err == nil {
			if n, ok := tasksOnNode(env[name], node); ok {
				ev.LocalSize, ev.From["LocalSize"] = n, name
			}
		}
	}
	noSuch := func(rank, size string) error {
		rank, size = ev.From[rank], ev.From[size]
		return badVariable(rank, env[rank], fmt.Sprintf("%s=%s leaves no such rank", size, env[size]))
	}
	switch {
	case ev.Size > 0 && ev.Rank >= ev.Size:
		return Evidence{}, noSuch("Rank", "Size")
	case ev.LocalSize > 0 && ev.LocalRank >= ev.LocalSize:
		return Evidence{}, noSuch("LocalRank", "LocalSize")
	}
	return ev, nil
}

func badVariable(name, value, why string) error {
	return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("environment variable %s=%q cannot be used", name, value), Why: why,
		Do: "unset it, or name another launcher under [bootstrap]", By: failure.User}
}

// tasksOnNode reads Slurm's list of tasks per node, "2(x3),1" for 2, 2, 2, 1.
func tasksOnNode(list string, node int) (int, bool) {
	for item := range strings.SplitSeq(list, ",") {
		count, times, repeated := strings.Cut(item, "(x")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return 0, false
		}
		k := 1
		if repeated {
			if k, err = strconv.Atoi(strings.TrimSuffix(times, ")")); err != nil || k < 1 {
				return 0, false
			}
		}
		if node >= 0 && node < k {
			return n, true
		}
		node -= k
	}
	return 0, false
}

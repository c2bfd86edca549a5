//go:build linux

package mpiboot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// What the launchers set, as printed by a rank under each.
var (
	envOpenMPI = []string{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
		"OMPI_UNIVERSE_SIZE=8", "PMIX_RANK=5", "PMIX_NAMESPACE=25231361"}
	envHydra     = []string{"PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=5", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"}
	envBatch     = []string{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_NPROCS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_TASKS_PER_NODE=4"}
	envSlurmNone = []string{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_NTASKS=7", "SLURM_STEP_NUM_TASKS=7", "SLURM_PROCID=6", "SLURM_LOCALID=0", "SLURM_NODEID=3",
		"SLURM_STEP_TASKS_PER_NODE=2(x3),1"}
	envSlurmPMI2 = append([]string{"PMI_RANK=6", "PMI_SIZE=7", "PMI_FD=10", "PMI_JOBID=7.0", "SLURM_MPI_TYPE=pmi2"}, envSlurmNone...)
	envSlurmPMIx = append([]string{"PMIX_RANK=6", "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_MPI_TYPE=pmix"}, envSlurmNone...)
	envLocal     = []string{EnvRank + "=1", EnvSize + "=2", EnvUniqueID + "=00"}
)

func join(envs ...[]string) []string {
	var all []string
	for _, e := range envs {
		all = append(all, e...)
	}
	return all
}

func TestDetect(t *testing.T) {
	slurm := Evidence{Launcher: LauncherSlurm, Rank: 6, Size: 7, LocalRank: 0, LocalSize: 1}
	with := func(e Evidence, pmi string) Evidence { e.PMI = pmi; return e }
	ompi := Evidence{Launcher: LauncherOpenMPI, PMI: "pmix", Rank: 5, Size: 8, LocalRank: 1, LocalSize: 4}
	hydra := Evidence{Launcher: LauncherMPICH, PMI: "pmi", Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2}
	alone := Evidence{Launcher: LauncherNone, Rank: 0, Size: 1, LocalRank: 0, LocalSize: 1}
	local := Evidence{Launcher: LauncherLocal, Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2}
	noted := alone
	noted.Note = "inside a Slurm allocation of 4 tasks, but not started by srun: this is a world of one"
	denied := alone
	denied.Note = `started by Open MPI's mpirun as rank 5 of 8 (OMPI_COMM_WORLD_RANK), but the launcher is set to "none": this is a world of one`
	for _, tt := range []struct {
		name string
		env  []string
		as   string
		want Evidence
	}{
		{"by hand", []string{"PATH=/bin", "=odd", "odd"}, "", alone},
		{"mpirun of Open MPI", envOpenMPI, "", ompi},
		{"mpirun inside a batch script", join(envBatch, envOpenMPI), "", ompi},
		{"mpirun on another node, started there by srun", join(envSlurmNone, envOpenMPI), "", ompi},
		{"Hydra", envHydra, "", hydra},
		{"Hydra inside a batch script, proxies started by srun", join(envSlurmNone, envHydra), "", hydra},
		{"Hydra inside srun --mpi=pmi2", join(envSlurmPMI2, envHydra), "", hydra},
		{"srun --mpi=none", envSlurmNone, "", with(slurm, "none")},
		{"srun --mpi=pmi2", envSlurmPMI2, "", with(slurm, "pmi2")},
		{"srun --mpi=pmix", envSlurmPMIx, "", with(slurm, "pmix")},
		{"batch script itself", envBatch, "", noted},
		{"own launcher", envLocal, "", local},
		{"own launcher inside everything", join(envSlurmPMIx, envOpenMPI, envHydra, envLocal), "", local},
		{"Cray PALS", []string{"PALS_RANKID=2", "PMI_RANK=2", "PMI_SIZE=4", "PALS_LOCAL_RANKID=0", "PMI_LOCAL_SIZE=2"}, "",
			Evidence{Launcher: LauncherMPICH, PMI: "pmi", Rank: 2, Size: 4, LocalRank: 0, LocalSize: 2}},
		{"MVAPICH", []string{"MV2_COMM_WORLD_RANK=2", "MV2_COMM_WORLD_SIZE=4", "MV2_COMM_WORLD_LOCAL_RANK=0", "MV2_COMM_WORLD_LOCAL_SIZE=2"}, "",
			Evidence{Launcher: LauncherMPICH, PMI: "pmi", Rank: 2, Size: 4, LocalRank: 0, LocalSize: 2}},
		{"bare PMI", []string{"PMI_RANK=2", "PMI_SIZE=4"}, "", Evidence{Launcher: LauncherMPICH, PMI: "pmi", Rank: 2, Size: 4, LocalRank: -1, LocalSize: -1}},
		{"prterun without Open MPI's variables", []string{"PMIX_RANK=2", "PMIX_NAMESPACE=prterun-1"}, "",
			Evidence{Launcher: LauncherOpenMPI, PMI: "pmix", Rank: 2, Size: -1, LocalRank: -1, LocalSize: -1}},
		{"asked for none", envOpenMPI, LauncherNone, denied},
		{"asked for none, and there is none", nil, LauncherNone, alone},
		{"asked for slurm inside mpirun", join(envOpenMPI, envSlurmPMI2), LauncherSlurm, with(slurm, "pmi2")},
		{"asked for the inner of two", join([]string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, envHydra), LauncherMPICH, hydra},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := detect(tt.env, tt.as)
			if err != nil {
				t.Fatal(err)
			}
			for field, n := range map[string]int{"Rank": got.Rank, "Size": got.Size, "LocalRank": got.LocalRank, "LocalSize": got.LocalSize} {
				if name, told := got.From[field]; told != (n >= 0 && got.Launcher != LauncherNone) {
					t.Errorf("%s = %d is from %q", field, n, name)
				}
			}
			got.From = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDetectFrom(t *testing.T) {
	ev, err := Detect(join(envBatch, envOpenMPI))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Rank": "OMPI_COMM_WORLD_RANK", "Size": "OMPI_COMM_WORLD_SIZE", "LocalRank": "OMPI_COMM_WORLD_LOCAL_RANK", "LocalSize": "OMPI_COMM_WORLD_LOCAL_SIZE"}
	if diff := cmp.Diff(want, ev.From); diff != "" {
		t.Error(diff)
	}
}

func TestDetectErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		as   string
		code failure.Code
		want string
	}{
		{"not a number", []string{"OMPI_COMM_WORLD_RANK=x", "OMPI_COMM_WORLD_SIZE=2"}, "", failure.Usage, `OMPI_COMM_WORLD_RANK="x"`},
		{"negative", []string{"PMI_RANK=-1", "PMI_SIZE=2"}, "", failure.Usage, `PMI_RANK="-1"`},
		{"no such rank", []string{EnvRank + "=2", EnvSize + "=2"}, "", failure.Usage, EnvSize + "=2 leaves no such rank"},
		{"no such local rank", []string{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=6", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}, "", failure.Usage,
			"OMPI_COMM_WORLD_LOCAL_SIZE=4 leaves no such rank"},
		{"empty world", []string{EnvRank + "=0", EnvSize + "=0"}, "", failure.Usage, EnvSize},
		{"unknown launcher", nil, "yarn", failure.Usage, `unknown launcher "yarn"`},
		{"launcher that did not start us", envHydra, LauncherOpenMPI, failure.Usage, `"openmpi" was asked for`},
		{"two launchers, two sizes", join([]string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, envHydra), "", failure.Usage,
			"two launchers claim this process: OMPI_COMM_WORLD_SIZE=1 of openmpi and PMI_SIZE=4 of mpich"},
		{"torchrun", []string{"RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=4"}, "", failure.Unavailable, "torchrun as one of WORLD_SIZE=4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := detect(tt.env, tt.as)
			if err == nil || failure.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (code %d), want %q (code %d)", err, failure.CodeOf(err), tt.want, tt.code)
			}
		})
	}
}

func TestTasksOnNode(t *testing.T) {
	for _, tt := range []struct {
		list string
		node int
		n    int
		ok   bool
	}{
		{"4", 0, 4, true}, {"4", 1, 0, false}, {"2(x3),1", 0, 2, true}, {"2(x3),1", 2, 2, true}, {"2(x3),1", 3, 1, true}, {"2(x3),1", 4, 0, false},
		{"", 0, 0, false}, {"2(x", 0, 0, false}, {"-1", 0, 0, false}, {"2(x0)", 0, 0, false}, {"2", -1, 0, false},
	} {
		if n, ok := tasksOnNode(tt.list, tt.node); n != tt.n || ok != tt.ok {
			t.Errorf("tasksOnNode(%q, %d) = %d, %v", tt.list, tt.node, n, ok)
		}
	}
}

// Whatever the values, the result is one that Join can use, or an error.
func TestDetectAnyValues(t *testing.T) {
	names := []string{EnvRank, EnvSize, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMIX_RANK", "PMIX_NAMESPACE",
		"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "PMI_JOBID"}
	rapid.Check(t, func(t *rapid.T) {
		var env []string
		for _, n := range names {
			if rapid.Bool().Draw(t, n) {
				env = append(env, n+"="+rapid.SampledFrom([]string{"0", "1", "2", "8", "-1", "", "x", "2(x3),1", "99999999999999999999", "slurm.pmix.1.0"}).Draw(t, "value"))
			}
		}
		ev, err := Detect(env)
		if err != nil {
			if failure.CodeOf(err) == failure.Internal {
				t.Fatalf("%v: %v", env, err)
			}
			return
		}
		if ev.Rank < 0 || ev.Size == 0 || ev.Size > 0 && ev.Rank >= ev.Size || ev.Launcher == "" {
			t.Fatalf("%v: %+v", env, ev)
		}
	})
}

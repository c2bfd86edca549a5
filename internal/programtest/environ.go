package programtest

import (
	"os"
	"slices"
	"strings"
)

var (
	// steering variables change what the program does.
	steering = []string{"NVLS_ALLREDUCE_", "NCCL_NVLS_ENABLE=", "TORCH_SYMM_MEM_DISABLE_MULTICAST=", "NVSHMEM_DISABLE_NVLS="}
	// surrounding variables are those of a batch job or rank in which the test runs.
	// Launchers would take its resources, and the program that rank.
	surrounding = []string{"SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMIX_RANK=", "PMIX_NAMESPACE=", "PMIX_SERVER_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "MPI_LOCALRANKID=", "MPI_LOCALNRANKS="}
)

// Environ is the environment for a run of the program: base without what steers
// the program, and extra. Base nil is the test's own environment, without the
// batch job or the rank that the test may be in.
func Environ(base []string, extra ...string) []string {
	drop := steering
	if base == nil {
		base, drop = os.Environ(), slices.Concat(steering, surrounding)
	}
	out := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		return slices.ContainsFunc(drop, func(prefix string) bool { return strings.HasPrefix(kv, prefix) })
	})
	return append(out, extra...)
}

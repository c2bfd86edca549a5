package result

import (
	"slices"
	"strings"
)

// Variables whose names start so are recorded: they say how the job was
// launched, where it ran and what was switched.
var envPrefixes = []string{
	"SLURM_", "OMPI_COMM_WORLD_", "PMI_", "MPI_LOCAL", "NCCL_", "NVLS_ALLREDUCE_",
}

// Variables recorded by their whole name.
var envNames = []string{
	"APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME",
	"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
	"NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST",
	"PMIX_RANK", "PMIX_NAMESPACE", "LOCAL_RANK", "RANK", "WORLD_SIZE",
	"LD_PRELOAD", // another library may stand in for NCCL's or the driver's calls
}

// Parts of names that may hold a credential (SLURM_JWT is one); such a variable
// is never recorded, whatever its prefix.
var envSecret = []string{"JWT", "TOKEN", "SECRET", "PASS", "CRED", "AUTH", "COOKIE", "KEY"}

// Environ picks from an environment, as os.Environ gives it, the variables that
// a result may carry. It is an allow-list: a result file is passed around, and
// the environment of a job holds credentials.
func Environ(environ []string) map[string]string {
	out := make(map[string]string)
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && recorded(name) {
			out[name] = value
		}
	}
	return out
}

func recorded(name string) bool {
	contains := func(part string) bool { return strings.Contains(strings.ToUpper(name), part) }
	starts := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if slices.ContainsFunc(envSecret, contains) {
		return false
	}
	return slices.Contains(envNames, name) || slices.ContainsFunc(envPrefixes, starts)
}

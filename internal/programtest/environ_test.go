package programtest

import (
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	for _, kv := range []string{"NVLS_ALLREDUCE_MULTICAST=off", "NCCL_NVLS_ENABLE=0", "SLURM_PROCID=3", "PMIX_RANK=1", "OMPI_COMM_WORLD_SIZE=9"} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
		if slices.Contains(Environ(nil), kv) {
			t.Errorf("%s is left of the test's environment", kv)
		}
	}
	// What the user set for MPI on this machine stays, as does a base's own cluster.
	t.Setenv("OMPI_MCA_btl", "^vader")
	if !slices.Contains(Environ(nil), "OMPI_MCA_btl=^vader") {
		t.Error("OMPI_MCA_btl is gone")
	}
	got := Environ([]string{"SLURM_CONF=/a", "NVLS_ALLREDUCE_MULTICAST=off"}, "NVLS_ALLREDUCE_MULTICAST=on")
	if !slices.Equal(got, []string{"SLURM_CONF=/a", "NVLS_ALLREDUCE_MULTICAST=on"}) {
		t.Errorf("%v", got)
	}
}

package collective

import (
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// chooseDevice picks the ordinal for a local rank among what it sees. With as
// many devices as local ranks, the local rank is the ordinal. A rank that sees
// one device takes it: the launcher has bound it, and whether it may is seen
// when UUIDs are compared. share lets several ranks use one device.
func chooseDevice(localRank, localSize int, visible []device.Info, share bool) (int, error) {
	switch n := len(visible); {
	case n == 0:
		return 0, &failure.Error{Code: failure.Unavailable, What: "no GPU is visible", Why: "the driver lists no device",
			Do: "start a container with GPUs, under Slurm ask for them, and look at CUDA_VISIBLE_DEVICES; --device sim runs on the software device", By: failure.User}
	case n >= localSize:
		return localRank, nil
	case share:
		return localRank % n, nil
	case n == 1:
		return 0, nil
	default:
		return 0, &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("%d local ranks but only %d devices are visible", localSize, n),
			Why: "each rank needs a GPU of its own", Do: "start fewer ranks, or ask for more GPUs (srun --gpus-per-node=N --gpu-bind=none); --share-gpu lets ranks share one, for function and not for speed", By: failure.User}
	}
}

// checkDevices judges the devices that the ranks chose. visible[r] lists what
// rank r sees.
func checkDevices(chosen []device.Info, visible [][]device.UUID, share bool) error {
	sees := make([]map[device.UUID]bool, len(visible))
	for r, v := range visible {
		sees[r] = map[device.UUID]bool{}
		for _, u := range v {
			sees[r][u] = true
		}
	}
	owner := map[device.UUID]int{}
	for r, d := range chosen {
		if first, twice := owner[d.UUID]; twice {
			if share {
				continue
			}
			return &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("ranks %d and %d are on one GPU (%s)", first, r, d.UUID),
				Why: oneGPUWhy(visible), Do: "give every rank all GPUs: srun --gpus-per-node=N --gpu-bind=none, and no CUDA_VISIBLE_DEVICES per rank; --share-gpu accepts it, for function and not for speed", By: failure.User}
		}
		owner[d.UUID] = r
	}
	var blind []string
	for r := range sees {
		for p, d := range chosen {
			if !sees[r][d.UUID] {
				blind = append(blind, fmt.Sprintf("rank %d does not see rank %d's %s", r, p, d.UUID))
			}
		}
	}
	if len(blind) > 0 {
		return &failure.Error{Code: failure.Unavailable, What: "not every rank sees every GPU of the group", Why: strings.Join(blind, "; ") + "; memory of a GPU that is not visible cannot be mapped",
			Do: "give every rank all GPUs: srun --gpus-per-node=N --gpu-bind=none, and no CUDA_VISIBLE_DEVICES per rank", By: failure.User}
	}
	return nil
}

func oneGPUWhy(visible [][]device.UUID) string {
	for _, v := range visible {
		if len(v) != 1 {
			return "fewer GPUs are visible than there are ranks on the node"
		}
	}
	return "every rank sees one GPU only: the host has no more, the launcher bound them (SLURM_GPUS_PER_TASK, --gpu-bind), or CUDA_VISIBLE_DEVICES is set"
}

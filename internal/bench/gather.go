package bench

import (
	"context"
	"encoding/json"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// gather collects a value of every rank.
func gather[T any](ctx context.Context, n *mpiboot.Node, stage string, mine T) ([]T, error) {
	body, err := json.Marshal(mine)
	if err != nil {
		return nil, failure.Wrap(failure.Internal, err, "%s", stage)
	}
	all, err := n.Allgather(ctx, stage, body)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(all))
	for r, b := range all {
		if err := json.Unmarshal(b, &out[r]); err != nil {
			return nil, failure.Wrap(failure.Internal, err, "%s: the contribution of rank %d cannot be read", stage, r)
		}
	}
	return out, nil
}

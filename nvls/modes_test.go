package nvls_test

import (
	"context"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

func zeroCopy() grouptest.Mode {
	return grouptest.Mode{Name: "nvls-zero-copy", Aligned: true, New: func(r *grouptest.Rank, t collective.Tuning, memories ...*collective.Memory) collective.AllReducer {
		z := nvls.NewZeroCopy(r.Group, t)
		for _, m := range memories {
			r.OK(z.Register(context.Background(), m), "Register")
			r.OK(z.Register(context.Background(), m), "Register again")
		}
		return z
	}}
}

func copyIn(staging uint64) grouptest.Mode {
	return grouptest.Mode{Name: "nvls-copy-in", Plain: true, New: func(r *grouptest.Rank, t collective.Tuning, _ ...*collective.Memory) collective.AllReducer {
		c, err := nvls.NewCopyIn(context.Background(), r.Group, staging, t)
		r.OK(err, "NewCopyIn")
		return c
	}}
}

func TestModes(t *testing.T) {
	for _, m := range []grouptest.Mode{zeroCopy(), copyIn(1)} {
		t.Run(m.Name, m.Test)
	}
}

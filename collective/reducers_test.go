package collective_test

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// reducers makes an all-reduce of every kind, for buffers in the memories.
func reducers(r *grouptest.Rank, memories ...*collective.Memory) []collective.AllReducer {
	ctx := context.Background()
	t := collective.Tuning{}
	z := nvls.NewZeroCopy(r.Group, t)
	for _, m := range memories {
		r.OK(z.Register(ctx, m), "Register")
	}
	nc, err := nvls.NewCopyIn(ctx, r.Group, 1, t)
	r.OK(err, "NewCopyIn of nvls")
	return append([]collective.AllReducer{z, nc}, fallbacks(r)...)
}

// fallbacks makes those that need no multicast.
func fallbacks(r *grouptest.Rank) []collective.AllReducer {
	t := collective.Tuning{}
	c, err := fallback.NewCopyIn(context.Background(), r.Group, 1, t)
	r.OK(err, "NewCopyIn of fallback")
	e, err := fallback.NewCopyEngine(context.Background(), r.Group, collective.Tuning{Chunk: 512, Slots: 3})
	r.OK(err, "NewCopyEngine")
	return []collective.AllReducer{
		c, e, fallback.NewRing(r.Group, t), fallback.NewP2P(r.Group, fallback.OneShot, t),
		fallback.NewP2P(r.Group, fallback.TwoShot, t), fallback.NewP2P(r.Group, fallback.Packet, t), fallback.NewP2P(r.Group, fallback.Push, t),
		fallback.NewP2P(r.Group, fallback.PushBulk, t),
	}
}

func closeAll(r *grouptest.Rank, all []collective.AllReducer) {
	for _, a := range all {
		r.Close(a)
	}
}

package fallback_test

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// Messages of several times the staging buffer, with a last pack that is not
// whole; and a staging buffer that is far larger than any message.
func TestStagingSizes(t *testing.T) {
	for _, staging := range []uint64{1, 64 << 20} {
		grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
			m := r.Alloc(16 << 20)
			c := copyIn(staging).New(r, collective.Tuning{})
			for _, count := range []uint64{1, 1<<20 + 3} {
				r.Check(c, grouptest.Case{Send: m.At(4096), Recv: m.At(8<<20 + 4096), Count: count, DType: collective.Float, Seed: count})
			}
			arena := grouptest.NewArena(m)
			place := arena.Take(4<<20+12, 0)
			r.Check(c, grouptest.Case{Send: place, Recv: place, Count: 1<<20 + 3, DType: collective.Float})
			r.Close(c)
			r.Close(m)
		})
	}
}

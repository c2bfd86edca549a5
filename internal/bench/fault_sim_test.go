package bench

import (
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// A trap goes into every kernel that waits for peers, and into no other.
func TestTrapping(t *testing.T) {
	for f, waits := range map[kernels.Family]bool{
		kernels.OneShot: true, kernels.TwoShot: true, kernels.Packet: true, kernels.Push: true, kernels.PushBulk: true, kernels.Ring: true,
		kernels.CopyIn: true, kernels.NVLSZeroCopy: true, kernels.NVLSCopyIn: true, kernels.RankBarrier: true, kernels.LocalReduce: false,
	} {
		op := "sum"
		if f == kernels.RankBarrier {
			op = kernels.Scattered
		}
		module, err := kernels.Module("float", f)
		if err != nil {
			t.Fatal(err)
		}
		ptx, err := kernels.Cut(module, kernels.Entry(f, op))
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Count(ptx, "\ttrap;")
		if added := strings.Count(trapping(ptx), "\ttrap;") - before; added != 1 && waits || added != 0 && !waits {
			t.Errorf("%s: %d traps added", f, added)
		}
	}
}

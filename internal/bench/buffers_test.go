package bench

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Every slot of every size is inside its region, aligned, and apart from the
// other slots; poisoning whole words stays inside the slot.
func TestBuffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := configs.Default()
		least := rapid.Uint64Range(0, 1<<20).Draw(t, "least")
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = configs.Size(least), configs.Size(least+rapid.Uint64Range(0, 1<<20).Draw(t, "more"))
		cfg.Sweep.Factor = rapid.SampledFrom([]float64{1.5, 2, 4}).Draw(t, "factor")
		cfg.Run.DataType = rapid.SampledFrom([][]string{{"float"}, {"int8", "double"}, {"all"}}).Draw(t, "types")
		b := &buffers{address: 1 << 40, region: regionBytes(cfg)}
		for _, d := range cfg.DTypes() {
			for _, size := range cfg.Sizes(d.Size()) {
				n := b.slots(size)
				if n < 1 || n > maxSlots {
					t.Fatalf("%d slots", n)
				}
				var end uint64
				for i := range n {
					out := b.call(i, size, d, collective.Sum, result.OutOfPlace)
					in := b.call(i, size, d, collective.Sum, result.InPlace)
					if out.InPlace() || !in.InPlace() || in.Recv != out.Recv {
						t.Fatalf("slot %d: %+v and %+v", i, out, in)
					}
					if out.Bytes() > size || size-out.Bytes() >= uint64(d.Size()) {
						t.Fatalf("%d bytes of %d", out.Bytes(), size)
					}
					at := uint64(out.Send.Address) - 1<<40
					if at%slotAlign != 0 || at < end || uint64(out.Recv.Address)-uint64(out.Send.Address) != b.region {
						t.Fatalf("slot %d of %d bytes at %d and %d, the last one ends at %d", i, size, at, uint64(out.Recv.Address)-1<<40, end)
					}
					if end = at + (out.Bytes()+3)/4*4; end > b.region {
						t.Fatalf("slot %d of %d bytes ends at %d, the region at %d", i, size, end, b.region)
					}
				}
			}
		}
	})
}

func TestRegionIsTheLargestMessage(t *testing.T) {
	for _, c := range []struct{ least, most, want uint64 }{{0, 0, slotAlign}, {1, 1, slotAlign}, {8, 512, 512}, {8, 513, 1024}, {3 << 20, 3 << 20, 3 << 20}} {
		cfg := configs.Default()
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = configs.Size(c.least), configs.Size(c.most)
		cfg.Sweep.Factor, cfg.Sweep.StepBytes = 1, 1
		if c.most > 1<<16 {
			cfg.Sweep.StepBytes = 1 << 20
		}
		cfg.Run.DataType = []string{"int8"}
		if got := regionBytes(cfg); got != c.want {
			t.Errorf("%d to %d bytes: a region of %d, expected %d", c.least, c.most, got, c.want)
		}
	}
}

package collective_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// Memory and all-reduces that come and go leave nothing behind: no descriptor, no
// mapping, no memory of the device.
func TestNothingLeaks(t *testing.T) {
	var files, mappings [2]int
	grouptest.Run(t, 2, func(_ int, o *collective.Options) { o.Sim.MemoryBytes = 32 << 20 }, func(r *grouptest.Rank) {
		free := func() uint64 {
			r.Barrier()
			b, _, err := r.Device().MemInfo()
			r.OK(err, "MemInfo")
			r.Barrier()
			return b
		}
		before := free()
		for round := range 60 {
			m := r.Alloc(4 << 20)
			all := reducers(r, m)
			if round == 0 || round == 59 {
				s := r.Start(all[0], grouptest.Case{Send: grouptest.NewArena(m).Take(400, 0), Recv: m.At(4096), Count: 100, DType: collective.Float})
				r.Wait()
				s.Verify()
				s.Close()
			}
			closeAll(r, all)
			r.Close(m)
			r.Barrier()
			if r.Rank() == 0 && (round == 0 || round == 59) {
				i := min(round, 1)
				files[i], mappings[i] = countFiles(t), countMappings(t)
			}
			r.Barrier()
		}
		if after := free(); after != before {
			r.Fatalf("%d bytes of the device were free, %d are left", before, after)
		}
	})
	if files[0] != files[1] || mappings[1] > mappings[0] {
		t.Errorf("descriptors and mappings of memory files: %d and %d after one round, %d and %d after 60", files[0], mappings[0], files[1], mappings[1])
	}
}

// A group that is closed leaves nothing either.
func TestGroupsComeAndGo(t *testing.T) {
	grouptest.Run(t, 3, nil, func(*grouptest.Rank) {})
	files, mappings := countFiles(t), countMappings(t)
	for range 10 {
		grouptest.Run(t, 3, nil, func(r *grouptest.Rank) { r.Close(r.Alloc(1)) })
	}
	if f, m := countFiles(t), countMappings(t); f != files || m != mappings {
		t.Errorf("%d descriptors and %d mappings of memory files at first, %d and %d after ten groups", files, mappings, f, m)
	}
}

func countFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// countMappings counts mappings of the software device's memory.
func countMappings(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "nvls-sim-")
}

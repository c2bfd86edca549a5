package exec

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// fromFile compiles a kernel of testdata.
func fromFile(t testing.TB, file, name string) *Kernel {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := ptx.Parse(string(src))
	if err != nil {
		t.Fatal(err)
	}
	e := mod.Entry(name)
	if e == nil {
		t.Fatalf("no kernel %s in %s", name, file)
	}
	k, err := Compile(e, mod)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// nvlsArgs are the parameters of nvls_sum_f32 for one rank.
func nvlsArgs(k *Kernel, flags []uint64, mc, n uint64, rank, ranks, epoch uint32, deadline, errorAt uint64) []byte {
	var f [8]uint64
	copy(f[:], flags)
	return args(k.ParamBytes, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], mc, n,
		uint64(rank)|uint64(ranks)<<32, uint64(epoch), deadline, errorAt)
}

// TestRanks runs the NVLS kernel on several ranks at once: each has its own
// address space over the same memory, as the processes of a job have.
func TestRanks(t *testing.T) {
	const ranks, packs = 4, 8192 // packs of 16 bytes in a slice
	k := fromFile(t, "testdata/loop.ptx", "nvls_sum_f32")
	data := make([][]byte, ranks)
	flags := make([][]byte, ranks)
	for r := range ranks {
		data[r], flags[r] = pageBytes(1), pageBytes(1)
	}
	for epoch := range uint32(5) {
		for r := range ranks {
			for i, v := range floats(data[r]) {
				_ = v
				floats(data[r])[i] = float32((r+1)*(i%1000)) + float32(epoch)
			}
		}
		errs := make(chan error, ranks)
		for r := range uint32(ranks) {
			go func() {
				s := NewSpace(base, 64*PageSize)
				var at []uint64
				for q := range uint64(ranks) {
					a := base + (q*2+uint64(r))*PageSize // differs from rank to rank
					at = append(at, a)
					if err := s.Map(a, flags[q]); err != nil {
						errs <- err
						return
					}
				}
				mc := uint64(base + 20*PageSize)
				if err := s.MapMulticast(mc, PageSize, func(uint64) ([][]byte, error) { return data, nil }); err != nil {
					errs <- err
					return
				}
				cfg := Config{SMs: 2, BlocksPerSM: 2, Seed: uint64(r) * 77}
				time.Sleep(time.Duration(r) * 5 * time.Millisecond)
				errs <- k.Run(t.Context(), s, &cfg, Launch{Grid: 4, Block: 512,
					Args: nvlsArgs(k, at, mc, packs, r, ranks, 2*epoch, 10e9, base)})
			}()
		}
		for range ranks {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for r := range ranks {
			for i := range packs * ranks * 4 {
				if got, want := floats(data[r])[i], float32(10*(i%1000))+float32(ranks*epoch); got != want {
					t.Fatalf("epoch %d, rank %d, element %d: %v instead of %v", epoch, r, i, got, want)
				}
			}
		}
	}
}

// TestRankMissing: the kernel's own deadline ends the wait for a rank that
// never comes, and says which.
func TestRankMissing(t *testing.T) {
	m := newMachine(t)
	k := fromFile(t, "testdata/loop.ptx", "nvls_sum_f32")
	mc, _ := m.multicast(2)
	binary.LittleEndian.PutUint64(m.mem[8192:], math.MaxUint64)
	err := k.Run(t.Context(), m.space, &m.cfg, Launch{Grid: 2, Block: 64,
		Args: nvlsArgs(k, []uint64{base, base + 16384}, mc, 16, 0, 2, 0, 20e6, base+8192)})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.u64(1024); got>>32 != 1 || uint32(got) > 1 {
		t.Errorf("the kernel reported %#x", got)
	}
}

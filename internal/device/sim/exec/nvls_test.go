package exec

import (
	"os"
	"testing"

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

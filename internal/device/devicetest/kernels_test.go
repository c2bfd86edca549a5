package devicetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// The PTX in testdata is what its sources give.
func TestKernelsAreUpToDate(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19, which made the PTX, is not here")
	}
	dir := t.TempDir()
	if out, err := exec.Command("sh", "testdata/build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, committed := range map[string]string{"portable": portablePTX, "multicast": multicastPTX} {
		made, err := os.ReadFile(filepath.Join(dir, name+".ptx"))
		if err != nil {
			t.Fatal(err)
		}
		if string(made) != committed {
			t.Errorf("testdata/%s.ptx is not what %s.cu gives: run testdata/build.sh", name, name)
		}
	}
}

// The parameter structs have the sizes that the kernels declare.
func TestArgumentSizes(t *testing.T) {
	sizes := map[string]uintptr{
		"affine": unsafe.Sizeof(affineArgs{}), "sum": unsafe.Sizeof(sumArgs{}), "fold": unsafe.Sizeof(foldArgs{}),
		"signal": unsafe.Sizeof(signalArgs{}), "await": unsafe.Sizeof(awaitArgs{}), "poke": unsafe.Sizeof(pokeArgs{}),
		"stop": unsafe.Sizeof(stopArgs{}), "reduce": unsafe.Sizeof(reduceArgs{}),
	}
	for _, text := range []string{portablePTX, multicastPTX} {
		m, err := ptx.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Entries {
			want, known := sizes[e.Name]
			if !known || len(e.Params) != 1 || uintptr(e.Params[0].Bytes) != want {
				t.Errorf("kernel %s has parameters %+v, the suite's struct has %d bytes", e.Name, e.Params, want)
			}
			delete(sizes, e.Name)
		}
	}
	if len(sizes) != 0 {
		t.Errorf("no kernel for %v", sizes)
	}
}

package exec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// TestProjectKernels compiles every kernel that ships.
func TestProjectKernels(t *testing.T) {
	files, err := filepath.Glob("../../../kernels/ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX of the project found: %v", err)
	}
	own, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(own) == 0 {
		t.Fatalf("no PTX in testdata: %v", err)
	}
	for _, file := range append(files, own...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := ptx.Parse(string(src))
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Entries) == 0 {
				t.Error("no kernel in the file")
			}
			for _, e := range m.Entries {
				if _, err := Compile(e, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

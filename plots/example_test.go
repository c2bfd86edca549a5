package plots_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// A chart of a run in a format that suits a report.
func ExampleWriteFile() {
	run := &plots.Run{Version: "v0.1.0", Status: plots.Status{State: plots.Complete}, WorldSize: 2}
	for i := range 2 {
		run.Devices = append(run.Devices, plots.Device{Rank: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H200", LinkPeak: 450e9})
	}
	for _, m := range []struct {
		size uint64
		us   float64
	}{{1 << 20, 9.4}, {16 << 20, 57.1}, {64 << 20, 208}} {
		row := plots.Row{Mode: "p2p", Algorithm: "two-shot 132x512", Size: m.size, Count: m.size / 4,
			DataType: "float", Op: "sum", Placement: plots.OutOfPlace, Time: m.us}
		row.Rate(run.WorldSize, run.LinkPeak())
		run.Rows = append(run.Rows, row)
		fmt.Printf("%d bytes: %.0f GB/s\n", row.Size, row.BusBW)
	}

	dir, err := os.MkdirTemp("", "plots")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := plots.WriteFile(filepath.Join(dir, "busbw.svg"), []*plots.Run{run}, plots.Options{}); err != nil {
		fmt.Println(err)
		return
	}
	// Output:
	// 1048576 bytes: 112 GB/s
	// 16777216 bytes: 294 GB/s
	// 67108864 bytes: 323 GB/s
}

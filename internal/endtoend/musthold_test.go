//go:build linux

package endtoend

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// TestMainJob is the main job in the forms in which it must hold. Where nothing
// may be left out (NVLS_ALLREDUCE_REQUIRE=all) it runs them as they are written
// down; elsewhere with fewer timed iterations, which verify nothing.
func TestMainJob(t *testing.T) {
	short := " -n 1 -w 1"
	if os.Getenv(slurmtest.EnvRequire) == "all" {
		short = ""
	}
	four := []string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p"}
	for _, tt := range []struct {
		launcher launcher
		np       int
		dtype    collective.DType
		op       collective.Op
		flags    string
		exit     int
		words    []string
	}{
		{openMPI, 4, collective.BFloat16, collective.Sum, "-d bfloat16", 0, nil},
		{mpich, 8, collective.BFloat16, collective.Sum, "-d bfloat16", 0, nil},
		{local, 3, collective.BFloat16, collective.Sum, "-d bfloat16", 0, nil},
		{openMPI, 4, collective.Float, collective.Max, "-d float -o max", 3,
			[]string{"NVLS cannot do max of float", "the switch has no minimum or maximum of float", "use --mode ring or p2p"}},
		{openMPI, 4, collective.Int64, collective.Min, "-d int64 -o min", 0, nil},
		{openMPI, 4, collective.Half, collective.Avg, "-d half -o avg", 0, nil},
	} {
		t.Run(fmt.Sprintf("%s %d %v %v", tt.launcher.name, tt.np, tt.dtype, tt.op), func(t *testing.T) {
			o := job{launcher: tt.launcher, np: tt.np,
				flags: "--mode nvls-zero-copy,nvls-copy-in,ring,p2p -b 8 -e 1M -f 4 " + tt.flags + short}.run(t)
			o.want(t, tt.exit, tt.words...)
			o.right(t, calls(four, []collective.DType{tt.dtype}, []collective.Op{tt.op}, sizes{8, 1 << 20, 4}))
		})
	}
}

// Fallback in place of refusal: the ring runs and the reason is recorded.
func TestFallback(t *testing.T) {
	dir := t.TempDir()
	o := job{launcher: local, np: 2, flags: "--mode nvls-zero-copy -d float -o max --fallback allow -b 64 -e 64 --csv " + dir + "/out.csv --plot " + dir + "/out.svg", config: oneTiming}.run(t)
	o.want(t, 0, "# Mode nvls-zero-copy (max of float): replaced by ring: NVLS cannot do max of float")
	o.right(t, calls([]string{"ring"}, []collective.DType{collective.Float}, []collective.Op{collective.Max}, sizes{64, 64, 2}))
	const title = "nvls-zero-copy (ran as ring)"
	for _, line := range readCSV(t, dir+"/out.csv") {
		if line["mode"] != "ring" || line["asked"] != title {
			t.Errorf("CSV: mode %q, asked %q", line["mode"], line["asked"])
		}
	}
	o.want(t, 0, "\n# "+title+", no CUDA graph")
	if !strings.Contains(readFile(t, dir+"/out.svg"), ">"+title+"<") {
		t.Errorf("no %q in the chart", title)
	}
}

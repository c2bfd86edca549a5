package configs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing", "x")
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string // each in the message; none: valid
	}{
		{"defaults", func(*Config) {}, nil},
		{"all of all", func(c *Config) { c.Run.Mode, c.Run.DataType, c.Run.Op = []string{All}, []string{All}, []string{All} }, nil},
		{"every mode", func(c *Config) { c.Run.Mode = ModeNames() }, nil},
		{"from zero", func(c *Config) { c.Sweep.MinBytes = 0 }, nil},
		{"one size without a step", func(c *Config) { c.Sweep = Sweep{MinBytes: 64, MaxBytes: 64, Factor: 1} }, nil},
		{"outputs", func(c *Config) {
			c.Output = Output{JSON: dir + "/a.json", CSV: dir + "/a.CSV", Plot: dir + "/a.svg", MinBusBW: 400}
		}, nil},
		{"sockets and library", func(c *Config) { c.Bootstrap.SocketDir, c.Bootstrap.MPILibrary = dir, "libmpi.so.40" }, nil},
		{"extremes", func(c *Config) {
			c.NVLS.Blocks, c.NVLS.Threads, c.Timing.Cycles, c.Timing.Warmup, c.Timing.Check = 256, 512, 0, 0, 0
		}, nil},

		{"mode", func(c *Config) { c.Run.Mode = []string{"ring", "nvls-zerocopy"} }, []string{`run.mode: unknown mode "nvls-zerocopy"`, `did you mean "nvls-zero-copy"?`, "p2p-packet", "all"}},
		{"no mode", func(c *Config) { c.Run.Mode = nil }, []string{"run.mode = []", "at least one mode"}},
		{"empty mode", func(c *Config) { c.Run.Mode = []string{""} }, []string{`unknown mode ""`}},
		{"mode twice", func(c *Config) { c.Run.Mode = []string{"ring", "p2p", "ring"} }, []string{"run.mode", "name ring once"}},
		{"all and more", func(c *Config) { c.Run.Mode = []string{"all", "auto"} }, []string{"run.mode", `"all" stands alone`}},
		{"data type", func(c *Config) { c.Run.DataType = []string{"floot"} }, []string{`run.datatype: unknown data type "floot"`, `"float"`}},
		{"operation", func(c *Config) { c.Run.Op = []string{"summ"} }, []string{`run.op: unknown operation "summ"`, `"sum"`, "avg"}},
		{"fallback", func(c *Config) { c.Run.Fallback = "alow" }, []string{`run.fallback: unknown fallback "alow"`, `"allow"`, "never"}},
		{"device", func(c *Config) { c.Run.Device = "gpu" }, []string{`run.device: unknown device "gpu"`, "cuda, sim"}},
		{"average", func(c *Config) { c.Timing.Average = "median" }, []string{`timing.average: unknown average "median"`, "rank0"}},
		{"multicast", func(c *Config) { c.NVLS.Multicast = "on" }, []string{`nvls.multicast: unknown multicast "on"`, "auto, off"}},
		{"launcher", func(c *Config) { c.Bootstrap.Launcher = "openmp" }, []string{`bootstrap.launcher: unknown launcher "openmp"`, `"openmpi"`}},

		{"min over max", func(c *Config) { c.Sweep.MinBytes = 2 << 30 }, []string{"sweep.min_bytes = 2G is above sweep.max_bytes = 1G", "raise sweep.max_bytes"}},
		{"no progress", func(c *Config) { c.Sweep.Factor = 1 }, []string{"sweep.factor = 1", "set sweep.step_bytes"}},
		{"negative factor", func(c *Config) { c.Sweep.Factor = -2 }, []string{"sweep.factor = -2", "above 1"}},
		{"factor is no number", func(c *Config) { c.Sweep.Factor = math.NaN() }, []string{"sweep.factor = nan"}},
		{"factor is infinite", func(c *Config) { c.Sweep.Factor = math.Inf(1) }, []string{"sweep.factor = inf"}},
		{"too many sizes", func(c *Config) { c.Sweep.Factor, c.Sweep.StepBytes = 1, 8 }, []string{"more than 10000 sizes", "raise sweep.step_bytes"}},
		{"factor too small", func(c *Config) { c.Sweep.Factor = 1.0000001 }, []string{"more than 10000 sizes"}},
		{"beyond the largest", func(c *Config) { c.Sweep.MaxBytes = math.MaxUint64 }, []string{"sweep.max_bytes", "at most 1024G"}},
		{"less than an element", func(c *Config) {
			c.Sweep.MinBytes, c.Sweep.MaxBytes, c.Run.DataType = 4, 7, []string{"float", "double"}
		}, []string{"no size of a whole double element", "8 or more"}},

		{"iters", func(c *Config) { c.Timing.Iters = 0 }, []string{"timing.iters = 0", "from 1 to 1000000"}},
		{"warmup", func(c *Config) { c.Timing.Warmup = -1 }, []string{"timing.warmup = -1", "from 0"}},
		{"graph", func(c *Config) { c.Timing.Graph = -1 }, []string{"timing.graph = -1"}},
		{"cycles", func(c *Config) { c.Timing.Cycles = -1 }, []string{"timing.cycles = -1", "0 repeats until"}},
		{"check", func(c *Config) { c.Timing.Check = 2_000_000 }, []string{"timing.check = 2000000"}},
		{"device timeout", func(c *Config) { c.Timing.Timeout = 0 }, []string{`timing.timeout = "0s"`, "above 0"}},
		{"rank timeout", func(c *Config) { c.Bootstrap.Timeout = -time.Second }, []string{`bootstrap.timeout = "-1s"`}},
		{"endless timeout", func(c *Config) { c.Bootstrap.Timeout = 1000 * time.Hour }, []string{"bootstrap.timeout", "up to 24h"}},

		{"staging too small", func(c *Config) { c.NVLS.Staging = 1000 }, []string{`nvls.staging = "1000"`, "between 64K and 8G"}},
		{"scratch too small", func(c *Config) { c.NVLS.Scratch = 1000 }, []string{`nvls.scratch = "1000"`, "between 64K and 8G"}},
		{"staging absurd", func(c *Config) { c.NVLS.Staging = 9 << 30 }, []string{`nvls.staging = "9G"`}},
		{"blocks", func(c *Config) { c.NVLS.Blocks = 257 }, []string{"nvls.blocks = 257", "from 0 to 256", "0 is automatic"}},
		{"threads", func(c *Config) { c.NVLS.Threads = 100 }, []string{"nvls.threads = 100", "multiple of 32"}},
		{"threads of a large block", func(c *Config) { c.NVLS.Threads = 544 }, []string{"nvls.threads = 544", "up to 512"}},
		{"negative threads", func(c *Config) { c.NVLS.Threads = -32 }, []string{"nvls.threads = -32"}},
		{"devices", func(c *Config) { c.Sim.Devices = 17 }, []string{"sim.devices = 17", "from 0 to 16"}},
		{"seed", func(c *Config) { c.Sim.Seed = -1 }, []string{"sim.seed = -1", "from 0 to 2147483647"}},

		{"socket folder", func(c *Config) { c.Bootstrap.SocketDir = missing }, []string{"bootstrap.socket_dir", missing, "existing folder"}},
		{"library", func(c *Config) { c.Bootstrap.MPILibrary = missing }, []string{"bootstrap.mpi_library", missing, "existing library"}},
		{"library of NCCL", func(c *Config) { c.NCCL.Library = missing }, []string{"nccl.library", missing, "existing library"}},
		{"json suffix", func(c *Config) { c.Output.JSON = "out.txt" }, []string{`output.json = "out.txt"`, "ends in .json"}},
		{"csv suffix", func(c *Config) { c.Output.CSV = "out" }, []string{`output.csv = "out"`, "ends in .csv"}},
		{"plot suffix", func(c *Config) { c.Output.Plot = "out.eps" }, []string{`output.plot = "out.eps"`, ".png, .svg, .pdf"}},
		{"output folder", func(c *Config) { c.Output.JSON = missing + ".json" }, []string{"output.json", "make the folder " + filepath.Dir(missing)}},
		{"output is a folder", func(c *Config) { c.Output.JSON = makeDir(t, "d.json") }, []string{"output.json", "this is a folder"}},
		{"report is a file", func(c *Config) { c.Output.Report = "validate_test.go" }, []string{`output.report = "validate_test.go"`, "this is a file"}},
		{"report in no folder", func(c *Config) { c.Output.Report = "none/report" }, []string{`output.report = "none/report"`, "make the folder none first"}},
		{"bandwidth", func(c *Config) { c.Output.MinBusBW = -1 }, []string{"output.min_busbw = -1", "GB/s"}},
		{"bandwidth is no number", func(c *Config) { c.Output.MinBusBW = math.NaN() }, []string{"output.min_busbw = nan"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Default()
			tt.change(c)
			err := c.Validate()
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var f *failure.Error
			if !errors.As(err, &f) || f.Code != failure.Usage || f.By != failure.User {
				t.Fatalf("no usage failure: %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is missing in: %v", w, err)
				}
			}
			if strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("one fault, several messages: %v", err)
			}
		})
	}
}

func TestValidateReportsAll(t *testing.T) {
	c := Default()
	if err := c.Apply([]Setting{{"timing.iters", 0, "flag --iters"}, {"nvls.threads", 5, "flag --threads"}}); err != nil {
		t.Fatal(err)
	}
	err := c.Validate()
	for _, w := range []string{"timing.iters = 0", "flag --iters", "nvls.threads = 5", "flag --threads"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is missing in: %v", w, err)
		}
	}
}

func TestExpand(t *testing.T) {
	c := Default()
	c.Run.Mode, c.Run.DataType, c.Run.Op = []string{All}, []string{All}, []string{"max", "sum"}
	if diff := cmp.Diff([]string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p"}, c.Modes()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(collective.DTypes(), c.DTypes()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]collective.Op{collective.Max, collective.Sum}, c.Ops()); diff != "" {
		t.Error(diff)
	}
}

func makeDir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

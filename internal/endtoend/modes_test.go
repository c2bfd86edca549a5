//go:build linux

package endtoend

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// oneTiming keeps what is not verified short.
const oneTiming = "[timing]\nwarmup = 0\niters = 1\nper_iteration = false\n"

// modes are all that run on the software device, but for some.
func modes(but ...string) []string {
	return slices.DeleteFunc(configs.ModeNames(), func(m string) bool {
		return strings.HasPrefix(m, "nccl") || slices.Contains(but, m)
	})
}

// refused says whether one of the modes cannot do one of the combinations.
func refused(modes []string, dtypes []collective.DType, ops []collective.Op) bool {
	for _, d := range dtypes {
		for _, o := range ops {
			if slices.ContainsFunc(modes, isNVLS) && !switchCan(d, o) {
				return true
			}
		}
	}
	return false
}

func list[T fmt.Stringer](v []T) string {
	var words []string
	for _, x := range v {
		words = append(words, x.String())
	}
	return strings.Join(words, ",")
}

// sweep runs modes × dtypes × ops × sizes and checks every row.
func sweep(t *testing.T, l launcher, np int, modes []string, dtypes []collective.DType, ops []collective.Op, s sizes, config string) {
	t.Helper()
	o := job{launcher: l, np: np, config: config, flags: fmt.Sprintf("--mode %s -d %s -o %s -b %d -e %d -f %g",
		strings.Join(modes, ","), list(dtypes), list(ops), s.min, s.max, s.factor)}.run(t)
	exit := 0
	if refused(modes, dtypes, ops) {
		exit = 3
	}
	o.want(t, exit)
	o.right(t, calls(modes, dtypes, ops, s))
	// The software device has bulk copies, so the links were measured with them too.
	if l := o.run.LinkRates; np > 1 && (l == nil || min(l.Store, l.BulkStore, l.Load, l.Copy) <= 0 || o.run.LinkLimit < l.BulkStore) {
		t.Errorf("the links' rates are %+v", l)
	}
	if o.run.WorldSize != np || o.run.Launcher != l.name {
		t.Errorf("%d ranks by %s", o.run.WorldSize, o.run.Launcher)
	}
}

// TestEveryMode covers every mode × data type × operation in a world of more
// than two ranks, and every mode × data type with a sum or another operation in
// every world from 1 to 8; each world has its own launcher, operations and odd
// element counts.
func TestEveryMode(t *testing.T) {
	for _, w := range []struct {
		np       int
		launcher launcher
		ops      []collective.Op
		sizes    sizes
	}{
		{1, local, []collective.Op{collective.Sum, collective.Avg}, sizes{0, 300, 3.7}},
		{1, openMPI, []collective.Op{collective.Max}, sizes{0, 8, 2}},
		{1, mpich, []collective.Op{collective.Min}, sizes{0, 8, 2}},
		{2, openMPI, []collective.Op{collective.Sum, collective.Max}, sizes{0, 700, 5.3}},  // 0 1 5 28 … elements
		{3, mpich, []collective.Op{collective.Min, collective.Avg}, sizes{0, 600, 3.7}},    // 0 1 3 13 …
		{4, local, []collective.Op{collective.Prod, collective.Sum}, sizes{0, 500, 7.1}},   // 0 1 7 50 …
		{5, openMPI, []collective.Op{collective.Sum, collective.Max}, sizes{0, 100, 11.3}}, // 0 1 11
		{6, mpich, []collective.Op{collective.Prod}, sizes{0, 140, 17.3}},                  // 0 1 17
		{7, local, []collective.Op{collective.Avg}, sizes{0, 110, 13.1}},                   // 0 1 13
		{8, mpich, []collective.Op{collective.Sum}, sizes{0, 160, 19.7}},                   // 0 1 19
	} {
		t.Run(fmt.Sprintf("%d %s", w.np, w.launcher.name), func(t *testing.T) {
			sweep(t, w.launcher, w.np, modes(configs.ModeAuto), collective.DTypes(), w.ops, w.sizes, oneTiming)
		})
	}
}

// TestAuto covers auto × data type × operation. It times its candidates anew at
// every size, so the sizes are few.
func TestAuto(t *testing.T) {
	auto := []string{configs.ModeAuto}
	sweep(t, local, 3, auto, collective.DTypes(), collective.Ops(), sizes{40, 40, 2}, oneTiming)
	t.Run("reasons", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "--mode auto -b 4 -e 64 -f 16", config: oneTiming}.run(t)
		o.want(t, 0, "# Mode auto, 4 bytes: ", "# Mode auto, 64 bytes: ", "fastest of 5 iterations here, us:")
		for _, d := range o.run.Decisions {
			if d.Requested != configs.ModeAuto || !slices.Contains(configs.ModeNames(), d.Chosen) || !strings.Contains(d.Reason, d.Chosen+" ") {
				t.Errorf("decision %+v does not say what was chosen and why", d)
			}
		}
		if len(o.run.Decisions) != 2 {
			t.Errorf("%d decisions for 2 sizes", len(o.run.Decisions))
		}
	})
	t.Run("blocks that are not taken", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tuning.toml")
		flags := "--mode auto --blocks 2 --threads 64 -b 4 -e 4 "
		o := job{launcher: local, np: 2, flags: flags + "--save-tuning " + file, config: oneTiming}.run(t)
		o.want(t, 0, "# Mode auto tries other blocks and threads than those asked for too")
		o = job{launcher: local, np: 2, flags: flags + "--tuning " + file, config: oneTiming}.run(t)
		o.want(t, 0, "# Mode auto takes blocks and threads from the tuning file")
	})
	t.Run("decided once", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "--mode p2p-packet -N 3 -b 64K -e 4M -f 64", config: oneTiming}.run(t)
		o.want(t, 3, "# Mode p2p-packet, 4194304 bytes: not run: ")
		if len(o.run.Decisions) != 1 {
			t.Errorf("%d decisions in 3 cycles", len(o.run.Decisions))
		}
	})
	t.Run("bulk copies for large messages", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "--mode auto -b 128K -e 256K -f 2", config: oneTiming}.run(t)
		o.want(t, 0, ", SM bulk stores ")
		for _, d := range o.run.Decisions {
			if tried := strings.Contains(d.Reason, configs.ModeP2PPushBulk+" "); tried != (d.SizeBytes == 256<<10) {
				t.Errorf("%d bytes: %s", d.SizeBytes, d.Reason)
			}
		}
		if len(o.run.Decisions) != 2 {
			t.Errorf("%d decisions for 2 sizes", len(o.run.Decisions))
		}
	})
}

// TestLarge has messages of many chunks, pieces that do not divide by the ranks
// or by 16 bytes, and more than one block. Packets are for small messages only,
// and larger ones are refused.
func TestLarge(t *testing.T) {
	for _, w := range []struct {
		np       int
		launcher launcher
		dtype    collective.DType
		op       collective.Op
		sizes    sizes
	}{
		{2, mpich, collective.Double, collective.Sum, sizes{1 << 20, 1 << 20, 2}},
		{3, openMPI, collective.Half, collective.Avg, sizes{100_003, 1_000_000, 5}},
		{4, openMPI, collective.Int64, collective.Min, sizes{1 << 18, 1 << 20, 4}},
		{5, local, collective.Float, collective.Sum, sizes{65_540, 700_001, 7}},
		{7, mpich, collective.Uint8, collective.Max, sizes{99_991, 99_991, 2}},
		{8, local, collective.BFloat16, collective.Sum, sizes{300_002, 300_002, 2}},
	} {
		t.Run(fmt.Sprintf("%d %s %v", w.np, w.launcher.name, w.dtype), func(t *testing.T) {
			// Little memory to pass through makes pipelines turn many times.
			sweep(t, w.launcher, w.np, modes(configs.ModeAuto, configs.ModeP2PPacket), []collective.DType{w.dtype}, []collective.Op{w.op}, w.sizes, oneTiming+"[nvls]\nstaging = \"256K\"\nscratch = \"256K\"\n")
		})
	}
}

// A mode that cannot take a size says so, and goes on with the others.
func TestPacketLimit(t *testing.T) {
	o := job{launcher: local, np: 2, flags: "--mode p2p-packet -b 1K -e 4M -f 4096", config: oneTiming}.run(t)
	o.want(t, 3, "# Mode p2p-packet, 4194304 bytes: not run: p2p-packet cannot take this size", "use --mode p2p")
	o.right(t, calls([]string{"p2p-packet"}, []collective.DType{collective.Float}, []collective.Op{collective.Sum}, sizes{1024, 1024, 2}))
}

// TestSlurm runs under a Slurm of its own: every mode, the agreed exit code of
// wrong data, and what scancel does.
func TestSlurm(t *testing.T) {
	c := slurmtest.Start(t)
	for _, mpi := range []string{"pmix", "pmi2"} {
		t.Run(mpi, func(t *testing.T) {
			l := slurm(c, mpi)
			sweep(t, l, 4, modes(), []collective.DType{collective.BFloat16}, []collective.Op{collective.Sum}, sizes{0, 5000, 27}, oneTiming)
			t.Run("wrong data", func(t *testing.T) {
				o := job{launcher: l, np: 3, program: faulty, flags: "--mode ring -b 4K -e 4K -n 1 -w 1", env: []string{"NVLS_ALLREDUCE_FAULT=drop:1"}}.run(t)
				o.want(t, 7, "wrong data: ring sum of float")
			})
			t.Run("SIGTERM", func(t *testing.T) { interrupt(t, l) })
		})
	}
}

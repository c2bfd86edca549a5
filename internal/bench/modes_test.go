package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// start makes a run up to its modes.
func start(r *grouptest.Rank, cfg *configs.Config, out *bytes.Buffer) (*bench, error) {
	b := &bench{cfg: cfg, process: Process{Stdout: out, Stderr: out}, world: r.World, node: r.Node(), group: r.Group}
	b.record = newRecord(b)
	r.OK(b.allocate(context.Background()), "allocate")
	return b, b.setUpModes(context.Background())
}

func stop(r *grouptest.Rank, b *bench) {
	for i := len(b.modes) - 1; i >= 0; i-- {
		r.Close(b.modes[i].reducer)
	}
	r.Close(b.buffers.memory)
}

// said is a run's decisions: "asked -> chosen".
func said(b *bench) string {
	var out []string
	for _, d := range b.record.run.Decisions {
		if d.Reason == "" {
			return "a decision without reason: " + d.Requested
		}
		out = append(out, d.Requested+" -> "+d.Chosen)
	}
	return strings.Join(out, "; ")
}

// What is said of a grid that is not what was asked for.
func TestCut(t *testing.T) {
	type tuning = collective.Tuning
	for _, c := range []struct {
		asked, ran tuning
		want       string
	}{
		{tuning{}, tuning{Blocks: 132, Threads: 512}, ""},
		{tuning{Blocks: 132}, tuning{Blocks: 132, Threads: 512}, ""},
		{tuning{Threads: 512}, tuning{Blocks: 132, Threads: 512}, ""},
		{tuning{Blocks: 200}, tuning{}, ""}, // a copy, or NCCL's
		{tuning{Blocks: 200, Threads: 512}, tuning{Blocks: 132, Threads: 512},
			"not as the 200 blocks and 512 threads a block asked for: a GPU here runs at most 132 blocks of 512 threads at once, and blocks wait for those of the other ranks"},
		{tuning{Blocks: 200, Threads: 256}, tuning{Blocks: 132, Threads: 256},
			"not as the 200 blocks and 256 threads a block asked for: the mode has room for no other grid at this size"},
		{tuning{Threads: 512}, tuning{Blocks: 132, Threads: 256}, "not as the 512 threads a block asked for: the mode has room for no other grid at this size"},
	} {
		if got := cut(c.asked, c.ran, 132); got != c.want {
			t.Errorf("%+v asked for, %+v ran: %q", c.asked, c.ran, got)
		}
	}
}

// Which mode runs for which, where multicast is or is not, with and without leave
// to fall back.
func TestModeResolution(t *testing.T) {
	for _, c := range []struct {
		modes     []string
		off       bool
		fallback  string
		op        collective.Op
		run       string // the modes that run, in order of those asked for; "-" for none
		decisions string
		refused   int
		setUpFail bool
	}{
		{[]string{"nvls-zero-copy", "ring"}, false, configs.FallbackNever, collective.Sum, "nvls-zero-copy ring", "", 0, false},
		{[]string{"nvls-zero-copy", "ring"}, true, configs.FallbackNever, collective.Sum, "- ring", "nvls-zero-copy -> ", 1, false},
		{[]string{"nvls-zero-copy", "nvls-copy-in"}, true, configs.FallbackNever, collective.Sum, "", "nvls-zero-copy -> ; nvls-copy-in -> ", 1, true},
		{[]string{"nvls-zero-copy", "p2p"}, true, configs.FallbackAllow, collective.Sum, "ring p2p", "nvls-zero-copy -> ring", 0, false},
		{[]string{"nvls-zero-copy", "nvls-copy-in"}, true, configs.FallbackAllow, collective.Sum, "ring ring", "nvls-zero-copy -> ring; nvls-copy-in -> ring", 0, false},
		{[]string{"nvls-copy-in"}, false, configs.FallbackNever, collective.Max, "-", "nvls-copy-in -> ", 1, false},
		{[]string{"nvls-copy-in", "p2p-push"}, false, configs.FallbackAllow, collective.Max, "ring p2p-push", "nvls-copy-in (max of float) -> ring", 0, false},
		{[]string{"auto"}, true, configs.FallbackNever, collective.Sum, "auto", "auto -> without nvls-zero-copy", 0, false},
		{[]string{"p2p-copy-in", "p2p-packet", "p2p-one-shot", "p2p-two-shot"}, false, configs.FallbackNever, collective.Prod, "p2p-copy-in p2p-packet p2p-one-shot p2p-two-shot", "", 0, false},
	} {
		t.Run(fmt.Sprintf("%s %s off=%v %s", strings.Join(c.modes, ","), c.op, c.off, c.fallback), func(t *testing.T) {
			grouptest.Run(t, 2, func(_ int, o *collective.Options) {
				if c.off {
					o.MulticastOff = "the test"
				}
			}, func(r *grouptest.Rank) {
				cfg := configs.Default()
				cfg.Run.Mode, cfg.Run.Fallback, cfg.Run.Device = c.modes, c.fallback, configs.DeviceSim
				cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 64, 1024
				cfg.NVLS.Staging = 1 << 20
				b, err := start(r, cfg, new(bytes.Buffer))
				if (err != nil) != c.setUpFail || err != nil && (failure.CodeOf(err) != failure.Unavailable || !strings.Contains(err.Error(), "the test")) {
					r.Fatalf("setting up: %v", err)
				}
				if err == nil {
					var run []string
					for _, name := range b.cfg.Modes() {
						chosen, err := b.resolve(name, collective.Float, c.op, true)
						r.OK(err, "resolve")
						if chosen == "" {
							chosen = "-"
						} else if name != configs.ModeAuto && b.find(chosen) == nil {
							r.Fatalf("%s runs for %s and was not set up", chosen, name)
						}
						run = append(run, chosen)
					}
					if got := strings.Join(run, " "); got != c.run {
						r.Fatalf("modes %q run, expected %q", got, c.run)
					}
				}
				if got := said(b); got != c.decisions || len(b.refused) != c.refused {
					r.Fatalf("decisions %q and %d refusals, expected %q and %d", got, len(b.refused), c.decisions, c.refused)
				}
				stop(r, b)
			})
		})
	}
}

func TestAverage(t *testing.T) {
	v := []float64{3, 1, 5, 7}
	for how, want := range map[string]float64{configs.AverageRank0: 3, configs.AverageMin: 1, configs.AverageMax: 7, configs.AverageMean: 4} {
		if got := average(how, v); got != want {
			t.Errorf("%s of %v is %v", how, v, got)
		}
	}
}

// Copy engines are tried where they may gain something, everything else always,
// but bulk copies.
func TestCandidatesOfSize(t *testing.T) {
	b := &bench{}
	for size, want := range map[uint64]bool{1 << 10: false, 4<<20 - 4: false, 4 << 20: true, 1 << 30: true} {
		if got := b.tries(configs.ModeP2PCopyEngine, size); got != want {
			t.Errorf("%d bytes: %v", size, got)
		}
		if !b.tries(configs.ModeP2PTwoShot, size) {
			t.Errorf("two-shot is not tried for %d bytes", size)
		}
	}
	if !slices.Contains(candidates, configs.ModeP2PCopyEngine) {
		t.Error("copy engines are no candidate")
	}
}

// More blocks than a GPU runs at once are cut, in each mode to what it has room for,
// and a line says so once, not at every size; what can run is taken as it was asked
// for and nothing said.
func TestTooManyBlocksAreCut(t *testing.T) {
	modes := []string{"nvls-zero-copy", "nvls-copy-in", "ring", "p2p-packet", "p2p-one-shot", "p2p-two-shot", "p2p-push", "p2p-push-bulk", "p2p-copy-in", "p2p-copy-engine"}
	for _, c := range []struct {
		blocks, threads int
		said            string
	}{
		{200, 512, "not as the 200 blocks and 512 threads a block asked for: a GPU here runs at most 4 blocks of 512 threads at once"},
		{200, 0, "not as the 200 blocks asked for: "},
		{1, 64, ""},
	} {
		grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
			cfg := configs.Default()
			cfg.Run.Mode, cfg.Run.Device = modes, configs.DeviceSim
			cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes, cfg.Sweep.Factor = 4<<10, 8<<10, 2
			cfg.Timing.Iters, cfg.Timing.Warmup, cfg.Timing.Check = 1, 1, 1
			cfg.NVLS.Staging, cfg.NVLS.Blocks, cfg.NVLS.Threads = 1<<20, c.blocks, c.threads
			out := new(bytes.Buffer)
			b, err := start(r, cfg, out)
			r.OK(err, "set up")
			r.OK(b.tables(context.Background(), 0, collective.Float, collective.Sum), "measure")
			for _, row := range b.record.run.Rows {
				shape, geometry, _ := strings.Cut(row.Algorithm, " ")
				var g collective.Geometry
				if _, err := fmt.Sscanf(geometry, "%dx%d", &g.Blocks, &g.Threads); err != nil || g.Blocks > 4*min(512/g.Threads, 8) || shape == "push-bulk" && g.Blocks > 4 {
					r.Fatalf("%s: %q with 4 multiprocessors, %v", row.Mode, row.Algorithm, err)
				}
				if row.Wrong == nil || *row.Wrong != 0 {
					r.Fatalf("%s: %q: not right", row.Mode, row.Algorithm)
				}
			}
			for _, mode := range modes {
				want := 1
				if c.said == "" {
					want = 0
				}
				if r.Rank() == 0 && strings.Count(out.String(), "# Mode "+mode+", ") != want || !strings.Contains(out.String(), c.said) && r.Rank() == 0 {
					r.Fatalf("%s with %d x %d: not %d of %q in\n%s", mode, c.blocks, c.threads, want, c.said, out)
				}
			}
			if len(b.record.run.Notes) != 0 && c.said == "" || len(b.record.run.Notes) != len(modes) && c.said != "" {
				r.Fatalf("%q", b.record.run.Notes)
			}
			stop(r, b)
		})
	}
}

package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
)

// A geometry that is far slower than the best is left after its first iterations;
// one that may win is not, however slow its start.
func TestHopeless(t *testing.T) {
	for _, tt := range []struct {
		took, least time.Duration
		want        bool
	}{
		{112 * time.Millisecond, 850 * time.Microsecond, true}, // 256 MiB by one block
		{5 * time.Millisecond, 850 * time.Microsecond, true},
		{2 * time.Millisecond, 850 * time.Microsecond, false},
		{900 * time.Microsecond, 4 * time.Microsecond, false}, // the first launch of a small one
		{400 * time.Millisecond, 300 * time.Millisecond, false},
	} {
		if got := hopeless(tt.took, tt.least); got != tt.want {
			t.Errorf("%v beside %v: %v", tt.took, tt.least, got)
		}
	}
}

// What is recorded is what ran, of what was not left open.
func TestSettled(t *testing.T) {
	type tuning = collective.Tuning
	ran := tuning{Blocks: 32, Threads: 64, Chunk: 4096, Slots: 8}
	for _, c := range []struct{ asked, want tuning }{
		{tuning{}, tuning{}},
		{tuning{Blocks: 200}, tuning{Blocks: 32, Threads: 64}},
		{tuning{Threads: 512}, tuning{Blocks: 32, Threads: 64}},
		{tuning{Chunk: 4000, Slots: 9}, tuning{Chunk: 4096, Slots: 8}},
		{tuning{Blocks: 200, Threads: 512, Chunk: 1}, ran},
	} {
		if got := settled(c.asked, ran); got != c.want {
			t.Errorf("%+v asked for: %+v", c.asked, got)
		}
	}
}

// A tuning file brings in no more blocks than run at once.
func TestTuningFileIsCut(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		cfg := configs.Default()
		cfg.Run.Mode, cfg.Run.Device = []string{configs.ModeAuto}, configs.DeviceSim
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 4<<10, 4<<10
		cfg.Timing.Iters, cfg.Timing.Warmup, cfg.Timing.Check = 1, 1, 1
		out := new(bytes.Buffer)
		b, err := start(r, cfg, out)
		r.OK(err, "set up")
		b.tuning = &tuning.File{Choices: []tuning.Choice{{DataType: "float", Op: "sum", MaxBytes: 4 << 10, Mode: "ring", Blocks: 256, Threads: 512}}}
		r.OK(b.tables(context.Background(), 0, collective.Float, collective.Sum), "measure")
		if row := b.record.run.Rows[0]; row.Algorithm != "ring ring 4x512" {
			r.Fatalf("%+v", row)
		}
		if said := "# Mode ring, 4096 bytes: runs as ring 4x512, not as the 256 blocks and 512 threads"; r.Rank() == 0 && strings.Count(out.String(), said) != 1 {
			r.Fatalf("no %q in\n%s", said, out)
		}
		stop(r, b)
	})
}

// Of blocks that the configuration asks for and auto's candidates cannot have, a line
// says so.
func TestAutoTellsWhatIsCut(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		cfg := configs.Default()
		cfg.Run.Mode, cfg.Run.Device = []string{configs.ModeAuto}, configs.DeviceSim
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 64, 64
		cfg.Timing.Iters, cfg.Timing.Warmup, cfg.Timing.Check = 1, 1, 1
		cfg.NVLS.Blocks, cfg.NVLS.Threads = 200, 512
		out := new(bytes.Buffer)
		b, err := start(r, cfg, out)
		r.OK(err, "set up")
		r.OK(b.tables(context.Background(), 0, collective.Float, collective.Sum), "measure")
		if said := "# Mode ring, 64 bytes: runs as ring 4x512, not as the 200 blocks"; r.Rank() == 0 && strings.Count(out.String(), said) != 1 {
			r.Fatalf("no %q in\n%s", said, out)
		}
		stop(r, b)
	})
}

// The search times what differs, each once, and what it finds is what ran: asked for,
// it is planned the same.
func TestSearchTimesEachLaunchOnce(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		cfg := configs.Default()
		cfg.Run.Mode, cfg.Run.Device = []string{configs.ModeP2PPacket, configs.ModeP2PPushBulk}, configs.DeviceSim
		const size = 64 << 10
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = size, size
		b, err := start(r, cfg, new(bytes.Buffer))
		r.OK(err, "set up")
		table := &table{b: b, mode: configs.ModeAuto, dtype: collective.Float, op: collective.Sum}
		for _, m := range b.modes {
			found, err := table.search(context.Background(), []attempt{{mode: m}}, size)
			r.OK(err, "search")
			seen := map[string]bool{}
			for _, a := range found {
				calls, err := m.with(a.tuning).prepare(size, collective.Float, collective.Sum, result.OutOfPlace)
				r.OK(err, "prepare")
				name, ran := calls[0].Algorithm(), calls[0].Tuning()
				if seen[name] {
					r.Fatalf("%s %s was timed twice", m.name, name)
				}
				seen[name] = true
				if a.tuning != (collective.Tuning{}) && a.tuning != ran {
					r.Fatalf("%s: %+v is recorded, %s runs", m.name, a.tuning, name)
				}
				r.OK(calls.close(), "close")
			}
			if len(found) < 2 {
				r.Fatalf("%s: %d launches were timed", m.name, len(found))
			}
		}
		stop(r, b)
	})
}

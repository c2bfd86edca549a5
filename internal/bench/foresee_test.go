package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// What is foreseen of a mode without a group is what its all-reduce says in one: on
// types and operations, and by planning calls of every size.
func TestForesight(t *testing.T) {
	var modes []string
	for _, m := range configs.ModeNames() {
		if m != configs.ModeAuto && !strings.HasPrefix(m, configs.ModeNCCL) {
			modes = append(modes, m)
		}
	}
	grouptest.Run(t, 3, nil, func(r *grouptest.Rank) {
		cfg := configs.Default()
		cfg.Run.Mode, cfg.Run.Device = modes, configs.DeviceSim
		cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes, cfg.Sweep.Factor = 64<<10, 1<<20, 2
		cfg.NVLS.Staging = 1 << 20
		b, err := start(r, cfg, new(bytes.Buffer))
		r.OK(err, "set the modes up")
		refused := 0
		for _, m := range b.modes {
			for _, d := range collective.DTypes() {
				for _, op := range collective.Ops() {
					foreseen, said := Supports(m.name, r.Size(), d, op), m.reducer.Supports(d, op)
					if words(foreseen) != words(said) {
						r.T.Errorf("%s, %s of %s: foreseen %v, said %v", m.name, op, d, foreseen, said)
					}
					if said != nil {
						refused++
					}
				}
			}
			for _, size := range cfg.Sizes(4) {
				call, err := m.reducer.Prepare(m.buffers.call(0, size, collective.Float, collective.Sum, "out-of-place"))
				if err == nil {
					r.OK(call.Close(), "close a call")
				} else {
					refused++
				}
				if foreseen := takes(m.name, r.Size(), size); words(foreseen) != words(err) {
					r.T.Errorf("%s, %d bytes: foreseen %v, said %v", m.name, size, foreseen, err)
				}
			}
		}
		if refused < 20 {
			r.T.Errorf("%d refusals: the test tests nothing", refused)
		}
		stop(r, b)
	})
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Refusals tells for each mode what is left of what is asked.
func TestRefusals(t *testing.T) {
	cfg := configs.Default()
	cfg.Run.DataType, cfg.Run.Op = []string{"float", "int32"}, []string{"min", "prod"}
	cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 1<<10, 1<<20
	all := Refusals(cfg, []string{configs.ModeZeroCopy, configs.ModeRing, configs.ModeP2PPacket, configs.ModeNCCL}, 8)
	if len(all) != 2 || all[0].Mode != configs.ModeZeroCopy || all[0].Whole || len(all[0].Operations) != 3 || len(all[0].Sizes) != 0 {
		t.Fatalf("%+v", all)
	}
	if p := all[1]; p.Mode != configs.ModeP2PPacket || p.Whole || len(p.Operations) != 0 || len(p.Sizes) != 1 || failure.CodeOf(p.Sizes[0]) != failure.Unavailable {
		t.Errorf("%+v", p)
	}
	cfg.Run.DataType = []string{"float"}
	if all := Refusals(cfg, []string{configs.ModeCopyIn}, 8); len(all) != 1 || !all[0].Whole {
		t.Errorf("%+v", all)
	}
	if all := Refusals(cfg, []string{configs.ModeAuto}, 8); all != nil {
		t.Errorf("auto takes what can: %+v", all)
	}
}

// The memory that is foreseen is that which a run tells.
func TestPlannedMemory(t *testing.T) {
	cfg := configs.Default()
	cfg.Run.Mode, cfg.Sweep.MaxBytes, cfg.NVLS.Staging, cfg.NVLS.Scratch = []string{configs.ModeCopyIn}, 1<<20, 8<<20, 16<<20
	for _, c := range []struct {
		mode             string
		staging, scratch uint64
	}{
		{configs.ModeCopyIn, 8 << 20, 0}, {configs.ModeZeroCopy, 0, 0}, {configs.ModeNCCL, 0, 0},
		{configs.ModeRing, 0, 4 << 20}, {configs.ModeAuto, 0, 4 << 20}, // of a message of 1 MiB
	} {
		cfg.Run.Mode = []string{c.mode}
		if m := PlannedMemory(cfg); m.Buffers != 2<<20 || m.Staging != c.staging || m.Control != collective.WorkspaceBytes(c.scratch) {
			t.Errorf("%s: %+v", c.mode, m)
		}
	}
	cfg.Sweep.MaxBytes = 1 << 30
	if m := PlannedMemory(cfg); m.Control != collective.WorkspaceBytes(16<<20) {
		t.Errorf("a large message: %+v", m)
	}
}

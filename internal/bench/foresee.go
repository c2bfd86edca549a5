package bench

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/nccl"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// Foresight is the part of a run that comes before any device is opened, for the
// doctor. It is the run's own code, so that both refuse the same in the same
// words; the methods with a context are collective.
type Foresight struct{ b *bench }

// Foresee prepares to look at the run of cfg by world. The configuration must be
// valid.
func Foresee(cfg *configs.Config, world *mpiboot.World) Foresight {
	b := &bench{cfg: cfg, world: world, node: world.Node()}
	b.record = &record{b: b}
	return Foresight{b}
}

// CompareConfigs refuses ranks that were given different configurations.
func (f Foresight) CompareConfigs(ctx context.Context) error { return f.b.compareConfigs(ctx) }

// TryOutputs says on rank 0 which of the run's files could not be written; no
// file is left behind.
func (f Foresight) TryOutputs() error { return f.b.record.tryOutputs() }

// ReadTuning reads the tuning file that the run would follow, nil when it has
// none.
func (f Foresight) ReadTuning(ctx context.Context) (*tuning.File, error) {
	err := f.b.readTuning(ctx)
	return f.b.tuning, err
}

// PlannedMemory is what a run of cfg allocates on each device, before
// granularities.
func PlannedMemory(cfg *configs.Config) result.Memory { return (&bench{cfg: cfg}).plannedMemory() }

// Refusal is what a mode cannot do of all that a configuration asks of it.
type Refusal struct {
	Mode string
	// Whole says that nothing is left of what was asked of the mode.
	Whole bool
	// Operations are the errors of data types and operations, Sizes those of message
	// sizes; each once.
	Operations, Sizes []error
}

// Refusals lists those of some modes that cannot do all that cfg asks of a group of
// so many ranks, whatever the machine. Mode auto takes what can.
func Refusals(cfg *configs.Config, modes []string, ranks int) []Refusal {
	var out []Refusal
	for _, mode := range modes {
		r := Refusal{Mode: mode, Whole: true}
		for _, d := range cfg.DTypes() {
			for _, op := range cfg.Ops() {
				if err := Supports(mode, ranks, d, op); err != nil {
					r.Operations = once(r.Operations, err)
					continue
				}
				for _, size := range cfg.Sizes(d.Size()) {
					if err := takes(mode, ranks, size); err != nil {
						r.Sizes = once(r.Sizes, err)
					} else {
						r.Whole = false
					}
				}
			}
		}
		if len(r.Operations)+len(r.Sizes) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Supports says why a mode cannot do an operation on a type in a group of so many
// ranks, nil when it can: what AllReducer.Supports of the mode says, without a
// group.
func Supports(mode string, ranks int, d collective.DType, op collective.Op) error {
	switch mode {
	case configs.ModeZeroCopy, configs.ModeCopyIn:
		return nvls.Supports(d, op)
	case configs.ModeNCCL, configs.ModeNCCLSymmetric:
		return nccl.Supports(mode, ranks, d, op)
	}
	return nil
}

// takes says why a mode cannot take a message of so many bytes, as its Prepare
// does.
func takes(mode string, ranks int, size uint64) error {
	if mode == configs.ModeP2PPacket {
		return fallback.PacketLimit(ranks, size)
	}
	return nil
}

// once adds an error whose words are new.
func once(errs []error, err error) []error {
	for _, e := range errs {
		if e.Error() == err.Error() {
			return errs
		}
	}
	return append(errs, err)
}

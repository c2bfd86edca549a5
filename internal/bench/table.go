package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// table is one mode's sweep over the sizes, for one data type and operation.
type table struct {
	b         *bench
	mode      string
	requested []string // the modes asked for that it runs for
	cycle     int
	dtype     collective.DType
	op        collective.Op
}

// replaces are the modes asked for where they are not just the one that runs: as
// result.Row.Requested.
func (t *table) replaces() []string {
	if slices.Equal(t.requested, []string{t.mode}) {
		return nil
	}
	return t.requested
}

func (t *table) measure(ctx context.Context) error {
	b := t.b
	sizes := b.cfg.Sizes(t.dtype.Size())
	b.record.table(result.Title(t.mode, t.replaces()), b.cfg.Timing.Graph, t.cycle)
	for i, size := range sizes {
		b.record.progress(fmt.Sprintf("%s %s %s %s", t.mode, t.dtype, t.op, collective.FormatBytes(size)), sizes[i:])
		if err := t.row(ctx, size); err != nil {
			return err
		}
	}
	b.record.endTable()
	if m := b.find(t.mode); m != nil && m.nccl != nil {
		b.record.ncclMemory(m)
	}
	return nil
}

// row measures one size, out of place and in place.
func (t *table) row(ctx context.Context, size uint64) error {
	b := t.b
	m, err := t.choose(ctx, size)
	if err != nil {
		return err
	}
	var rows []*result.Row
	for _, p := range []result.Placement{result.OutOfPlace, result.InPlace} {
		row, err := t.place(ctx, m, size, p)
		if cannotRun(err) {
			// A size that this mode cannot take: every rank finds the same.
			t.skip(size, err)
			return nil
		}
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	b.record.add(rows[0], rows[1])
	return nil
}

// skip tells that a size is not measured. It makes the run fail unless modes may
// be replaced.
func (t *table) skip(size uint64, err error) {
	if t.cycle > 0 {
		return
	}
	t.b.record.decideNow(result.Decision{SizeBytes: size, Requested: t.mode, Reason: err.Error()})
	if t.b.cfg.Run.Fallback != configs.FallbackAllow {
		t.b.fail(err)
	}
}

// place measures one size in one placement.
func (t *table) place(ctx context.Context, m *mode, size uint64, p result.Placement) (row *result.Row, err error) {
	b := t.b
	calls, err := m.prepare(size, t.dtype, t.op, p)
	if cannotRun(err) {
		return nil, err
	}
	defer func() { err = errors.Join(err, calls.close()) }()
	if err := b.node.Vote(ctx, "prepare "+t.mode, err); err != nil {
		return nil, err
	}
	b.tellCut(m, size, calls[0])
	algorithm := calls[0].Algorithm()
	if t.mode == configs.ModeAuto {
		algorithm = m.name + " " + algorithm
	}
	row = &result.Row{
		Mode: t.mode, Algorithm: algorithm, Size: size, Count: size / uint64(t.dtype.Size()),
		DataType: t.dtype.String(), Op: t.op.String(), Placement: p, Graph: b.cfg.Timing.Graph, Cycle: t.cycle,
		Requested: t.replaces(),
	}
	if err := m.time(ctx, b, row, calls); err != nil {
		return nil, err
	}
	if err := b.verify(ctx, row, calls[0], m.buffers.call(0, size, t.dtype, t.op, p)); err != nil {
		return nil, err
	}
	row.Rate(b.world.Size(), b.record.linkPeak())
	return row, nil
}

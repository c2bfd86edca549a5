package bench

import (
	"context"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/nccl"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// openNCCL sets up a mode of NCCL and says what it opened. It is collective.
func (b *bench) openNCCL(ctx context.Context, name string) (*mode, error) {
	o := nccl.Options{
		Library: b.cfg.NCCL.Library,
		// Sooner than other ranks give up waiting for this one.
		Setup: b.cfg.Bootstrap.Timeout * 2 / 3,
		Hung: func(err error) {
			b.record.finish(err)
			b.world.Abort(failure.CodeOf(err), err)
		},
	}
	m := &mode{name: name, asked: true, buffers: b.buffers}
	var opened *nccl.AllReduce
	var err error
	if name == configs.ModeNCCLSymmetric {
		var s *nccl.Symmetric
		if s, err = nccl.OpenSymmetric(ctx, b.group, 2*b.buffers.region, o); err == nil {
			m.reducer, opened = s, s.AllReduce
			m.buffers = &buffers{address: s.Region(), region: b.buffers.region}
		}
	} else if opened, err = nccl.Open(ctx, b.group, o); err == nil {
		m.reducer = opened
	}
	if err != nil {
		if name == configs.ModeNCCLSymmetric {
			b.record.change(func() { b.record.run.Memory.NCCLBuffers = 0 })
		}
		return nil, err
	}
	m.nccl = &ncclPart{reducer: opened, bytes: int64(opened.SetupBytes())}
	library := "NCCL " + opened.Version()
	b.record.change(func() {
		if !slices.Contains(b.record.run.Libraries, library) {
			b.record.run.Libraries = append(b.record.run.Libraries, library)
		}
	})
	nvls := ""
	if off := opened.NVLSOff(); off != "" {
		nvls = "; without NVLS (NCCL_NVLS_ENABLE=0), because of " + off
	}
	b.record.line("Mode %s: %s from %s%s", name, library, opened.Library(), nvls)
	return m, nil
}

// ncclPart is what a mode of NCCL has beside others: the device memory that NCCL
// took on this rank, buffers not counted, and a way to ask what it chose. NCCL
// allocates for an algorithm when it first uses it.
type ncclPart struct {
	reducer *nccl.AllReduce
	bytes   int64
	unknown bool
}

// time fills in a row's times. Of NCCL it also finds what it chose, by a call that
// is not timed, and the memory that it took meanwhile.
func (m *mode) time(ctx context.Context, b *bench, row *result.Row, calls []collective.Prepared) error {
	if m.nccl == nil {
		return b.time(ctx, row, calls)
	}
	return m.nccl.watch(b.group.Device(), func() error {
		chosen, err := m.nccl.reducer.Listen(func() error {
			_, err := b.loop(ctx, calls, 1)
			return err
		})
		if err != nil {
			return err
		}
		if chosen != "" {
			row.Algorithm = chosen
		}
		return b.time(ctx, row, calls)
	})
}

// watch adds to p what work took; work must launch NCCL and nothing else. Free
// memory that cannot be read is no reason to end a run: the device's error, if it
// is one, comes from work too.
func (p *ncclPart) watch(d device.Device, work func() error) error {
	before, _, err := d.MemInfo()
	p.unknown = p.unknown || err != nil
	if err := work(); err != nil {
		return err
	}
	after, _, err := d.MemInfo()
	p.unknown = p.unknown || err != nil
	if !p.unknown {
		p.bytes += int64(before) - int64(after)
	}
	return nil
}

// ncclMemory says what NCCL took so far for a mode, and what this program's own
// modes take.
func (r *record) ncclMemory(m *mode) {
	took := "not known"
	if !m.nccl.unknown {
		took = collective.FormatBytes(uint64(max(m.nccl.bytes, 0)))
	}
	var own uint64
	r.change(func() {
		r.run.Memory.NCCL = 0
		for _, m := range r.b.modes {
			if m.nccl != nil && !m.nccl.unknown {
				r.run.Memory.NCCL += uint64(max(m.nccl.bytes, 0))
			}
		}
		own = r.run.Memory.Control + r.run.Memory.Staging
	})
	r.line("Device memory beside the buffers: %s took %s (free memory before and after); this program's own modes take %s", m.name, took, collective.FormatBytes(own))
}

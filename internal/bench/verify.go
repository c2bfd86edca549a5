package bench

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

const (
	// poison is what receive buffers hold before a verified call: a NaN in every
	// floating-point type.
	poison = 0xffffffff
	// reportEntry is what a check kernel writes: wrong elements, first of them.
	reportEntry = 16
	// batch is how many verified calls follow each other without synchronisation.
	batch = 64
)

// dataKernels fill inputs and check results on the device.
type dataKernels struct {
	fill, check device.Function
	args        kernels.DataArgs
	geometry    collective.Geometry
}

func (b *bench) dataKernels(c collective.Call) (*dataKernels, error) {
	op, average := c.Op.String(), kernels.Average{}
	if c.Op == collective.Avg {
		op, average = collective.Sum.String(), kernels.AverageOver(b.group.Size())
	}
	lib := b.group.Library()
	fill, err := lib.Function(kernels.Fill, c.DType.String(), op)
	if err != nil {
		return nil, err
	}
	check, err := lib.Function(kernels.Check, c.DType.String(), op)
	if err != nil {
		return nil, err
	}
	return &dataKernels{fill, check, kernels.DataArgs{
		Count: c.Count, Rank: uint32(b.group.Rank()), Ranks: uint32(b.group.Size()), Average: average,
	}, collective.Tuning{}.Geometry(c.Count, b.group.MaxBlocks())}, nil
}

func (k *dataKernels) launch(s device.Stream, f device.Function, buffer, report device.Ptr, seed uint32) error {
	args := k.args
	args.Buffer, args.Result, args.Seed = uint64(buffer), uint64(report), seed
	return s.Launch(f, k.geometry.Blocks, k.geometry.Threads, 0, args.Bytes())
}

// verify repeats a call on fresh data as often as the configuration says and
// compares every element, bit for bit. It fills in the row's count of wrong
// elements over all ranks and the first of them. Source of the method:
// nccl-tests' verifiable inputs; see data.cuh.
func (b *bench) verify(ctx context.Context, row *result.Row, call collective.Prepared, c collective.Call) error {
	if b.cfg.Timing.Check == 0 {
		return nil
	}
	wrong := uint64(0)
	for left := b.cfg.Timing.Check; left > 0; left -= batch {
		w, first, err := b.verifyBatch(ctx, call, c, min(left, batch))
		if err != nil {
			return err
		}
		wrong += w
		if row.FirstWrong == nil {
			row.FirstWrong = first
		}
	}
	row.Wrong = &wrong
	return nil
}

func (b *bench) verifyBatch(ctx context.Context, call collective.Prepared, c collective.Call, rounds int) (uint64, *result.FirstWrong, error) {
	seed := b.checks
	b.checks += uint32(rounds)
	var mine []finding
	err := func() (err error) {
		k, err := b.dataKernels(c)
		if err != nil {
			return err
		}
		if err := b.clearReport(rounds); err != nil {
			return err
		}
		for i := range rounds {
			if err := b.verifyRound(call, c, k, seed+uint32(i), i); err != nil {
				return err
			}
		}
		if err := b.wait(ctx); err != nil {
			return err
		}
		mine, err = b.readReport(c, seed, rounds)
		return err
	}()
	if err := b.node.Vote(ctx, "verify", err); err != nil {
		return 0, nil, err
	}
	all, err := gather(ctx, b.node, "compare results", mine)
	if err != nil {
		return 0, nil, err
	}
	var total uint64
	var first *result.FirstWrong
	for _, findings := range all {
		for _, f := range findings {
			total += f.Wrong
			if first == nil {
				first = f.First
			}
		}
	}
	return total, first, nil
}

// verifyRound enqueues one verified call: fresh input, poisoned output, the
// all-reduce, the check. Nothing waits for the host or for the other ranks but
// the all-reduce itself.
func (b *bench) verifyRound(call collective.Prepared, c collective.Call, k *dataKernels, seed uint32, i int) error {
	s := b.group.Stream()
	if c.Count == 0 {
		return call.Enqueue(s)
	}
	if !c.InPlace() {
		if err := s.Set32(c.Recv.Local(), poison, (c.Bytes()+3)/4); err != nil {
			return err
		}
	}
	if err := k.launch(s, k.fill, c.Send.Local(), 0, seed); err != nil {
		return err
	}
	if err := b.corruptInput(s, c); err != nil {
		return err
	}
	if err := call.Enqueue(s); err != nil {
		return err
	}
	return k.launch(s, k.check, c.Recv.Local(), b.group.Workspace().Report()+device.Ptr(i*reportEntry), seed)
}

func (b *bench) clearReport(rounds int) error {
	clean := make([]byte, 0, rounds*reportEntry)
	for range rounds {
		clean = binary.LittleEndian.AppendUint64(clean, 0)
		clean = binary.LittleEndian.AppendUint64(clean, math.MaxUint64)
	}
	return b.group.Device().CopyToDevice(b.group.Workspace().Report(), clean)
}

// finding is what one rank's check found wrong in one round.
type finding struct {
	Wrong uint64
	First *result.FirstWrong
}

func (b *bench) readReport(c collective.Call, seed uint32, rounds int) ([]finding, error) {
	raw := make([]byte, rounds*reportEntry)
	if err := b.group.Device().CopyToHost(raw, b.group.Workspace().Report()); err != nil {
		return nil, err
	}
	var out []finding
	for i := range rounds {
		wrong := binary.LittleEndian.Uint64(raw[i*reportEntry:])
		if wrong == 0 {
			continue
		}
		first, err := b.explain(c, seed+uint32(i), binary.LittleEndian.Uint64(raw[i*reportEntry+8:]), i == rounds-1)
		if err != nil {
			return nil, err
		}
		out = append(out, finding{wrong, first})
	}
	return out, nil
}

// explain names the first wrong element of a round. Only the last round's result
// is still in the buffer; of an earlier one the value is gone.
func (b *bench) explain(c collective.Call, seed uint32, index uint64, last bool) (*result.FirstWrong, error) {
	f := &result.FirstWrong{Rank: b.group.Rank(), Index: index, Expected: element(c.DType, expected(c.DType, c.Op, b.group.Size(), seed, index))}
	if !last {
		f.Got = result.Element{Bits: "overwritten", Value: "overwritten by a later check"}
		return f, nil
	}
	raw := make([]byte, 8)
	size := c.DType.Size()
	if err := b.group.Device().CopyToHost(raw[:size], c.Recv.Local()+device.Ptr(index*uint64(size))); err != nil {
		return nil, err
	}
	f.Got = element(c.DType, binary.LittleEndian.Uint64(raw))
	if f.Got == f.Expected {
		f.Got.Value += ", stored after the check"
	}
	return f, nil
}

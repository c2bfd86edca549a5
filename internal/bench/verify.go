package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

const (
	// poison is what receive buffers hold before a verified call: a NaN in every
	// floating-point type.
	poison = 0xffffffff
	// reportEntry is what a check kernel writes: wrong elements, first of them,
	// right elements.
	reportEntry = 24
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
	}, collective.Tuning{}.Geometry(c.Count, b.group.MaxBlocks(), kernels.MaxBlocks)}, nil
}

func (k *dataKernels) launch(s device.Stream, f device.Function, buffer, report device.Ptr, seed uint32) error {
	args := k.args
	args.Buffer, args.Result, args.Seed = uint64(buffer), uint64(report), seed
	return s.Launch(f, k.geometry.Blocks, k.geometry.Threads, 0, args.Bytes())
}

// verify repeats a call on fresh data as often as the configuration says and
// compares every element, bit for bit. It fills in the row's counts of checked and
// of wrong elements over all ranks and the first of these. A check that did not
// look at every element of a rank is an error of code WrongData. Source of the
// method: nccl-tests' verifiable inputs; see data.cuh.
func (b *bench) verify(ctx context.Context, row *result.Row, call collective.Prepared, c collective.Call) error {
	if b.cfg.Timing.Check == 0 {
		return nil
	}
	wrong, checked := uint64(0), uint64(0)
	for done := 0; done < b.cfg.Timing.Check; done += batch {
		all, err := b.verifyBatch(ctx, call, c, min(b.cfg.Timing.Check-done, batch))
		if err != nil {
			return err
		}
		for rank, findings := range all {
			for i, f := range findings {
				if f.Checked != c.Count {
					b.record.print(func() { b.record.printer.Unverified = true })
					return unchecked(row, rank, done+i, f.Checked)
				}
				checked += f.Checked
				wrong += f.Wrong
				if row.FirstWrong == nil {
					row.FirstWrong = f.First
				}
			}
		}
	}
	row.Wrong, row.Checked = &wrong, &checked
	return nil
}

// unchecked is the error of a check that did not look at every element: what it
// found right means nothing.
func unchecked(row *result.Row, rank, call int, checked uint64) error {
	return &failure.Error{Code: failure.WrongData,
		What: fmt.Sprintf("verification is incomplete: %s %s of %s, %d bytes, %s: %d of %d elements were checked", row.Mode, row.Op, row.DataType, row.Size, row.Placement, checked, row.Count),
		Why:  fmt.Sprintf("the check kernel of rank %d, verified call %d, did not count every element", rank, call),
		Do:   "do not trust this result; run again, and if it comes back report it with the device and the driver", By: failure.User}
}

// verifyBatch gives what every rank found in every round.
func (b *bench) verifyBatch(ctx context.Context, call collective.Prepared, c collective.Call, rounds int) ([][]finding, error) {
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
		return nil, err
	}
	return gather(ctx, b.node, "compare results", mine)
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
		clean = binary.LittleEndian.AppendUint64(clean, 0)
	}
	return b.group.Device().CopyToDevice(b.group.Workspace().Report(), clean)
}

// finding is what one rank's check found in one round.
type finding struct {
	Checked, Wrong uint64             // elements
	First          *result.FirstWrong `json:",omitempty"`
}

func (b *bench) readReport(c collective.Call, seed uint32, rounds int) ([]finding, error) {
	raw := make([]byte, rounds*reportEntry)
	if err := b.group.Device().CopyToHost(raw, b.group.Workspace().Report()); err != nil {
		return nil, err
	}
	out := make([]finding, rounds)
	for i := range out {
		entry := raw[i*reportEntry:]
		wrong, right := binary.LittleEndian.Uint64(entry), binary.LittleEndian.Uint64(entry[16:])
		out[i] = finding{Checked: wrong + right, Wrong: wrong}
		if wrong == 0 {
			continue
		}
		first, err := b.explain(c, seed+uint32(i), binary.LittleEndian.Uint64(entry[8:]), i == rounds-1)
		if err != nil {
			return nil, err
		}
		out[i].First = first
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

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

const (
	// linkBytes is what each measurement moves at most; less than leastLinkBytes
	// would time the launch and not the link.
	linkBytes      = 256 << 20
	leastLinkBytes = 16 << 20
	// simLinkBytes is for the software device, where the numbers mean nothing and
	// only the way there is exercised.
	simLinkBytes = 64 << 10
	linkRepeats  = 3
	// linkLaunches follow each other in a measurement: of a single one of 256 MiB the
	// start and the end are 2 %.
	linkLaunches = 8
	linkThreads  = 512
)

// measureLinks finds what the links carry when all ranks move data to or from the
// next rank at once: stores and loads of the SMs, and the copy engines, as one copy
// and as two at the same time, which p2p-copy-engine has. It is the limit that the
// table's rates are judged against. Small runs, single ranks and shared GPUs have
// none.
func (b *bench) measureLinks(ctx context.Context) error {
	info := b.group.Devices()[b.group.Rank()]
	bytes := min(b.buffers.region, linkBytes)
	switch {
	case b.group.Size() == 1 || b.group.SharesGPU():
		return nil
	case info.Simulated:
		bytes = min(bytes, simLinkBytes)
	case bytes < leastLinkBytes:
		return nil
	}
	s := b.group.Stream()
	next := (b.group.Rank() + 1) % b.group.Size()
	peer := b.buffers.memory.At(b.buffers.region).Peer(next)
	args := kernels.LinkArgs{Buffer: uint64(peer), Packs: bytes / kernels.PackBytes, Sink: uint64(b.group.Workspace().Report())}
	store, load, module, err := b.linkKernels()
	var bulk device.Function
	var bulkModule device.Module
	if err == nil && fallback.BulkCopies(b.group) {
		bulk, bulkModule, err = b.bulkLinkKernel()
	}
	if err := b.node.Vote(ctx, "load link kernels", err); err != nil {
		return err
	}
	defer b.free(module)
	if bulk != nil {
		defer b.free(bulkModule)
	}
	two, err := b.newTwoCopies()
	if err := b.node.Vote(ctx, "make a stream for copies", err); err != nil {
		return err
	}
	defer b.free(two)
	launch := func(f device.Function, shared uint32) func() error {
		return func() error { return s.Launch(f, b.group.MaxBlocks(), linkThreads, shared, args.Bytes()) }
	}
	var rates result.LinkRates
	var oneCopy, twoCopies float64
	for _, m := range []struct {
		rate *float64
		work func() error
	}{
		{&rates.Store, launch(store, 0)},
		{&rates.BulkStore, launch(bulk, kernels.BulkSharedBytes)},
		{&rates.Load, launch(load, 0)},
		{&oneCopy, func() error { return s.Copy(peer, b.buffers.memory.Local(), bytes) }},
		{&twoCopies, func() error { return two.copy(s, peer, b.buffers.memory.Local(), bytes) }},
	} {
		if m.rate == &rates.BulkStore && bulk == nil {
			continue // the same on all ranks
		}
		if *m.rate, err = b.linkRate(ctx, bytes, m.work); err != nil {
			return err
		}
	}
	rates.Copy = max(oneCopy, twoCopies)
	b.record.links(rates)
	return nil
}

// twoCopies is what it takes to have two copies at once.
type twoCopies struct {
	other       device.Stream
	begin, done device.Event
}

func (b *bench) newTwoCopies() (*twoCopies, error) {
	t, d := &twoCopies{}, b.group.Device()
	var err error
	if t.other, err = d.NewStream(); err != nil {
		return nil, err
	}
	if t.begin, err = d.NewEvent(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.done, err = d.NewEvent(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// copy moves half of the bytes on s and half on the other stream; s waits for both.
func (t *twoCopies) copy(s device.Stream, dst, src device.Ptr, bytes uint64) error {
	half := bytes / 2 / kernels.PackBytes * kernels.PackBytes
	errs := []error{s.Record(t.begin), t.other.WaitEvent(t.begin),
		s.Copy(dst, src, half), t.other.Copy(dst+device.Ptr(half), src+device.Ptr(half), bytes-half),
		t.other.Record(t.done), s.WaitEvent(t.done)}
	return errors.Join(errs...)
}

// Close frees what there is.
func (t *twoCopies) Close() error {
	var errs []error
	for _, e := range []device.Event{t.begin, t.done} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(append(errs, t.other.Close())...)
}

func (b *bench) linkKernels() (store, load device.Function, module device.Module, err error) {
	ptx, err := kernels.LinkModule()
	if err != nil {
		return nil, nil, nil, err
	}
	if module, err = b.group.Device().LoadModule(ptx); err != nil {
		return nil, nil, nil, err
	}
	if store, err = module.Function("link_store"); err != nil {
		return nil, nil, module, err
	}
	load, err = module.Function("link_load")
	return store, load, module, err
}

// bulkLinkKernel is link_store by bulk copies.
func (b *bench) bulkLinkKernel() (device.Function, device.Module, error) {
	ptx, err := kernels.LinkBulkModule()
	if err != nil {
		return nil, nil, err
	}
	module, err := b.group.Device().LoadModule(ptx)
	if err != nil {
		return nil, nil, err
	}
	f, err := module.Function("link_bulk_store")
	return f, module, err
}

// linkRate is the rate of the slowest rank in GB/s, the best of some repeats, by
// device events.
func (b *bench) linkRate(ctx context.Context, bytes uint64, work func() error) (float64, error) {
	best := 0.0
	for range linkRepeats {
		times, err := b.eachOf(ctx, 1, func(int) error {
			for range linkLaunches {
				if err := work(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		all, err := gather(ctx, b.node, "compare links", times[0])
		if err != nil {
			return 0, err
		}
		if slowest := slices.Max(all); slowest > 0 {
			best = max(best, result.AlgBW(linkLaunches*bytes, slowest))
		}
	}
	return best, nil
}

// links records what the links were measured to carry.
func (r *record) links(rates result.LinkRates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.LinkRates = &rates
	r.run.LinkLimit = max(rates.Store, rates.BulkStore, rates.Load, rates.Copy)
	mark := ""
	if l := r.run.Label(); l != "" {
		mark = fmt.Sprintf("  [%s]", l)
	}
	bulk := ""
	if rates.BulkStore > 0 {
		bulk = fmt.Sprintf(", SM bulk stores %.1f", rates.BulkStore)
	}
	r.line("Links, every rank to the next at once, GB/s: SM stores %.1f%s, SM loads %.1f, copy engine %.1f%s", rates.Store, bulk, rates.Load, rates.Copy, mark)
}

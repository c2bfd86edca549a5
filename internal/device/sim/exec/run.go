package exec

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Config is the machine on which a kernel runs.
type Config struct {
	SMs         int // at least 1
	BlocksPerSM int // blocks resident on one SM, at least 1
	// Now gives %globaltimer in nanoseconds. nil means the system's clock.
	Now func() uint64
	// Seed varies the order in which multimem reductions take the devices, so
	// that no kernel can rely on one.
	Seed uint64
	// Stats, when not nil, gets the counts of the launch added at its end. It
	// may be shared by several launches at once.
	Stats *Stats
	// Weak, when not nil, is the memory model; nil is that of the host.
	Weak *Weak
}

// Launch is one kernel launch. Grid and block are one-dimensional.
type Launch struct {
	Grid, Block uint32
	SharedBytes uint32 // dynamic shared memory a block, in bytes
	// Args are the bytes of the parameters, each at its natural alignment.
	// len(Args) must be the kernel's ParamBytes.
	Args []byte
}

// MaxSharedBytes is the shared memory that one block may have, static and
// dynamic together: what an H200 allows (227 KiB).
const MaxSharedBytes = 227 << 10

// run is one launch under way.
type run struct {
	k      *Kernel
	space  *Space
	cfg    *Config
	l      Launch
	args   []byte
	shared int
	now    func() uint64
	done   <-chan struct{} // of the context
	stats  counts
	slice  int64  // instructions that a warp executes before others get a turn
	weak   *model // nil but in the weak memory model
}

type counts struct{ threads, issues, blocks, yields, sleeps uint64 }

// Run executes a launch and returns when every thread has ended. Errors are a
// *Fault of the kernel, ctx's cause, or what is wrong with the launch itself.
// After an error no thread of the launch runs any more.
func (k *Kernel) Run(ctx context.Context, s *Space, cfg *Config, l Launch) error {
	switch {
	case l.Grid == 0 || l.Block == 0 || l.Block > MaxThreadsPerBlock || l.Grid > 1<<31-1:
		return fmt.Errorf("launch of kernel %s: grid of %d blocks of %d threads", k.name, l.Grid, l.Block)
	case k.MaxThreads > 0 && int(l.Block) > k.MaxThreads:
		return fmt.Errorf("launch of kernel %s: %d threads a block, and it was compiled for at most %d", k.name, l.Block, k.MaxThreads)
	case len(l.Args) != k.ParamBytes:
		return fmt.Errorf("launch of kernel %s: %d bytes of arguments instead of %d", k.name, len(l.Args), k.ParamBytes)
	}
	if k.weak != (cfg.Weak != nil) {
		return fmt.Errorf("launch of kernel %s: the kernel and the machine have different memory models", k.name)
	}
	r := &run{k: k, space: s, cfg: cfg, l: l, now: cfg.Now, slice: slice}
	r.shared = max(k.SharedBytes, k.dynamicAt) + int(l.SharedBytes)
	if r.shared > MaxSharedBytes {
		return fmt.Errorf("launch of kernel %s: %d bytes of shared memory a block, and the limit is %d", k.name, r.shared, MaxSharedBytes)
	}
	if r.now == nil {
		r.now = func() uint64 { return uint64(time.Now().UnixNano()) }
	}
	r.args = alignedBytes(len(l.Args))
	copy(r.args, l.Args)
	all := r.all
	if cfg.Weak != nil {
		r.weak = newModel(cfg.Weak)
		all = r.explore
	}
	err := all(ctx)
	if st := cfg.Stats; st != nil {
		st.Instructions.Add(r.stats.threads)
		st.Issues.Add(r.stats.issues)
		st.Blocks.Add(r.stats.blocks)
		st.Yields.Add(r.stats.yields)
		st.Sleeps.Add(r.stats.sleeps)
	}
	return err
}

// alignedBytes makes n bytes aligned to 16.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([][2]uint64, (n+15)/16)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*16)[:n]
}

// all runs all blocks. As on hardware, no more blocks are resident than the
// machine has room for; the others start as room gets free, in order.
func (r *run) all(ctx context.Context) (err error) {
	sms := max(r.cfg.SMs, 1)
	room := min(uint64(sms)*uint64(max(r.cfg.BlocksPerSM, 1)), uint64(r.l.Grid))
	resident := make([]*cta, room)
	next := uint32(0)
	for i := range resident {
		resident[i] = r.takeCTA()
		resident[i].begin(next, uint32(i%sms))
		next++
	}
	defer func() {
		for _, c := range resident {
			r.count(c)
			r.giveCTA(c)
		}
		if p := recover(); p != nil {
			f, ok := p.(*Fault)
			if !ok {
				panic(p)
			}
			err = f
		}
	}()
	r.done = ctx.Done()
	idle := 0
	for len(resident) > 0 {
		worked := false
		for i := 0; i < len(resident); i++ {
			c := resident[i]
			if c.turn() {
				worked = true
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if c.live > 0 {
				continue
			}
			worked = true
			c.endCopies()
			r.stats.blocks++
			if next < r.l.Grid {
				c.begin(next, c.sm)
				next++
				continue
			}
			r.count(c)
			r.giveCTA(c)
			resident = append(resident[:i], resident[i+1:]...)
			i--
		}
		if worked {
			idle = 0
			continue
		}
		r.stats.sleeps++
		giveWay(idle)
		idle++
	}
	return nil
}

// turn gives every warp of the block its slice. It stops when the context ends,
// which the caller has to look at.
func (c *cta) turn() (worked bool) {
	stuck := true
	for i := range c.warps {
		w := &c.warps[i]
		if w.live&^w.wait == 0 {
			continue
		}
		stuck = false
		select {
		case <-c.run.done:
			return true
		default:
		}
		if w.slice(c.run.k.blocks) {
			worked = true
		}
	}
	if stuck && c.live > 0 {
		c.deadlock()
	}
	if len(c.copies) > 0 {
		c.moveCopies()
	}
	return worked
}

// deadlock reports a thread that waits at a barrier for ever.
func (c *cta) deadlock() {
	for i := range c.warps {
		w := &c.warps[i]
		for l := range uint8(warpSize) {
			if w.live>>l&1 == 0 {
				continue
			}
			b := c.run.k.blocks[w.pc[l]-1]
			w.fault(b.in, Deadlock, 0, 0, l)
		}
	}
}

// giveWay lets other goroutines and other processes run: all that this launch
// waits for is done by them, on the same few cores. It sleeps longer the longer
// nothing happened.
func giveWay(idle int) {
	runtime.Gosched()
	if idle < 8 {
		// No error is defined for sched_yield on Linux.
		syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		return
	}
	time.Sleep(min(10*time.Microsecond<<min(idle-8, 4), 100*time.Microsecond))
}

// count adds what the warps of a block counted.
func (r *run) count(c *cta) {
	for i := range c.warps {
		w := &c.warps[i]
		r.stats.issues += w.issued
		r.stats.threads += w.threads
		r.stats.yields += w.yields
		w.issued, w.threads, w.yields = 0, 0, 0
	}
}

package sim

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// stream is a queue with one worker. It implements device.Stream.
type stream struct {
	d      *gpu
	number int // of the device's streams, in order of creation

	mu        sync.Mutex
	work      sync.Cond // signalled when there is something for the worker
	ring      []op      // a ring: grows when it is full, never shrinks
	head, n   int
	enqueued  uint64
	completed uint64
	waiters   []waiter
	capturing *recording
	branch    *branch // of the recording
	closed    bool
	known     *exec.Known // what the completed work has left; weak memory model only

	running op          // the entry being executed: the worker's own
	left    *exec.Known // known, before it is completed: the worker's own
}

func (d *gpu) NewStream() (device.Stream, error) {
	var st *stream
	err := d.do("cuStreamCreate", "", func() error {
		st = &stream{d: d, number: int(d.streams.Add(1) - 1), ring: make([]op, 16)}
		st.work.L = &st.mu
		d.keep(st)
		d.work.Add(1)
		go st.serve()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// sharedBytesMax is the shared memory that a block may take, static and
// dynamic, by compute capability: that of an A100 and of an H100.
func (d *gpu) sharedBytesMax() uint64 {
	if d.info.AtLeast(9, 0) {
		return 227 << 10
	}
	return 163 << 10
}

func (st *stream) Launch(f device.Function, grid, block device.Dim, sharedBytes uint32, args []byte) error {
	const call = "cuLaunchKernel"
	err := st.d.enter(call)
	if err == nil {
		err = asDriverError(call, st.d.info.UUID, st.launch(f, grid, block, sharedBytes, args))
	}
	if st.d.s.Trace != nil {
		name := "?"
		if f != nil {
			name = f.Name()
		}
		st.d.s.trace(st.d.where, call, fmt.Sprintf("%s, grid=%d, block=%d, shared=%d, args=%d", name, grid, block, sharedBytes, len(args)), err)
	}
	return err
}

func (st *stream) launch(f device.Function, grid, block device.Dim, sharedBytes uint32, args []byte) error {
	fn, ok := f.(*function)
	switch {
	case !ok || fn.m.d != st.d:
		return refuse(device.InvalidHandle, "the function was not loaded on this device")
	case fn.m.closed.Load():
		return refuse(device.InvalidHandle, "the module of %s was closed", fn.name)
	case grid == 0 || grid > math.MaxInt32:
		return refuse(device.InvalidValue, "%s: a grid of %d blocks", fn.name, grid)
	case block == 0 || int(block) > fn.attr.MaxThreadsPerBlock:
		return refuse(device.InvalidValue, "%s: a block of %d threads, 1 to %d are possible", fn.name, block, fn.attr.MaxThreadsPerBlock)
	case uint64(fn.attr.SharedBytes)+uint64(sharedBytes) > st.d.sharedBytesMax():
		return refuse(device.InvalidValue, "%s: %d static and %d dynamic bytes of shared memory, %d are possible", fn.name, fn.attr.SharedBytes, sharedBytes, st.d.sharedBytesMax())
	case len(args) != fn.kernel.ParamBytes:
		return refuse(device.InvalidValue, "%s takes %d bytes of parameters, %d were given", fn.name, fn.kernel.ParamBytes, len(args))
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	o, err := st.slot()
	if err != nil {
		return err
	}
	buf := append(o.launch.Args[:0], args...)
	o.kind, o.kernel = opLaunch, fn.kernel
	o.launch = exec.Launch{Grid: grid, Block: block, SharedBytes: sharedBytes, Args: buf}
	st.push()
	return nil
}

func (st *stream) Copy(dst, src device.Ptr, bytes uint64) error {
	return st.enqueue("cuMemcpyDtoDAsync", fmt.Sprintf("dst=%#x, src=%#x, bytes=%d", dst, src, bytes), func(o *op) error {
		if _, err := st.d.host("destination", dst, bytes); err != nil {
			return err
		}
		if _, err := st.d.host("source", src, bytes); err != nil {
			return err
		}
		o.kind, o.dst, o.src, o.n = opCopy, uint64(dst), uint64(src), bytes
		return nil
	})
}

func (st *stream) Set32(dst device.Ptr, value uint32, n uint64) error {
	return st.enqueue("cuMemsetD32Async", fmt.Sprintf("dst=%#x, value=%#x, n=%d", dst, value, n), func(o *op) error {
		if dst%4 != 0 || n > math.MaxUint64/4 {
			return refuse(device.InvalidValue, "%d words at %#x: the address must be a multiple of 4", n, dst)
		}
		if _, err := st.d.host("destination", dst, 4*n); err != nil {
			return err
		}
		o.kind, o.dst, o.value, o.n = opSet, uint64(dst), value, n
		return nil
	})
}

func (st *stream) Record(e device.Event) error {
	return st.d.do("cuEventRecord", "", func() error {
		ev, err := st.d.event(e)
		if err != nil {
			return err
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.closed {
			return refuse(device.InvalidHandle, "the stream was closed")
		}
		if st.capturing != nil {
			return ev.recordInto(&mark{st.capturing, st.branch.after})
		}
		o, err := st.slot()
		if err != nil {
			return err
		}
		if o.moment, err = ev.expect(); err != nil {
			return err
		}
		o.kind, o.event = opRecord, ev
		st.push()
		return nil
	})
}

func (st *stream) WaitEvent(e device.Event) error {
	return st.d.do("cuStreamWaitEvent", "", func() error {
		ev, err := st.d.event(e)
		if err != nil {
			return err
		}
		moment, m, err := ev.stands()
		if err != nil {
			return err
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		switch {
		case st.closed:
			return refuse(device.InvalidHandle, "the stream was closed")
		case m == nil && st.capturing != nil && moment != nil:
			return refuse(device.CaptureIsolation, "the event was recorded outside the graph that the stream is recording")
		case m == nil && moment == nil:
			return nil
		case m == nil:
			o, err := st.slot()
			if err != nil {
				return err
			}
			o.kind, o.moment = opWait, moment
			st.push()
			return nil
		case st.capturing == nil:
			m.in.join(st)
		case st.capturing != m.in:
			return refuse(device.CaptureMerge, "the event belongs to another recording than the stream")
		}
		st.branch.after = append(slices.Clip(st.branch.after), m.after...)
		return nil
	})
}

// Capturing implements device.Stream.
func (st *stream) Capturing() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.capturing != nil && st.capturing.origin == st
}

func (st *stream) LaunchGraph(g device.Graph) error {
	return st.enqueue("cuGraphLaunch", "", func(o *op) error {
		gr, ok := g.(*graph)
		switch {
		case !ok || gr.d != st.d:
			return refuse(device.InvalidHandle, "the graph is not of this device")
		case gr.closed.Load():
			return refuse(device.InvalidHandle, "the graph was closed")
		case st.capturing != nil:
			return refuse(device.NotSupported, "a graph inside a graph")
		}
		o.kind, o.graph = opGraph, gr
		return nil
	})
}

// enqueue runs a call that fills one entry of the queue.
func (st *stream) enqueue(call, args string, fill func(*op) error) error {
	return st.d.do(call, args, func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		o, err := st.slot()
		if err != nil {
			return err
		}
		if err := fill(o); err != nil {
			return err
		}
		st.push()
		return nil
	})
}

// slot gives the entry that push will add: the next one of the ring, or of the
// graph that is being recorded. st.mu is held.
func (st *stream) slot() (*op, error) {
	if st.closed {
		return nil, refuse(device.InvalidHandle, "the stream was closed")
	}
	if st.capturing != nil {
		st.branch.next = op{}
		return &st.branch.next, nil
	}
	if st.n == len(st.ring) {
		bigger := make([]op, 2*len(st.ring))
		for i := range st.n {
			bigger[i] = st.ring[(st.head+i)%len(st.ring)]
		}
		st.ring, st.head = bigger, 0
	}
	return &st.ring[(st.head+st.n)%len(st.ring)], nil
}

func (st *stream) push() {
	if st.capturing != nil {
		st.capturing.add(st.branch)
		return
	}
	if st.d.s.Weak() {
		st.ring[(st.head+st.n)%len(st.ring)].known = st.d.s.history.HostsKnow()
	}
	st.n++
	st.enqueued++
	st.work.Signal()
}

// serve executes the queue until the stream is closed and empty.
func (st *stream) serve() {
	defer st.d.work.Done()
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		for st.n == 0 && !st.closed {
			st.work.Wait()
		}
		if st.n == 0 {
			return
		}
		// Swapped, not copied: each entry keeps a buffer for arguments.
		e := &st.ring[st.head]
		*e, st.running = st.running, *e
		st.head = (st.head + 1) % len(st.ring)
		st.n--
		st.mu.Unlock()
		st.execute(&st.running)
		st.mu.Lock()
		st.completed++
		st.known = st.left
		left := st.waiters[:0]
		for _, w := range st.waiters {
			if w.target <= st.completed {
				close(w.done)
			} else {
				left = append(left, w)
			}
		}
		st.waiters = left
	}
}

// Close ends the stream. Work that was enqueued is still done.
func (st *stream) Close() error {
	return st.d.do("cuStreamDestroy", "", func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if !st.closed {
			st.end()
		}
		return nil
	})
}

// end lets the worker finish. st.mu is held.
func (st *stream) end() {
	st.closed = true
	st.work.Signal()
	st.d.drop(st)
}

func (st *stream) abandon() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.end()
	}
	return nil
}

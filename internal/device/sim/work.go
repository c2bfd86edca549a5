package sim

import (
	"errors"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// opKind is what an entry of a stream's queue does.
type opKind uint8

const (
	opLaunch opKind = iota
	opCopy
	opSet
	opRecord
	opWait
	opGraph
)

// op is one piece of work. Its args buffer is kept when the entry is reused,
// so that a launch allocates nothing.
type op struct {
	kind   opKind
	kernel *exec.Kernel
	launch exec.Launch // Args is the op's own copy
	dst    uint64
	src    uint64
	n      uint64 // bytes, or words of a set
	value  uint32
	event  *event
	moment *moment     // of a record or a wait
	known  *exec.Known // what the hosts knew when it was enqueued
	graph  *graph
	branch int   // in a graph: which one this is a part of
	after  []int // in a graph: pieces of work that must be done before
}

// lane does work one piece after the other: a stream's worker for one entry of
// its queue, or a branch of a graph.
type lane struct {
	d      *gpu
	seat   *exec.Seat // in the conductor's round; nil without one
	number int        // of the stream, and of the branch counted from there
	// known is what the work has left that the next piece comes behind. Weak memory
	// model only.
	known *exec.Known
}

// execute does one entry of a stream's queue.
func (st *stream) execute(o *op) {
	d := st.d
	switch o.kind {
	case opRecord:
		o.event.reach(o.moment, st.left)
		o.event, o.moment = nil, nil
		return
	case opWait:
		select {
		case <-o.moment.reached:
			st.left = st.left.Join(o.moment.known)
		case <-d.ctx.Done():
		}
		o.moment = nil
		return
	}
	l := lane{d: d, number: st.number, known: st.left.Join(o.known)}
	o.known = nil
	if d.s.Conductor != nil && (o.kind == opLaunch || o.kind == opGraph) && !d.lost() {
		seat, err := d.s.Conductor.Sit(d.ctx, d.ordinal)
		if err != nil {
			d.kernelFailed(err)
			return
		}
		l.seat = seat
		defer seat.Leave()
	}
	l.execute(o)
	st.left = l.known
}

// lost reports whether the device does no more work: queues then still empty.
func (d *gpu) lost() bool { return d.sticky.Load() != nil || d.ctx.Err() != nil }

// execute does one piece of work.
func (l *lane) execute(o *op) {
	d := l.d
	if d.lost() {
		return
	}
	switch o.kind {
	case opLaunch:
		d.refresh()
		if err := l.launchKernel(o); err != nil {
			d.kernelFailed(err)
		}
	case opCopy:
		if err := l.copy(o.dst, o.src, o.n); err != nil {
			d.workFailed("cuMemcpyDtoDAsync", device.IllegalAddress, err)
		}
	case opSet:
		if err := l.set32(o.dst, o.value, o.n); err != nil {
			d.workFailed("cuMemsetD32Async", device.IllegalAddress, err)
		}
	case opGraph:
		g := o.graph
		o.graph = nil
		l.run(g)
	}
}

// faultCodes are the codes that hardware gives for the faults of a kernel.
var faultCodes = map[exec.Kind]device.Code{
	exec.IllegalAddress:    device.IllegalAddress,
	exec.Misaligned:        device.MisalignedAddr,
	exec.PlainOnMulticast:  device.InvalidAddrSpace,
	exec.MultimemOnUnicast: device.InvalidAddrSpace,
	exec.MulticastUnbound:  device.IllegalAddress,
	exec.WrongSpace:        device.InvalidAddrSpace,
	exec.Trap:              device.LaunchFailed,
	exec.Deadlock:          device.LaunchFailed,
}

// kernelFailed makes the error of a kernel the device's, unless the device was
// closed under it.
func (d *gpu) kernelFailed(err error) {
	if errors.Is(err, errClosed) {
		return
	}
	code := device.LaunchFailed
	var f *exec.Fault
	if errors.As(err, &f) {
		if c, ok := faultCodes[f.Kind]; ok {
			code = c
		}
	}
	d.workFailed("cuLaunchKernel", code, err)
}

func (d *gpu) workFailed(call string, code device.Code, err error) {
	d.fail(&device.Error{Call: call, Code: code, Name: nameOf(code), Text: err.Error(), Device: d.info.UUID})
}

// copy moves bytes inside the address space. The ranges may not overlap.
func (l *lane) copy(dst, src, bytes uint64) error {
	d := l.d
	to, err := d.space.Host(dst, bytes)
	if err != nil {
		return err
	}
	from, err := d.space.Host(src, bytes)
	if err != nil {
		return err
	}
	var c *exec.Copy
	if d.s.Weak() {
		c = l.newCopy()
	}
	for len(to) > 0 && len(from) > 0 {
		var n int
		if c != nil {
			if n, err = l.weakCopy(c, to[0], from[0]); err != nil {
				return err
			}
		} else {
			n = copy(to[0], from[0])
		}
		if to[0] = to[0][n:]; len(to[0]) == 0 {
			to = to[1:]
		}
		if from[0] = from[0][n:]; len(from[0]) == 0 {
			from = from[1:]
		}
	}
	if c != nil {
		l.known = c.End()
	}
	return nil
}

// set32 fills n words. Addresses are multiples of 4, and so is every part.
func (l *lane) set32(dst uint64, value uint32, n uint64) error {
	parts, err := l.d.space.Host(dst, 4*n)
	if err != nil {
		return err
	}
	if l.d.s.Weak() {
		return l.weakSet(parts, value)
	}
	for _, p := range parts {
		words := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/4)
		for i := range words {
			words[i] = value
		}
	}
	return nil
}

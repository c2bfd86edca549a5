package devicetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// patience bounds every wait of the suite for work that is expected to end.
const patience = 20 * time.Second

// failed is what the helpers of a rank panic with; the runner makes it an error.
type failed struct{ err error }

// rank is one participant of a test: its device and its way to the others.
// Its helpers end the rank's part on failure, by panic, because ranks run in
// goroutines where testing's FailNow must not be called.
type rank struct {
	device.Device
	number, size int
	link         link
	granule      uint64
}

// play runs a rank's part and gives what went wrong in it.
func (r *rank) play(part func(*rank)) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			err = fmt.Errorf("rank %d: %w", r.number, p.err)
		default:
			panic(p)
		}
	}()
	granule, err := r.Granularity()
	if err != nil {
		return err
	}
	r.granule = granule
	part(r)
	return nil
}

func (r *rank) failf(format string, args ...any) { panic(failed{fmt.Errorf(format, args...)}) }

// ok ends the part if err is not nil.
func (r *rank) ok(err error, what string, args ...any) {
	if err != nil {
		r.failf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// refused ends the part unless err is a driver error, with one of the codes if
// any are given.
func (r *rank) refused(err error, what string, codes ...device.Code) {
	got, isDriver := device.CodeOf(err)
	switch {
	case err == nil:
		r.failf("%s was accepted", what)
	case !isDriver:
		r.failf("%s: the error is no *device.Error: %v", what, err)
	case len(codes) != 0:
		for _, c := range codes {
			if c == got {
				return
			}
		}
		r.failf("%s: code %d is none of %v: %v", what, got, codes, err)
	}
}

// alloc makes memory and maps it; the pieces are given back by free.
func (r *rank) alloc(bytes uint64) (device.Memory, device.Ptr) {
	m, err := r.Alloc(bytes)
	r.ok(err, "Alloc(%d)", bytes)
	return m, r.mapped(m)
}

func (r *rank) mapped(m interface{ Map() (device.Ptr, error) }) device.Ptr {
	p, err := m.Map()
	r.ok(err, "Map")
	return p
}

func (r *rank) free(ms ...device.Memory) {
	for _, m := range ms {
		r.ok(m.Unmap(), "Unmap")
		r.ok(m.Close(), "Close of memory")
	}
}

func (r *rank) write(at device.Ptr, words []uint32) {
	r.ok(r.CopyToDevice(at, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))), "CopyToDevice")
}

func (r *rank) read(at device.Ptr, n int) []uint32 {
	b := make([]byte, 4*n)
	r.ok(r.CopyToHost(b, at), "CopyToHost")
	words := make([]uint32, n)
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return words
}

// expect compares n words of device memory with what want gives.
func (r *rank) expect(what string, at device.Ptr, n int, want func(i uint32) uint32) {
	for i, got := range r.read(at, n) {
		if w := want(uint32(i)); got != w {
			r.failf("%s: word %d is %d, expected %d", what, i, got, w)
		}
	}
}

func (r *rank) stream() device.Stream {
	s, err := r.NewStream()
	r.ok(err, "NewStream")
	return s
}

func (r *rank) function(ptx, name string) device.Function {
	m, err := r.LoadModule(ptx)
	r.ok(err, "LoadModule")
	f, err := m.Function(name)
	r.ok(err, "Function(%s)", name)
	return f
}

func (r *rank) portable(name string) device.Function { return r.function(portablePTX, name) }

func (r *rank) launch(s device.Stream, f device.Function, grid, block uint32, args []byte) {
	r.ok(s.Launch(f, grid, block, 0, args), "Launch of %s", f.Name())
}

func (r *rank) wait(s device.Stream) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the device did not finish in time"))
	defer cancel()
	r.ok(s.Wait(ctx), "Wait")
}

// ramp is n words: start, start+1, ...
func ramp(start uint32, n int) []uint32 {
	words := make([]uint32, n)
	for i := range words {
		words[i] = start + uint32(i)
	}
	return words
}

package sim

import (
	"sync"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// event is a moment in a stream, in real time. It implements device.Event.
type event struct {
	d *gpu

	mu      sync.Mutex
	at      time.Time // of the latest record that was reached
	known   *exec.Known
	pending int     // records that were not
	latest  *moment // of the latest record
	mark    *mark   // of the latest record, when that was into a graph
	closed  bool
}

// moment is a record of an event on a stream.
type moment struct {
	reached chan struct{} // closed when it is
	known   *exec.Known   // what the work before it has left
}

func (d *gpu) NewEvent() (device.Event, error) {
	e := &event{d: d}
	if err := d.do("cuEventCreate", "", func() error { return nil }); err != nil {
		return nil, err
	}
	return e, nil
}

// event is e, if it is one of this device.
func (d *gpu) event(e device.Event) (*event, error) {
	ev, ok := e.(*event)
	if !ok || ev.d != d {
		return nil, refuse(device.InvalidHandle, "the event is not of this device")
	}
	return ev, nil
}

// expect counts a record that was enqueued and gives what is closed when it is
// reached.
func (e *event) expect() (*moment, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, refuse(device.InvalidHandle, "the event was closed")
	}
	e.pending++
	e.latest, e.mark = &moment{reached: make(chan struct{})}, nil
	return e.latest, nil
}

// recordInto makes the event stand for work of a graph.
func (e *event) recordInto(m *mark) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return refuse(device.InvalidHandle, "the event was closed")
	}
	e.mark = m
	return nil
}

// stands tells what the event stands for: a moment of a stream, work of a graph
// that is being recorded, or nothing yet.
func (e *event) stands() (*moment, *mark, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, refuse(device.InvalidHandle, "the event was closed")
	}
	if e.mark == nil {
		return e.latest, nil, nil
	}
	r := e.mark.in
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, nil, refuse(device.CapturedEvent, "the event was recorded into a graph that is complete")
	}
	return nil, e.mark, nil
}

// reach takes the time. known is what the work before the moment has left.
func (e *event) reach(m *moment, known *exec.Known) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = time.Now()
	e.pending--
	m.known, e.known = known, known
	close(m.reached)
}

// time gives the event's time, if it has one.
func (e *event) time() (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return time.Time{}, refuse(device.InvalidHandle, "the event was closed")
	case e.mark != nil:
		return time.Time{}, refuse(device.CapturedEvent, "an event inside a graph has no time")
	case e.pending != 0:
		return time.Time{}, refuse(device.NotReady, "the event was not reached yet")
	case e.at.IsZero():
		return time.Time{}, refuse(device.InvalidHandle, "the event was never recorded")
	}
	e.d.synchronized(e.known)
	return e.at, nil
}

func (e *event) Since(earlier device.Event) (elapsed time.Duration, err error) {
	err = e.d.do("cuEventElapsedTime", "", func() error {
		from, ok := earlier.(*event)
		if !ok || from.d != e.d {
			return refuse(device.InvalidHandle, "the earlier event is not of this device")
		}
		start, err := from.time()
		if err != nil {
			return err
		}
		end, err := e.time()
		if err != nil {
			return err
		}
		elapsed = end.Sub(start)
		return nil
	})
	return elapsed, err
}

func (e *event) Close() error {
	return e.d.do("cuEventDestroy", "", func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.closed = true
		return nil
	})
}

package sim

import (
	"sync"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// event is a moment in a stream, in real time. It implements device.Event.
type event struct {
	d *gpu

	mu      sync.Mutex
	at      time.Time // of the latest record that was reached
	pending int       // records that were not
	closed  bool
}

func (d *gpu) NewEvent() (device.Event, error) {
	e := &event{d: d}
	if err := d.do("cuEventCreate", "", func() error { return nil }); err != nil {
		return nil, err
	}
	return e, nil
}

// expect counts a record that was enqueued.
func (e *event) expect() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return refuse(device.InvalidHandle, "the event was closed")
	}
	e.pending++
	return nil
}

// reach takes the time.
func (e *event) reach() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = time.Now()
	e.pending--
}

// moment gives the event's time, if it has one.
func (e *event) moment() (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return time.Time{}, refuse(device.InvalidHandle, "the event was closed")
	case e.pending != 0:
		return time.Time{}, refuse(device.NotReady, "the event was not reached yet")
	case e.at.IsZero():
		return time.Time{}, refuse(device.InvalidHandle, "the event was never recorded")
	}
	return e.at, nil
}

func (e *event) Since(earlier device.Event) (elapsed time.Duration, err error) {
	err = e.d.do("cuEventElapsedTime", "", func() error {
		from, ok := earlier.(*event)
		if !ok || from.d != e.d {
			return refuse(device.InvalidHandle, "the earlier event is not of this device")
		}
		start, err := from.moment()
		if err != nil {
			return err
		}
		end, err := e.moment()
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

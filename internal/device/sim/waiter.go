package sim

import (
	"context"
	"errors"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// waiter is a call of Wait: its channel is closed when so much is completed.
type waiter struct {
	target uint64
	done   chan struct{}
}

func (st *stream) Query() (done bool, err error) {
	err = st.d.do("cuStreamQuery", "", func() error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if err := st.usable(); err != nil {
			return err
		}
		if done = st.completed == st.enqueued; done {
			st.d.synchronized(st.known)
		}
		return nil
	})
	if e := st.d.sticky.Load(); e != nil {
		return false, e
	}
	return done, err
}

func (st *stream) Wait(ctx context.Context) error {
	const call = "cuStreamSynchronize"
	err := st.d.enter(call)
	if err == nil {
		err = asWaitError(call, st.d.info.UUID, st.wait(ctx))
	}
	if e := st.d.sticky.Load(); e != nil {
		err = e
	}
	st.d.s.trace(st.d.where, call, "", err)
	return err
}

func (st *stream) wait(ctx context.Context) error {
	st.mu.Lock()
	if err := st.usable(); err != nil {
		st.mu.Unlock()
		return err
	}
	if st.completed == st.enqueued {
		st.d.synchronized(st.known)
		st.mu.Unlock()
		return nil
	}
	w := waiter{target: st.enqueued, done: make(chan struct{})}
	st.waiters = append(st.waiters, w)
	st.mu.Unlock()
	select {
	case <-w.done:
		if st.d.ctx.Err() != nil {
			return refuse(device.InvalidHandle, "the device was closed")
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		st.d.synchronized(st.known)
		return nil
	case <-ctx.Done():
		st.mu.Lock()
		defer st.mu.Unlock()
		for i := range st.waiters {
			if st.waiters[i].done == w.done {
				st.waiters = append(st.waiters[:i], st.waiters[i+1:]...)
				break
			}
		}
		return &waitEnded{context.Cause(ctx)}
	}
}

// usable says whether the stream can be waited for. st.mu is held.
func (st *stream) usable() error {
	switch {
	case st.closed:
		return refuse(device.InvalidHandle, "the stream was closed")
	case st.capturing != nil:
		return refuse(device.IllegalState, "the stream is recording a graph")
	}
	return nil
}

// waitEnded carries the cause of a context out of wait; it is no driver error.
type waitEnded struct{ cause error }

func (w *waitEnded) Error() string { return w.cause.Error() }

// asWaitError is asDriverError, but for the end of the caller's context.
func asWaitError(call string, uuid device.UUID, err error) error {
	var w *waitEnded
	if errors.As(err, &w) {
		return w.cause
	}
	return asDriverError(call, uuid, err)
}

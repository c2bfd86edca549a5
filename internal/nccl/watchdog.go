package nccl

import (
	"sync"
	"sync/atomic"
	"time"
)

// watchdog reports a call that does not return. NCCL's all-reduce call itself
// may wait for other ranks, when it connects them, and has no deadline. Being
// watched costs a call two additions and no clock.
type watchdog struct {
	calls atomic.Uint64 // odd while a call is in progress
	end   chan struct{}
	once  sync.Once
}

// looks is how often the watchdog looks within its deadline.
const looks = 8

// watch calls bark once, when one call has been in progress for about after.
func watch(after time.Duration, bark func()) *watchdog {
	w := &watchdog{end: make(chan struct{})}
	go func() {
		tick := time.NewTicker(max(after/looks, time.Millisecond))
		defer tick.Stop()
		last, same := uint64(0), 0
		for {
			select {
			case <-w.end:
				return
			case <-tick.C:
			}
			n := w.calls.Load()
			if n%2 == 0 || n != last {
				last, same = n, 0
				continue
			}
			if same++; same == looks {
				bark()
				return
			}
		}
	}()
	return w
}

func (w *watchdog) enter() { w.calls.Add(1) }
func (w *watchdog) leave() { w.calls.Add(1) }
func (w *watchdog) stop()  { w.once.Do(func() { close(w.end) }) }

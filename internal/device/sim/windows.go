package sim

import (
	"sort"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// windows hands out device addresses. A range is given again as late as
// possible, and an unmapped granule lies behind every range, so that a stale
// or overrun address faults.
type windows struct {
	base, end, next uint64
	taken           []mapped // by address
}

// reserve finds bytes, a multiple of Granule, of unused addresses.
func (w *windows) reserve(bytes uint64) (uint64, error) {
	for _, from := range []uint64{w.next, w.base} {
		if at, ok := w.find(from, bytes); ok {
			i := sort.Search(len(w.taken), func(i int) bool { return w.taken[i].at > at })
			w.taken = append(w.taken, mapped{})
			copy(w.taken[i+1:], w.taken[i:])
			w.taken[i] = mapped{at, bytes}
			w.next = at + bytes + Granule
			return at, nil
		}
	}
	return 0, refuse(device.OutOfMemory, "no free range of %d bytes among the device addresses", bytes)
}

// find gives the first gap from an address on that holds bytes and a guard.
func (w *windows) find(from, bytes uint64) (uint64, bool) {
	if bytes > w.end-w.base {
		return 0, false
	}
	at := from
	for _, m := range w.taken {
		if m.at+m.bytes+Granule <= at {
			continue
		}
		if at+bytes+Granule <= m.at {
			break
		}
		at = m.at + m.bytes + Granule
	}
	return at, at+bytes+Granule <= w.end
}

// release gives a range back.
func (w *windows) release(at uint64) {
	for i, m := range w.taken {
		if m.at == at {
			w.taken = append(w.taken[:i], w.taken[i+1:]...)
			return
		}
	}
}

package exec

import (
	"sync/atomic"
	"unsafe"
)

// order is the memory semantics of an access.
type order uint8

const (
	weak order = iota
	relaxed
	acquire
	release
	acquireRelease
	volatile // as relaxed, and never merged
)

// scope is the set of threads towards which a strong access is strong.
type scope uint8

const (
	scopeNone scope = iota
	scopeCTA
	scopeCluster
	scopeGPU
	scopeSystem
)

// access says how one element is read or written. Every touch of device memory
// by a kernel goes through load, store, update and fence with one of these (the
// fast paths of load.go and store.go do what load and store do), so that another
// memory model has one place to go.
//
// On the host all of them are at least as strong as PTX asks: accesses of 4 and
// 8 bytes are single atomic accesses, those of 16 are two of 8. A relaxed store
// promises no order and only has to be whole, which an aligned plain store is
// on every 64-bit host; Go's atomic store would be a full fence for each.
type access struct {
	order order
	scope scope
	width uint8 // bytes: 1, 2, 4, 8
}

func load(p unsafe.Pointer, a access) uint64 {
	if a.order == weak {
		switch a.width {
		case 1:
			return uint64(*(*uint8)(p))
		case 2:
			return uint64(*(*uint16)(p))
		case 4:
			return uint64(*(*uint32)(p))
		}
		return *(*uint64)(p)
	}
	switch a.width {
	case 1:
		// The host has no narrower atomic load than 4 bytes in Go; the aligned
		// word around it is as good.
		word, shift := around(p)
		return uint64(uint8(atomic.LoadUint32(word) >> shift))
	case 2:
		word, shift := around(p)
		return uint64(uint16(atomic.LoadUint32(word) >> shift))
	case 4:
		return uint64(atomic.LoadUint32((*uint32)(p)))
	}
	return atomic.LoadUint64((*uint64)(p))
}

func store(p unsafe.Pointer, a access, v uint64) {
	if a.order <= relaxed {
		switch a.width {
		case 1:
			*(*uint8)(p) = uint8(v)
		case 2:
			*(*uint16)(p) = uint16(v)
		case 4:
			*(*uint32)(p) = uint32(v)
		default:
			*(*uint64)(p) = v
		}
		return
	}
	switch a.width {
	case 1, 2:
		m := uint32(maskOf(int(a.width) * 8))
		word, shift := around(p)
		for {
			old := atomic.LoadUint32(word)
			if atomic.CompareAndSwapUint32(word, old, old&^(m<<shift)|uint32(v)&m<<shift) {
				return
			}
		}
	case 4:
		atomic.StoreUint32((*uint32)(p), uint32(v))
	default:
		atomic.StoreUint64((*uint64)(p), v)
	}
}

// around gives the aligned word in which a narrow element lies.
func around(p unsafe.Pointer) (*uint32, uint) {
	in := uintptr(p) & 3
	return (*uint32)(unsafe.Add(p, -int(in))), uint(in) * 8
}

// load16 and store16 move 16 bytes as two accesses of 8, each of them whole,
// whatever the order: PTX promises no more for a vector.

func load16(p unsafe.Pointer, _ access) (x, y uint64) {
	return atomic.LoadUint64((*uint64)(p)), atomic.LoadUint64((*uint64)(unsafe.Add(p, 8)))
}

func store16(p unsafe.Pointer, a access, x, y uint64) {
	if a.order <= relaxed {
		*(*uint64)(p), *(*uint64)(unsafe.Add(p, 8)) = x, y
		return
	}
	atomic.StoreUint64((*uint64)(p), x)
	atomic.StoreUint64((*uint64)(unsafe.Add(p, 8)), y)
}

// update replaces the value at p by f of it, atomically, and returns what was
// there. The width is 4 or 8.
func update(p unsafe.Pointer, a access, f func(old uint64) uint64) uint64 {
	if a.width == 4 {
		q := (*uint32)(p)
		for {
			old := atomic.LoadUint32(q)
			if atomic.CompareAndSwapUint32(q, old, uint32(f(uint64(old)))) {
				return uint64(old)
			}
		}
	}
	q := (*uint64)(p)
	for {
		old := atomic.LoadUint64(q)
		if atomic.CompareAndSwapUint64(q, old, f(old)) {
			return old
		}
	}
}

// add is update with an integer addition.
func add(p unsafe.Pointer, a access, v uint64) uint64 {
	if a.width == 4 {
		return uint64(atomic.AddUint32((*uint32)(p), uint32(v)) - uint32(v))
	}
	return atomic.AddUint64((*uint64)(p), v) - v
}

// exchange stores v and returns what was there.
func exchange(p unsafe.Pointer, a access, v uint64) uint64 {
	if a.width == 4 {
		return uint64(atomic.SwapUint32((*uint32)(p), uint32(v)))
	}
	return atomic.SwapUint64((*uint64)(p), v)
}

// fence orders everything before it in the warp before everything behind it.
func (w *warp) fence(order, scope) { atomic.AddUint32(&w.fenced, 1) }

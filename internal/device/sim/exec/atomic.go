package exec

import (
	"sync/atomic"
	"unsafe"
)

var atomOrders = map[string]order{"relaxed": relaxed, "acquire": acquire, "release": release, "acq_rel": acquireRelease}

// compileAtom compiles atom and red.
func compileAtom(b *build) {
	dst := -1
	args := b.in.Args
	if b.in.Op == "atom" {
		b.args(3, 4)
		args = args[1:]
	} else {
		b.args(2, 2)
	}
	t := b.typ()
	op := b.oneOf("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
	noftz := b.take("noftz")
	m := b.memory(&args[0], atomOrders, relaxed)
	if m.acc.scope == scopeNone {
		m.acc.scope = scopeGPU
	}
	if m.space != global && m.space != shared && m.space != generic {
		b.refuse("state space")
	}
	if (t.bits != 32 && t.bits != 64) || (noftz != t.half()) {
		b.refuse("type .%s", t.name)
	}
	m.acc.width = uint8(t.bits / 8)
	m.bytes = t.bits / 8
	if (op == "cas") != (len(args) == 3) || b.in.Op == "red" && (op == "exch" || op == "cas") {
		b.refuse("operands of .%s", op)
	}
	f := b.atomicOp(op, t)
	src := b.value(&args[1], t.bits, false)
	cas := -1
	if op == "cas" {
		cas = b.value(&args[2], t.bits, false)
	}
	if b.in.Op == "atom" {
		dst = b.dst(0, t.bits)
		m.spin = b.c.newSpin()
	}
	b.noteShared(m)
	model := b.c.weak && m.isGlobal()
	b.emit(func(w *warp) {
		a, x := &w.r[m.base], &w.r[src]
		var sum, first uint64
		for i, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			if i == 0 {
				first = addr
			}
			p := w.at(m, addr, l)
			var old uint64
			v := x[l]
			switch {
			case model && !m.inWindow(addr):
				old = w.weakAtom(p, m.acc, l, func(old uint64) (uint64, bool) {
					switch {
					case f != nil:
						return f(old, v), true
					case op == "add":
						return old + v, true
					case op == "cas":
						return w.r[cas][l], old == v
					}
					return v, true // exch
				})
			case op == "add":
				if f == nil {
					old = add(p, m.acc, v)
				} else {
					old = update(p, m.acc, func(old uint64) uint64 { return f(old, v) })
				}
			case op == "exch":
				old = exchange(p, m.acc, v)
			case op == "cas":
				old = compareAndSwap(p, m.acc, v, w.r[cas][l])
			default:
				old = update(p, m.acc, func(old uint64) uint64 { return f(old, v) })
			}
			sum = sum*31 + old
			if dst >= 0 {
				w.r[dst][l] = old
			}
		}
		if m.spin >= 0 {
			w.noteSpin(m.spin, first, sum)
		}
	})
	b.endSpin(m)
}

// compareAndSwap stores v if cmp is there, and returns what was there.
func compareAndSwap(p unsafe.Pointer, a access, cmp, v uint64) uint64 {
	for {
		old := load(p, access{order: relaxed, width: a.width})
		if old != cmp {
			return old
		}
		if a.width == 4 && atomic.CompareAndSwapUint32((*uint32)(p), uint32(cmp), uint32(v)) ||
			a.width == 8 && atomic.CompareAndSwapUint64((*uint64)(p), cmp, v) {
			return cmp
		}
	}
}

// atomicOp gives the function of a read-modify-write; nil for integer add, exch
// and cas, which have their own.
func (b *build) atomicOp(op string, t typ) func(old, v uint64) uint64 {
	switch op {
	case "exch", "cas":
		if t.class == classBits {
			return nil
		}
	case "add":
		if t.class == classUnsigned || t.name == "s32" {
			return nil
		}
		if t.isFloat() {
			return floatAdd(t)
		}
	case "min", "max":
		if t.class == classUnsigned || t.class == classSigned {
			return integerMinMax(op, t)
		}
	case "and", "or", "xor":
		if t.class == classBits {
			return bitOps[op]
		}
	case "inc", "dec":
		if t.name == "u32" {
			if op == "inc" {
				return func(old, v uint64) uint64 {
					if old >= v {
						return 0
					}
					return old + 1
				}
			}
			return func(old, v uint64) uint64 {
				if old == 0 || old > v {
					return v
				}
				return old - 1
			}
		}
	}
	b.refuse("operation .%s on type .%s", op, t.name)
	return nil
}

var bitOps = map[string]func(a, b uint64) uint64{
	"and": func(a, b uint64) uint64 { return a & b },
	"or":  func(a, b uint64) uint64 { return a | b },
	"xor": func(a, b uint64) uint64 { return a ^ b },
}

// compileFence compiles fence and membar.
func compileFence(b *build) {
	b.args(0, 0)
	if b.take("proxy") {
		b.proxyFence()
		return
	}
	o, s := acquireRelease, scopeSystem
	if b.in.Op == "membar" {
		if b.oneOf("cta", "gl", "sys") == "" {
			b.refuse("level")
		}
	} else {
		b.oneOf("sc", "acq_rel")
		switch b.oneOf("cta", "cluster", "gpu", "sys") {
		case "":
			b.refuse("scope is missing")
		case "cta":
			s = scopeCTA
		case "cluster":
			s = scopeCluster
		case "gpu":
			s = scopeGPU
		}
	}
	if b.c.weak {
		b.emit(func(w *warp) { w.weakFence(s) })
		return
	}
	b.emit(func(w *warp) { w.fence(o, s) })
}

// proxyFence compiles fence.proxy. Of proxies the memory model knows the async
// one only.
func (b *build) proxyFence() {
	if b.in.Op != "fence" {
		b.refuse("modifier .proxy")
	}
	sharedToo, globalToo := false, false
	switch b.oneOf("alias", "async") {
	case "alias":
	case "async":
		b.needs(90, 80)
		space := b.oneOf("global", "shared::cta")
		sharedToo, globalToo = space != "global", space != "shared::cta"
	default:
		b.refuse("kind of proxy")
	}
	if b.c.weak {
		b.emit(func(w *warp) { w.fenceProxy(sharedToo, globalToo) })
		return
	}
	b.emit(func(w *warp) { w.fence(acquireRelease, scopeSystem) })
}

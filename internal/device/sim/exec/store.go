package exec

import "unsafe"

// compileStore compiles st.
func compileStore(b *build) {
	b.args(2, 2)
	t := b.typ()
	n := b.vector()
	m := b.plainMemory(b.arg(0), storeOrders)
	m.acc.width = uint8(t.bits / 8)
	m.bytes = n * t.bits / 8
	if t.lanes > 1 || t.bits < 8 || m.bytes > 16 || m.space == param {
		b.refuse("type .%s or state space", t.name)
	}
	var src []int
	for _, o := range b.elements(b.arg(1), n) {
		src = append(src, b.value(&o, t.bits, true))
	}
	b.noteShared(m)
	if b.c.weak && m.isGlobal() {
		b.emit(weakStore(m, src, t.bits))
		return
	}
	if m.acc.order <= relaxed && (m.space == global || m.space == generic) && m.bytes == 16 && n == 4 {
		b.emit(storeFast(m, src))
		return
	}
	if m.acc.order <= relaxed && (m.space == global || m.space == generic) && n == 1 && t.bits >= 32 {
		b.emit(storeOne(m, src[0]))
		return
	}
	b.emit(storeAny(m, src, t.bits))
}

func storeFast(m *memOp, src []int) step {
	s0, s1, s2, s3 := src[0], src[1], src[2], src[3]
	return func(w *warp) {
		a, r0, r1, r2, r3 := &w.r[m.base], &w.r[s0], &w.r[s1], &w.r[s2], &w.r[s3]
		number, start := uint64(1<<64-1), unsafe.Pointer(nil)
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			var p unsafe.Pointer
			if addr>>PageShift == number && addr&15 == 0 {
				p = unsafe.Add(start, addr&pageMask)
			} else if addr < WindowEnd || addr&15 != 0 {
				p = w.at(m, addr, l)
			} else {
				number, start = addr>>PageShift, w.pageAt(m, addr, l)
				p = unsafe.Add(start, addr&pageMask)
			}
			store16(p, m.acc, r0[l]&0xffffffff|r1[l]<<32, r2[l]&0xffffffff|r3[l]<<32)
		}
	}
}

// storeOne writes 4 or 8 bytes.
func storeOne(m *memOp, src int) step {
	low := uint64(m.bytes - 1)
	return func(w *warp) {
		a, r := &w.r[m.base], &w.r[src]
		number, start := uint64(1<<64-1), unsafe.Pointer(nil)
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			if addr>>PageShift != number || addr&low != 0 {
				if addr < WindowEnd || addr&low != 0 {
					store(w.at(m, addr, l), m.acc, r[l])
					continue
				}
				number, start = addr>>PageShift, w.pageAt(m, addr, l)
			}
			if p := unsafe.Add(start, addr&pageMask); low == 3 {
				*(*uint32)(p) = uint32(r[l])
			} else {
				*(*uint64)(p) = r[l]
			}
		}
	}
}

func storeAny(m *memOp, src []int, bits int) step {
	pair := len(src) > 1 && bits == 32
	wide := m.acc
	wide.width = 8
	return func(w *warp) {
		a := &w.r[m.base]
		for _, l := range w.act {
			l &= 31
			p := w.at(m, a[l]+m.off, l)
			if pair {
				for i := 0; i+1 < len(src); i += 2 {
					store(unsafe.Add(p, i*4), wide, w.r[src[i]][l]&0xffffffff|w.r[src[i+1]][l]<<32)
				}
				continue
			}
			for i, s := range src {
				store(unsafe.Add(p, i*int(m.acc.width)), m.acc, w.r[s][l])
			}
		}
	}
}

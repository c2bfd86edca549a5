package exec

import "unsafe"

// compileLoad compiles ld and ldu.
func compileLoad(b *build) {
	b.args(2, 2)
	t := b.typ()
	n := b.vector()
	nc := b.take("nc")
	m := b.plainMemory(b.arg(1), loadOrders)
	if nc && (m.space != global || m.acc.order != weak) {
		b.refuse(".nc")
	}
	m.acc.width = uint8(t.bits / 8)
	m.bytes = n * t.bits / 8
	if t.lanes > 1 || t.bits < 8 || m.bytes > 16 || t.class == classPred {
		b.refuse("type .%s", t.name)
	}
	var dst []*reg
	exact := true
	for _, o := range b.elements(b.arg(0), n) {
		r := b.dest(&o, t.bits, true)
		exact = exact && r.bits == t.bits
		dst = append(dst, r)
	}
	if m.acc.order != weak && m.space != param && m.space != local {
		m.spin = b.c.newSpin()
	}
	switch {
	case b.c.weak && m.isGlobal():
		b.emit(weakLoad(m, dst, t))
	case m.acc.order == weak && m.space == param && exact && b.constant(m):
		b.emit(loadParam(m, dst))
	case m.acc.order == weak && exact && (m.space == global || m.space == generic) && m.bytes >= 4 && t.bits >= 32:
		b.emit(loadFast(m, dst))
	default:
		b.emit(loadAny(m, dst, t))
	}
	b.endSpin(m)
}

// constant tells whether the address of m is known.
func (b *build) constant(m *memOp) bool {
	for _, s := range b.c.consts {
		if s == m.base {
			return true
		}
	}
	return false
}

// endSpin ends the block behind an access that can spin.
func (b *build) endSpin(m *memOp) {
	if m.spin >= 0 {
		b.c.cur.end, b.c.cur.in = endSpin, b.in
		b.c.start()
	}
}

// loadParam reads a parameter once for all lanes.
func loadParam(m *memOp, dst []*reg) step {
	return func(w *warp) {
		l := w.act[0]
		p := w.at(m, w.r[m.base][l&31]+m.off, l)
		for i, r := range dst {
			v := load(unsafe.Add(p, i*int(m.acc.width)), m.acc)
			d := &w.r[r.slot]
			for _, l := range w.act {
				d[l&31] = v
			}
		}
	}
}

// loadFast reads weakly 4, 8 or 16 bytes of global memory: the bulk of what
// collectives read.
func loadFast(m *memOp, dst []*reg) step {
	base, off, bytes := m.base, m.off, uint64(m.bytes)
	d0 := dst[0].slot
	type lookup struct {
		number uint64
		start  unsafe.Pointer
	}
	const none = 1<<64 - 1
	switch {
	case len(dst) == 1 && bytes == 4:
		return func(w *warp) {
			a, d := &w.r[base], &w.r[d0]
			page := lookup{number: none}
			for _, l := range w.act {
				addr := a[l&31] + off
				if addr>>PageShift != page.number || addr&3 != 0 || addr < WindowEnd {
					if addr < WindowEnd || addr&3 != 0 {
						d[l&31] = load(w.at(m, addr, l), m.acc)
						continue
					}
					page = lookup{addr >> PageShift, w.pageAt(m, addr, l)}
				}
				d[l&31] = uint64(*(*uint32)(unsafe.Add(page.start, addr&pageMask)))
			}
		}
	case len(dst) == 1 && bytes == 8:
		return func(w *warp) {
			a, d := &w.r[base], &w.r[d0]
			page := lookup{number: none}
			for _, l := range w.act {
				addr := a[l&31] + off
				if addr>>PageShift != page.number || addr&7 != 0 || addr < WindowEnd {
					if addr < WindowEnd || addr&7 != 0 {
						d[l&31] = load(w.at(m, addr, l), m.acc)
						continue
					}
					page = lookup{addr >> PageShift, w.pageAt(m, addr, l)}
				}
				d[l&31] = *(*uint64)(unsafe.Add(page.start, addr&pageMask))
			}
		}
	case len(dst) == 4 && bytes == 16:
		d1, d2, d3 := dst[1].slot, dst[2].slot, dst[3].slot
		return func(w *warp) {
			a, r0, r1, r2, r3 := &w.r[base], &w.r[d0], &w.r[d1], &w.r[d2], &w.r[d3]
			page := lookup{number: none}
			for _, l := range w.act {
				l &= 31
				addr := a[l] + off
				var p unsafe.Pointer
				if addr>>PageShift == page.number && addr&15 == 0 {
					p = unsafe.Add(page.start, addr&pageMask)
				} else if addr < WindowEnd || addr&15 != 0 {
					p = w.at(m, addr, l)
				} else {
					page = lookup{addr >> PageShift, w.pageAt(m, addr, l)}
					p = unsafe.Add(page.start, addr&pageMask)
				}
				x, y := load16(p, m.acc)
				r0[l], r1[l] = uint64(uint32(x)), x>>32
				r2[l], r3[l] = uint64(uint32(y)), y>>32
			}
		}
	}
	return loadAny(m, dst, typ{bits: int(m.acc.width) * 8})
}

// loadAny reads any form. Elements of 4 bytes go in pairs, so that a vector is
// never torn inside 8 bytes.
func loadAny(m *memOp, dst []*reg, t typ) step {
	signed := t.class == classSigned
	pair := len(dst) > 1 && t.bits == 32
	wide := m.acc
	wide.width = 8
	return func(w *warp) {
		a := &w.r[m.base]
		var sum, first uint64
		for i, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			if i == 0 {
				first = addr
			}
			p := w.at(m, addr, l)
			var v uint64
			for i, r := range dst {
				switch {
				case pair && i&1 == 1:
					v >>= 32
				case pair:
					v = load(unsafe.Add(p, i*4), wide)
				default:
					v = load(unsafe.Add(p, i*int(m.acc.width)), m.acc)
				}
				x := v
				if pair {
					x = uint64(uint32(v))
				}
				if signed && r.bits > t.bits {
					x = sext(x, t.bits) & maskOf(r.bits)
				}
				sum = sum*31 + x
				w.r[r.slot][l] = x
			}
		}
		if m.spin >= 0 {
			w.noteSpin(m.spin, first, sum)
		}
	}
}

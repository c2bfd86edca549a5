package exec

import "unsafe"

// The accesses of kernels made by CompileWeak. Global memory goes through the
// model; shared, local and parameter memory is as in the other kernels, and
// coherent.

// isGlobal tells whether an access can be one of global memory.
func (m *memOp) isGlobal() bool { return m.space == global || m.space == generic }

// inWindow tells whether it is none after all.
func (m *memOp) inWindow(addr uint64) bool { return m.space == generic && addr < WindowEnd }

// noneGlobal tells the same of all active lanes. Lanes of one instruction that
// differ in this are refused: compilers emit no such code.
func (w *warp) noneGlobal(m *memOp) bool {
	if m.space == global {
		return false
	}
	n := 0
	for _, l := range w.act {
		if m.inWindow(w.r[m.base][l&31] + m.off) {
			n++
		}
	}
	if n != 0 && n != len(w.act) {
		w.fault(m.in, WrongSpace, w.r[m.base][w.act[0]&31]+m.off, m.bytes, w.act[0])
	}
	return n != 0
}

// bytesMask has the bytes of an element in the word where it lies.
func bytesMask(bytes int, shift uint) uint8 { return uint8(maskOf(bytes)) << (shift / 8) }

// readWords gives the bytes of an access of a lane, from the lowest bit on.
func (w *warp) readWords(p unsafe.Pointer, m *memOp, l uint8, addr uint64, data bool) (v [2]uint64) {
	if m.bytes > 8 {
		v[0] = w.readWord(p, 0xff, m, l, addr, data)
		v[1] = w.readWord(unsafe.Add(p, 8), 0xff, m, l, addr+8, data)
		return v
	}
	word, shift := wordOf(p)
	v[0] = w.readWord(word, bytesMask(m.bytes, shift), m, l, addr, data) >> shift
	return v
}

func (w *warp) readWord(p unsafe.Pointer, mask uint8, m *memOp, l uint8, addr uint64, data bool) uint64 {
	v, race := w.run.weak.read(w.cta.weak, w.thread(l), p, mask, m.acc, data)
	if race != nil {
		panic(&Fault{Kind: DataRace, Addr: addr, Bytes: min(m.bytes, 8), Block: w.cta.index, Thread: w.first + uint32(l), Line: m.in.Line, Text: m.in.Text, Err: race})
	}
	return v
}

// writeWords stores the bytes of an access of a lane. told names what they tell.
func (w *warp) writeWords(p unsafe.Pointer, m *memOp, l uint8, addr uint64, v [2]uint64, told uint64) {
	x, b, t := w.run.weak, w.cta.weak, w.thread(l)
	s := pending{word: p, value: v[0], mask: 0xff, addr: addr, in: m.in, block: w.cta.index, thread: w.first + uint32(l)}
	if m.bytes > 8 {
		x.write(b, t, s, told, m.acc)
		s.word, s.value = unsafe.Add(p, 8), v[1]
		x.write(b, t, s, told, m.acc)
		return
	}
	word, shift := wordOf(p)
	s.word, s.value, s.mask = word, v[0]<<shift, bytesMask(m.bytes, shift)
	x.write(b, t, s, told, m.acc)
}

// weakLoad is loadAny for global memory. Reads that are weak, volatile or of a scope
// less than the system are those of data; relaxed and acquiring ones may be of flags.
func weakLoad(m *memOp, dst []*reg, t typ) step {
	plain := loadAny(m, dst, t)
	signed := t.class == classSigned
	mask, data := maskOf(t.bits), m.acc.order == volatile || m.acc.narrow()
	return func(w *warp) {
		a := &w.r[m.base]
		if w.noneGlobal(m) {
			plain(w)
			return
		}
		var sum, first uint64
		for i, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			if i == 0 {
				first = addr
			}
			before := w.thread(l).observed
			if m.acc.order == acquire {
				w.thread(l).observed = nil // it acquires by what it reads itself
			}
			v := w.readWords(w.at(m, addr, l), m, l, addr, data)
			for i, r := range dst {
				bit := i * t.bits
				x := v[bit>>6] >> (bit & 63) & mask
				if signed && r.bits > t.bits {
					x = sext(x, t.bits) & maskOf(r.bits)
				}
				sum = sum*31 + x
				w.r[r.slot][l] = x
			}
			if m.acc.order == acquire {
				w.run.weak.acquire(w.cta.weak, w.thread(l), m.acc.scope)
				w.thread(l).observed = w.thread(l).observed.join(before)
			}
		}
		if m.spin >= 0 {
			w.noteSpin(m.spin, first, sum)
		}
	}
}

// weakStore is storeAny for global memory.
func weakStore(m *memOp, src []int, bits int) step {
	plain := storeAny(m, src, bits)
	return func(w *warp) {
		a := &w.r[m.base]
		if w.noneGlobal(m) {
			plain(w)
			return
		}
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			p := w.at(m, addr, l)
			w.writeWords(p, m, l, addr, w.packed(src, bits, l), w.tells(m, l))
		}
	}
}

// tells releases if the access does, and names what its store tells.
func (w *warp) tells(m *memOp, l uint8) uint64 {
	if m.acc.order == release {
		return w.run.weak.release(w.cta.weak, w.thread(l), m.acc.scope)
	}
	return w.thread(l).fenced
}

// packed joins registers of a lane.
func (w *warp) packed(src []int, bits int, l uint8) (v [2]uint64) {
	mask := maskOf(bits)
	for i, s := range src {
		bit := i * bits
		v[bit>>6&1] |= w.r[s][l] & mask << (bit & 63)
	}
	return v
}

// weakAtom is one lane's atomic operation.
func (w *warp) weakAtom(p unsafe.Pointer, a access, l uint8, f func(old uint64) (uint64, bool)) uint64 {
	return w.run.weak.update(w.cta.weak, w.thread(l), p, a, f)
}

// weakFence is a fence of every active thread.
func (w *warp) weakFence(s scope) {
	for _, l := range w.act {
		t := w.thread(l & 31)
		t.fenced = w.run.weak.release(w.cta.weak, t, s)
		w.run.weak.acquire(w.cta.weak, t, s)
	}
}

// weakViews reads an access of every device's memory into memory of its own, in
// which a reducer finds it at offset 0.
func (w *warp) weakViews(views []unsafe.Pointer, addr uint64, m *memOp, l uint8) []unsafe.Pointer {
	x := w.run.weak
	if len(x.views) != len(views) {
		x.old, x.views = make([][2]uint64, len(views)), make([]unsafe.Pointer, len(views))
		for i := range x.old {
			x.views[i] = unsafe.Pointer(&x.old[i])
		}
	}
	for i, v := range views {
		x.old[i] = w.readWords(unsafe.Add(v, addr&pageMask), m, l, addr, m.acc.order != acquire)
	}
	if m.acc.order == acquire {
		x.acquire(w.cta.weak, w.thread(l), m.acc.scope)
	}
	return x.views
}

// weakMultimemStore is multimem.st: a store to every device, each of which takes
// effect by itself.
func weakMultimemStore(m *memOp, src []int, bits int) step {
	return func(w *warp) {
		a := &w.r[m.base]
		tm := team{number: noPage}
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			views := tm.at(w, m, addr, l)
			told, v := w.tells(m, l), w.packed(src, bits, l)
			for _, p := range views {
				w.writeWords(unsafe.Add(p, addr&pageMask), m, l, addr, v, told)
			}
		}
	}
}

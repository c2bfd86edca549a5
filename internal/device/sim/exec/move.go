package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// compileMov compiles mov with its forms: copy, packing and unpacking, special
// registers, addresses of variables, predicates.
func compileMov(b *build) {
	b.args(2, 2)
	t := b.typ()
	to, from := b.arg(0), b.arg(1)
	switch {
	case t.class == classPred:
		d, not := b.pred(to)
		if not {
			b.refuse("negated destination")
		}
		if from.Kind == ptx.Int {
			all := from.Bits != 0
			b.emit(func(w *warp) { w.setPred(d, w.mask, all) })
			return
		}
		x, not := b.pred(from)
		b.emit(func(w *warp) { w.p[d] = w.p[d]&^w.mask | flip(w.p[x], not)&w.mask })
		return
	case t.bits < 16 || t.lanes > 1:
		b.refuse("type .%s", t.name)
	case to.Kind == ptx.Vector || from.Kind == ptx.Vector:
		if t.class != classBits {
			b.refuse("type .%s for a vector", t.name)
		}
		b.movVector(t, to, from)
		return
	}
	d := b.dst(0, t.bits)
	if from.Kind == ptx.Ident && b.movVolatile(d, t.bits, from.Name) {
		return
	}
	x := b.src(1, t.bits)
	b.emit(func(w *warp) {
		rd, rx := &w.r[d], &w.r[x]
		if w.mask == w.full {
			*rd = *rx
			return
		}
		for _, l := range w.act {
			l &= 31
			rd[l] = rx[l]
		}
	})
}

// movVector packs or unpacks.
func (b *build) movVector(t typ, to, from *ptx.Operand) {
	vec := to
	if from.Kind == ptx.Vector {
		vec = from
	}
	n := len(vec.List)
	if to.Kind == from.Kind || n != 2 && n != 4 || t.bits/n < 16 {
		b.refuse("vector operand")
	}
	width := t.bits / n
	slots := make([]int, n)
	if vec == from {
		d := b.dst(0, t.bits)
		for i := range vec.List {
			slots[i] = b.value(&vec.List[i], width, false)
		}
		if n == 2 {
			lo, hi := slots[0], slots[1]
			b.emit(func(w *warp) {
				rd, r0, r1 := &w.r[d], &w.r[lo], &w.r[hi]
				for _, l := range w.act {
					l &= 31
					rd[l] = r0[l] | r1[l]<<width
				}
			})
			return
		}
		b.emit(func(w *warp) {
			for _, l := range w.act {
				l &= 31
				var v uint64
				for i, s := range slots {
					v |= w.r[s][l] << (i * width)
				}
				w.r[d][l] = v
			}
		})
		return
	}
	for i := range vec.List {
		slots[i] = b.dest(&vec.List[i], width, false).slot
	}
	x := b.src(1, t.bits)
	m := maskOf(width)
	if n == 2 {
		lo, hi := slots[0], slots[1]
		b.emit(func(w *warp) {
			r0, r1, rx := &w.r[lo], &w.r[hi], &w.r[x]
			for _, l := range w.act {
				l &= 31
				v := rx[l]
				r0[l], r1[l] = v&m, v>>width
			}
		})
		return
	}
	b.emit(func(w *warp) {
		for _, l := range w.act {
			l &= 31
			v := w.r[x][l]
			for i, s := range slots {
				w.r[s][l] = v >> (i * width) & m
			}
		}
	})
}

// movVolatile compiles a read of a special register that changes.
func (b *build) movVolatile(d, bits int, name string) bool {
	want := 64
	var read func(w *warp) uint64
	switch name {
	case "%globaltimer":
		read = func(w *warp) uint64 { return w.run.now() }
	case "%globaltimer_lo":
		want, read = 32, func(w *warp) uint64 { return w.run.now() & maskOf(32) }
	case "%globaltimer_hi":
		want, read = 32, func(w *warp) uint64 { return w.run.now() >> 32 }
	case "%clock64":
		read = func(w *warp) uint64 { return w.clock() }
	case "%clock", "%clock_lo":
		want, read = 32, func(w *warp) uint64 { return w.clock() & maskOf(32) }
	default:
		return false
	}
	if bits != want {
		b.refuse("special register %s has %d bits and the type %d", name, want, bits)
	}
	b.emit(func(w *warp) {
		v := read(w)
		rd := &w.r[d]
		for _, l := range w.act {
			rd[l&31] = v
		}
	})
	return true
}

// clock counts nanoseconds, as a GPU of 1 GHz would.
func (w *warp) clock() uint64 { return w.run.now() }

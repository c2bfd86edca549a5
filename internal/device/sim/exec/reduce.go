package exec

import "unsafe"

// reduction gives the function of an operation on the elements packed in 64
// bits, without a wider accumulator.
func (b *build) reduction(op string, t typ) func(x, y uint64) uint64 {
	ok := false
	var f func(x, y uint64) uint64
	switch op {
	case "add":
		switch {
		case t.isFloat():
			ok, f = true, floatAdd(t)
		case t.name == "u32" || t.name == "s32":
			return func(x, y uint64) uint64 { return (x + y) & maskOf(32) }
		case t.name == "u64":
			return func(x, y uint64) uint64 { return x + y }
		}
	case "min", "max":
		switch {
		case t.half():
			ok, f = true, floatMinMax(op, t, false)
		case t.class == classUnsigned || t.class == classSigned:
			return integerMinMax(op, t)
		}
	case "and", "or", "xor":
		if t.class == classBits {
			return bitOps[op]
		}
	}
	if !ok {
		b.refuse("operation .%s on type .%s", op, t.name)
	}
	step, m := t.bits, maskOf(t.bits)
	return func(x, y uint64) uint64 {
		var r uint64
		for s := 0; s < 64; s += step {
			r |= f(x>>s&m, y>>s&m) << s
		}
		return r
	}
}

// loadReduce compiles multimem.ld_reduce.
func (b *build) loadReduce(t typ, n, bytes int) {
	op := b.oneOf("add", "min", "max", "and", "or", "xor")
	wide := b.take("acc::f32")
	if wide {
		b.needs(90, 82)
	}
	if wide && (op != "add" || !t.half()) {
		b.refuse("modifier .acc::f32 on .%s.%s", op, t.name)
	}
	m := b.multimemOp(b.arg(1), map[string]order{"weak": weak, "relaxed": relaxed, "acquire": acquire}, weak, bytes)
	if t.bits == 16 && n == 1 {
		b.refuse("type .%s without a vector", t.name)
	}
	var dst []int
	for _, o := range b.elements(b.arg(0), n) {
		dst = append(dst, b.dest(&o, t.bits, false).slot)
	}
	// Only scalar integers are polled.
	if m.acc.order != weak && !t.isFloat() {
		m.spin = b.c.newSpin()
	}
	f := b.reduction(op, t)
	var sum reducer
	switch {
	case bytes == 16 && wide && t.class == classFloat:
		sum = sumF16(m)
	case bytes == 16 && wide:
		sum = sumBF16(m)
	case bytes == 16 && t.name == "f32":
		sum = sumF32(m)
	case wide && t.class == classFloat:
		sum = sumWord(m, f16to32, f32to16)
	case wide:
		sum = sumWord(m, bf16to32, f32toBF16)
	default:
		sum = func(views []unsafe.Pointer, at uint64, first int) (x, y uint64) {
			x, y = loadWide(unsafe.Add(views[first], at), m)
			for k := 1; k < len(views); k++ {
				u, v := loadWide(unsafe.Add(views[(first+k)%len(views)], at), m)
				x = f(x, u)
				if bytes == 16 {
					y = f(y, v)
				}
			}
			return x, y
		}
	}
	if b.c.weak {
		direct := sum
		sum = func(views []unsafe.Pointer, at uint64, first int) (x, y uint64) { return direct(views, 0, first) }
	}
	model := b.c.weak
	if len(dst) == 4 && t.bits == 32 && !model {
		b.emit(loadReduce4(m, dst, sum))
		return
	}
	mask := maskOf(t.bits)
	b.emit(func(w *warp) {
		a := &w.r[m.base]
		tm := team{number: noPage}
		var out [2]uint64
		var digest uint64
		first := a[w.act[0]&31] + m.off
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			views := tm.at(w, m, addr, l)
			if model {
				views = w.weakViews(views, addr, m, l)
			}
			out[0], out[1] = sum(views, addr&pageMask, w.start(addr, len(views)))
			for i, d := range dst {
				bit := i * t.bits
				w.r[d][l] = out[bit>>6&1] >> (bit & 63) & mask
			}
			digest = digest*31 + out[0]
		}
		if m.spin >= 0 {
			w.noteSpin(m.spin, first, digest)
		}
	})
	b.endSpin(m)
}

// reducer reads the same place of every device and combines the values,
// starting with the device first: 4, 8 or 16 bytes, packed in x and y.
type reducer func(views []unsafe.Pointer, at uint64, first int) (x, y uint64)

// loadReduce4 is the form that moves 16 bytes in four 32-bit registers, which
// is what all-reduce kernels use.
func loadReduce4(m *memOp, dst []int, sum reducer) step {
	d0, d1, d2, d3 := dst[0], dst[1], dst[2], dst[3]
	return func(w *warp) {
		a, r0, r1, r2, r3 := &w.r[m.base], &w.r[d0], &w.r[d1], &w.r[d2], &w.r[d3]
		tm := team{number: noPage}
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			views := tm.at(w, m, addr, l)
			x, y := sum(views, addr&pageMask, w.start(addr, len(views)))
			r0[l], r1[l] = x&0xffffffff, x>>32
			r2[l], r3[l] = y&0xffffffff, y>>32
		}
	}
}

// loadWide reads the 4, 8 or 16 bytes of m.
func loadWide(p unsafe.Pointer, m *memOp) (x, y uint64) {
	if m.bytes == 16 {
		return load16(p, m.acc)
	}
	return load(p, m.acc), 0
}

// The sums of 16 bytes start with a value, not with zero, which would lose the
// sign of -0.

// sumF32 adds four f32.
func sumF32(m *memOp) reducer {
	return func(views []unsafe.Pointer, at uint64, first int) (uint64, uint64) {
		x, y := load16(unsafe.Add(views[first], at), m.acc)
		a, b, c, d := f32(x), f32(x>>32), f32(y), f32(y>>32)
		for _, v := range views[first+1:] {
			x, y := load16(unsafe.Add(v, at), m.acc)
			a, b, c, d = a+f32(x), b+f32(x>>32), c+f32(y), d+f32(y>>32)
		}
		for _, v := range views[:first] {
			x, y := load16(unsafe.Add(v, at), m.acc)
			a, b, c, d = a+f32(x), b+f32(x>>32), c+f32(y), d+f32(y>>32)
		}
		return bits32(a) | bits32(b)<<32, bits32(c) | bits32(d)<<32
	}
}

// sumF16 adds eight f16 in f32 and rounds once.
func sumF16(m *memOp) reducer {
	return func(views []unsafe.Pointer, at uint64, first int) (uint64, uint64) {
		var acc [8]float32
		for i := range views {
			if first == len(views) {
				first = 0
			}
			x, y := load16(unsafe.Add(views[first], at), m.acc)
			first++
			if i == 0 {
				for j := range 4 {
					acc[j] = f16to32(uint16(x >> (16 * j)))
					acc[j+4] = f16to32(uint16(y >> (16 * j)))
				}
				continue
			}
			for j := range 4 {
				acc[j] += f16to32(uint16(x >> (16 * j)))
				acc[j+4] += f16to32(uint16(y >> (16 * j)))
			}
		}
		var out [2]uint64
		for j, a := range acc {
			out[j>>2] |= uint64(f32to16(a)) << (j & 3 * 16)
		}
		return out[0], out[1]
	}
}

// sumBF16 adds eight bf16 in f32 and rounds once.
func sumBF16(m *memOp) reducer {
	return func(views []unsafe.Pointer, at uint64, first int) (uint64, uint64) {
		var acc [8]float32
		for i := range views {
			if first == len(views) {
				first = 0
			}
			x, y := load16(unsafe.Add(views[first], at), m.acc)
			first++
			if i == 0 {
				for j := range 4 {
					acc[j] = bf16to32(uint16(x >> (16 * j)))
					acc[j+4] = bf16to32(uint16(y >> (16 * j)))
				}
				continue
			}
			for j := range 4 {
				acc[j] += bf16to32(uint16(x >> (16 * j)))
				acc[j+4] += bf16to32(uint16(y >> (16 * j)))
			}
		}
		var out [2]uint64
		for j, a := range acc {
			out[j>>2] |= uint64(f32toBF16(a)) << (j & 3 * 16)
		}
		return out[0], out[1]
	}
}

// sumWord adds 16-bit floats of 4 or 8 bytes in f32 and rounds once.
func sumWord(m *memOp, widen func(uint16) float32, round func(float32) uint16) reducer {
	return func(views []unsafe.Pointer, at uint64, first int) (uint64, uint64) {
		var acc [4]float32
		for i := range views {
			x := load(unsafe.Add(views[(first+i)%len(views)], at), m.acc)
			for j := range acc {
				v := widen(uint16(x >> (16 * j)))
				if i == 0 {
					acc[j] = v
				} else {
					acc[j] += v
				}
			}
		}
		var out uint64
		for j, a := range acc {
			out |= uint64(round(a)) << (16 * j)
		}
		return out, 0
	}
}

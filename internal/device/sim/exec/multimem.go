package exec

import (
	"math"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// teamAt gives, for a multicast address, the page of every device of the team.
func (w *warp) teamAt(m *memOp, addr uint64, lane uint8) []unsafe.Pointer {
	p := w.space.page(addr)
	switch {
	case p == nil && addr < WindowEnd && addr >= SharedWindow:
		w.fault(m.in, MultimemOnUnicast, addr, m.bytes, lane)
	case p == nil:
		w.fault(m.in, IllegalAddress, addr, m.bytes, lane)
	case p.resolve == nil:
		w.fault(m.in, MultimemOnUnicast, addr, m.bytes, lane)
	case addr&uint64(m.bytes-1) != 0:
		w.fault(m.in, Misaligned, addr, m.bytes, lane)
	}
	views, err := p.resolved()
	if err != nil {
		panic(&Fault{
			Kind: MulticastUnbound, Kernel: w.run.k.name, Addr: addr, Bytes: m.bytes, Block: w.cta.index,
			Thread: w.first + uint32(lane), Line: m.in.Line, Text: m.in.Text, Err: err,
		})
	}
	return views
}

// team looks multicast pages up for the lanes of one instruction, which mostly
// lie on the same page.
type team struct {
	number uint64
	views  []unsafe.Pointer
}

const noPage = 1<<64 - 1

func (t *team) at(w *warp, m *memOp, addr uint64, lane uint8) []unsafe.Pointer {
	if addr>>PageShift != t.number || addr&uint64(m.bytes-1) != 0 {
		*t = team{addr >> PageShift, w.teamAt(m, addr, lane)}
	}
	return t.views
}

// start says with which of n devices a reduction at addr starts. The switch
// promises no order; this one is not the order of ranks, and differs between
// addresses and between seeds.
func (w *warp) start(addr uint64, n int) int {
	return int(uint32((w.run.cfg.Seed+addr>>4)*0x9e3779b97f4a7c15>>33) % uint32(n))
}

// compileMultimem compiles multimem.ld_reduce, .st and .red.
func compileMultimem(b *build) {
	form := b.oneOf("ld_reduce", "st", "red")
	t := b.typ()
	n := b.vector()
	bytes := n * t.bits / 8
	if !t.isFloat() && n > 1 || t.name == "f64" && n > 1 || t.lanes == 2 && n == 8 || t.name == "f32" && n == 8 ||
		t.bits < 16 || t.class == classPred || bytes != 4 && bytes != 8 && bytes != 16 || t.bits == 16 && !t.isFloat() {
		b.refuse("type .%s with %d elements", t.name, n)
	}
	b.args(2, 2)
	switch form {
	case "ld_reduce":
		b.loadReduce(t, n, bytes)
	case "st":
		b.multimemStore(t, n, bytes)
	case "red":
		b.multimemRed(t, n, bytes)
	default:
		b.refuse("")
	}
}

// multimemOp reads what all three forms have in common.
func (b *build) multimemOp(addr *ptx.Operand, orders map[string]order, missing order, bytes int) *memOp {
	m := b.memory(addr, orders, missing)
	if m.space != global && m.space != generic {
		b.refuse("state space")
	}
	if m.acc.order != weak && m.acc.scope == scopeNone {
		if b.in.Mods[0] != "red" {
			b.refuse("scope is missing")
		}
		m.acc.scope = scopeSystem
	}
	if m.acc.order == weak && m.acc.scope != scopeNone {
		b.refuse("scope on a weak access")
	}
	m.bytes = bytes
	m.acc.width = uint8(min(bytes, 8))
	return m
}

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
	var sum func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64)
	f := b.reduction(op, t)
	switch {
	case wide && t.class == classFloat:
		sum = sumHalves(m, f16to32, f32to16)
	case wide:
		sum = sumHalves(m, bf16to32, f32toBF16)
	case t.name == "f32":
		sum = sumFloats(m)
	default:
		words := max(bytes/8, 1)
		sum = func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64) {
			for i := range words {
				at := at + uint64(i)*8
				v := load(unsafe.Add(views[first], at), m.acc)
				for k := 1; k < len(views); k++ {
					v = f(v, load(unsafe.Add(views[(first+k)%len(views)], at), m.acc))
				}
				out[i] = v
			}
		}
	}
	if len(dst) == 4 && t.bits == 32 {
		b.emit(loadReduce4(m, dst, sum))
		return
	}
	mask := maskOf(t.bits)
	b.emit(func(w *warp) {
		a := &w.r[m.base]
		tm := team{number: noPage}
		var out [2]uint64
		var digest uint64
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			views := tm.at(w, m, addr, l)
			sum(views, addr&pageMask, w.start(addr, len(views)), &out)
			for i, d := range dst {
				bit := i * t.bits
				w.r[d][l] = out[bit>>6&1] >> (bit & 63) & mask
			}
			digest = digest*31 + out[0]
		}
		if m.spin >= 0 {
			w.noteSpin(m.spin, a[w.act[0]&31]+m.off, digest)
		}
	})
	b.endSpin(m)
}

// loadReduce4 is the form that moves 16 bytes in four 32-bit registers, which
// is what all-reduce kernels use.
func loadReduce4(m *memOp, dst []int, sum func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64)) step {
	d0, d1, d2, d3 := dst[0], dst[1], dst[2], dst[3]
	return func(w *warp) {
		a, r0, r1, r2, r3 := &w.r[m.base], &w.r[d0], &w.r[d1], &w.r[d2], &w.r[d3]
		tm := team{number: noPage}
		var out [2]uint64
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			views := tm.at(w, m, addr, l)
			sum(views, addr&pageMask, w.start(addr, len(views)), &out)
			r0[l], r1[l] = out[0]&0xffffffff, out[0]>>32
			r2[l], r3[l] = out[1]&0xffffffff, out[1]>>32
		}
	}
}

// sumFloats adds f32 of 4, 8 or 16 bytes.
func sumFloats(m *memOp) func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64) {
	words := max(m.bytes/8, 1)
	return func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64) {
		for i := range words {
			at := at + uint64(i)*8
			v := load(unsafe.Add(views[first], at), m.acc)
			low, high := f32(v), f32(v>>32)
			k := first
			for range len(views) - 1 {
				if k++; k == len(views) {
					k = 0
				}
				v := load(unsafe.Add(views[k], at), m.acc)
				low += f32(v)
				high += f32(v >> 32)
			}
			out[i] = bits32(low) | bits32(high)<<32
		}
	}
}

// sumHalves adds 16-bit floats in f32 and rounds once.
func sumHalves(m *memOp, widen func(uint16) float32, round func(float32) uint16) func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64) {
	words := max(m.bytes/8, 1)
	return func(views []unsafe.Pointer, at uint64, first int, out *[2]uint64) {
		for i := range words {
			at := at + uint64(i)*8
			var acc [4]float32
			k := first
			for j := range len(views) {
				v := load(unsafe.Add(views[k], at), m.acc)
				if k++; k == len(views) {
					k = 0
				}
				if j == 0 { // not 0 + v, which would lose the sign of -0
					acc = [4]float32{widen(uint16(v)), widen(uint16(v >> 16)), widen(uint16(v >> 32)), widen(uint16(v >> 48))}
					continue
				}
				acc[0] += widen(uint16(v))
				acc[1] += widen(uint16(v >> 16))
				acc[2] += widen(uint16(v >> 32))
				acc[3] += widen(uint16(v >> 48))
			}
			out[i] = uint64(round(acc[0])) | uint64(round(acc[1]))<<16 | uint64(round(acc[2]))<<32 | uint64(round(acc[3]))<<48
		}
	}
}

// multimemStore compiles multimem.st.
func (b *build) multimemStore(t typ, n, bytes int) {
	m := b.multimemOp(b.arg(0), map[string]order{"weak": weak, "relaxed": relaxed, "release": release}, weak, bytes)
	if t.bits == 16 && n == 1 {
		b.refuse("type .%s without a vector", t.name)
	}
	var src []int
	for _, o := range b.elements(b.arg(1), n) {
		src = append(src, b.value(&o, t.bits, false))
	}
	if n == 4 && t.bits == 32 {
		s0, s1, s2, s3 := src[0], src[1], src[2], src[3]
		b.emit(func(w *warp) {
			a, r0, r1, r2, r3 := &w.r[m.base], &w.r[s0], &w.r[s1], &w.r[s2], &w.r[s3]
			tm := team{number: noPage}
			for _, l := range w.act {
				l &= 31
				addr := a[l] + m.off
				x, y := r0[l]|r1[l]<<32, r2[l]|r3[l]<<32
				for _, v := range tm.at(w, m, addr, l) {
					p := unsafe.Add(v, addr&pageMask)
					store(p, m.acc, x)
					store(unsafe.Add(p, 8), m.acc, y)
				}
			}
		})
		return
	}
	b.emit(func(w *warp) {
		a := &w.r[m.base]
		tm := team{number: noPage}
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			var x [2]uint64
			for i, s := range src {
				bit := i * t.bits
				x[bit>>6&1] |= w.r[s][l] << (bit & 63)
			}
			for _, v := range tm.at(w, m, addr, l) {
				p := unsafe.Add(v, addr&pageMask)
				store(p, m.acc, x[0])
				if bytes == 16 {
					store(unsafe.Add(p, 8), m.acc, x[1])
				}
			}
		}
	})
}

// multimemRed compiles multimem.red.
func (b *build) multimemRed(t typ, n, bytes int) {
	op := b.oneOf("add", "min", "max", "and", "or", "xor")
	if (op == "min" || op == "max") && t.isFloat() {
		b.refuse("operation .%s on type .%s", op, t.name)
	}
	f := b.reduction(op, t)
	m := b.multimemOp(b.arg(0), map[string]order{"relaxed": relaxed, "release": release}, relaxed, bytes)
	if t.bits == 16 && n == 1 {
		b.refuse("type .%s without a vector", t.name)
	}
	// Elements are updated one by one (pairs of halves together).
	m.acc.width = uint8(max(t.bits/8, 4))
	var src []int
	for _, o := range b.elements(b.arg(1), n) {
		src = append(src, b.value(&o, t.bits, false))
	}
	plain := op == "add" && !t.isFloat()
	b.emit(func(w *warp) {
		a := &w.r[m.base]
		tm := team{number: noPage}
		for _, l := range w.act {
			l &= 31
			addr := a[l] + m.off
			var x [2]uint64
			for i, s := range src {
				bit := i * t.bits
				x[bit>>6&1] |= w.r[s][l] << (bit & 63)
			}
			for _, v := range tm.at(w, m, addr, l) {
				for i := 0; i < bytes; i += int(m.acc.width) {
					p := unsafe.Add(v, addr&pageMask+uint64(i))
					y := x[i>>3] >> (i & 7 * 8)
					if m.acc.width == 4 {
						y &= math.MaxUint32
					}
					if plain {
						add(p, m.acc, y)
					} else {
						update(p, m.acc, func(old uint64) uint64 { return f(old, y) })
					}
				}
			}
		}
	})
}

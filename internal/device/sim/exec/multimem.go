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
	h := (w.run.cfg.Seed + addr>>4) * 0x9e3779b97f4a7c15 >> 32
	return int(h * uint64(n) >> 32)
}

// compileMultimem compiles multimem.ld_reduce, .st and .red.
func compileMultimem(b *build) {
	b.needs(90, 81)
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
	if b.c.weak {
		b.emit(weakMultimemStore(m, src, t.bits))
		return
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
					store16(unsafe.Add(v, addr&pageMask), m.acc, x, y)
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
				if p := unsafe.Add(v, addr&pageMask); bytes == 16 {
					store16(p, m.acc, x[0], x[1])
				} else {
					store(p, m.acc, x[0])
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
	model := b.c.weak
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
					if model {
						w.weakAtom(p, m.acc, l, func(old uint64) (uint64, bool) { return f(old, y), true })
					} else if plain {
						add(p, m.acc, y)
					} else {
						update(p, m.acc, func(old uint64) uint64 { return f(old, y) })
					}
				}
			}
		}
	})
}

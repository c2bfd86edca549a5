package exec

import (
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// stateSpace is where an address points.
type stateSpace uint8

const (
	generic stateSpace = iota
	global
	shared
	local
	param
)

// memOp is one instruction that touches memory.
type memOp struct {
	in    *ptx.Instr
	space stateSpace
	base  int    // slot of the address
	off   uint64 // added to it
	bytes int    // of the whole access, vectors included; its alignment
	acc   access // of one element
	spin  int    // slot for noteSpin, -1 for accesses that cannot spin
}

// at finds the host memory of one lane's access.
func (w *warp) at(m *memOp, addr uint64, lane uint8) unsafe.Pointer {
	if addr&uint64(m.bytes-1) != 0 {
		w.fault(m.in, Misaligned, addr, m.bytes, lane)
	}
	switch m.space {
	case global:
		return w.globalAt(m, addr, lane)
	case shared:
		return w.within(m, addr, addr, w.cta.shared, lane)
	case local:
		return w.within(m, addr, addr, w.localOf(lane), lane)
	case param:
		return w.within(m, addr, addr, w.run.args, lane)
	}
	switch {
	case addr >= WindowEnd:
		return w.globalAt(m, addr, lane)
	case addr >= ParamWindow:
		return w.within(m, addr, addr-ParamWindow, w.run.args, lane)
	case addr >= LocalWindow:
		return w.within(m, addr, addr-LocalWindow, w.localOf(lane), lane)
	case addr >= SharedWindow:
		return w.within(m, addr, addr-SharedWindow, w.cta.shared, lane)
	}
	w.fault(m.in, IllegalAddress, addr, m.bytes, lane)
	return nil
}

func (w *warp) globalAt(m *memOp, addr uint64, lane uint8) unsafe.Pointer {
	return unsafe.Add(w.pageAt(m, addr, lane), addr&pageMask)
}

// pageAt gives the start of the page of a unicast address.
func (w *warp) pageAt(m *memOp, addr uint64, lane uint8) unsafe.Pointer {
	p := w.space.page(addr)
	if p == nil {
		w.fault(m.in, IllegalAddress, addr, m.bytes, lane)
	}
	if p.host == nil {
		w.fault(m.in, PlainOnMulticast, addr, m.bytes, lane)
	}
	return unsafe.Pointer(unsafe.SliceData(p.host))
}

func (w *warp) within(m *memOp, addr, off uint64, mem []byte, lane uint8) unsafe.Pointer {
	if off > uint64(len(mem)) || uint64(m.bytes) > uint64(len(mem))-off {
		w.fault(m.in, WrongSpace, addr, m.bytes, lane)
	}
	return unsafe.Pointer(&mem[off])
}

func (w *warp) localOf(lane uint8) []byte {
	n := w.run.k.localStride()
	at := (int(w.first) + int(lane)) * n
	return w.cta.local[at : at+w.run.k.LocalBytes]
}

// memory reads what ld, st, atom, red and multimem have in common: semantics,
// scope, state space and address. orders are the semantics that it may have.
func (b *build) memory(addr *ptx.Operand, orders map[string]order, missing order) *memOp {
	m := &memOp{in: b.in, spin: -1}
	m.acc.order = missing
	for _, name := range []string{"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"} {
		if o, ok := orders[name]; ok && b.take(name) {
			m.acc.order = o
			break
		}
	}
	switch b.oneOf("cta", "cluster", "gpu", "sys") {
	case "cta":
		m.acc.scope = scopeCTA
	case "cluster":
		m.acc.scope = scopeCluster
	case "gpu":
		m.acc.scope = scopeGPU
	case "sys":
		m.acc.scope = scopeSystem
	}
	// Cache and eviction hints do not change what an access does.
	b.oneOf("ca", "cg", "cs", "lu", "cv", "wb", "wt")
	b.oneOf("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate")
	b.oneOf("L2::64B", "L2::128B", "L2::256B")
	switch b.oneOf("global", "shared", "shared::cta", "local", "param", "param::entry") {
	case "global":
		m.space = global
	case "shared", "shared::cta":
		m.space = shared
	case "local":
		m.space = local
	case "param", "param::entry":
		m.space = param
	}
	if addr.Kind != ptx.Addr || len(addr.List) != 1 {
		b.refuse("operand is no address")
	}
	base := &addr.List[0]
	m.off = uint64(addr.Offset)
	switch base.Kind {
	case ptx.Int:
		m.base = b.c.constSlot(base.Bits + m.off)
		m.off = 0
	case ptx.Ident:
		if r := b.c.register(b.env, base.Name); r != nil {
			if r.bits < 32 {
				b.refuse("register %s as an address", base.Name)
			}
			m.base = r.slot
			break
		}
		v := b.env.variable(base.Name)
		if v == nil {
			b.refuse("name %s", base.Name)
		}
		own := map[string]stateSpace{"param": param, "shared": shared, "local": local}[v.decl.Space]
		if own != m.space {
			b.refuse("%s is in the %s space", base.Name, v.decl.Space)
		}
		m.base = b.c.constSlot(v.addr + m.off)
		m.off = 0
	default:
		b.refuse("form of an address")
	}
	return m
}

// vector consumes .v2, .v4, .v8 and gives the number of elements.
func (b *build) vector() int {
	switch b.oneOf("v2", "v4", "v8") {
	case "v2":
		return 2
	case "v4":
		return 4
	case "v8":
		return 8
	}
	return 1
}

// elements gives the operands of a vector operand, or the one itself.
func (b *build) elements(o *ptx.Operand, n int) []ptx.Operand {
	if n == 1 {
		if o.Kind == ptx.Vector && len(o.List) == 1 {
			return o.List
		}
		return []ptx.Operand{*o}
	}
	if o.Kind != ptx.Vector || len(o.List) != n {
		b.refuse("vector of %d elements is missing", n)
	}
	return o.List
}

// newSpin gives a slot for noteSpin.
func (c *compiler) newSpin() int {
	c.k.spins++
	return c.k.spins - 1
}

var loadOrders = map[string]order{"weak": weak, "relaxed": relaxed, "acquire": acquire, "volatile": volatile}
var storeOrders = map[string]order{"weak": weak, "relaxed": relaxed, "release": release, "volatile": volatile}

// plainMemory is memory for ld and st, with their rules on scopes. .mmio stands
// in front of .relaxed.sys and is like .volatile.
func (b *build) plainMemory(addr *ptx.Operand, orders map[string]order) *memOp {
	mmio := b.take("mmio")
	m := b.memory(addr, orders, weak)
	if mmio {
		if m.acc.order != relaxed || m.acc.scope != scopeSystem {
			b.refuse(".mmio without .relaxed.sys")
		}
		m.acc.order = volatile
		return m
	}
	scoped := m.acc.order != weak && m.acc.order != volatile
	switch {
	case scoped && m.acc.scope == scopeNone:
		b.refuse("scope is missing")
	case !scoped && m.acc.scope != scopeNone:
		b.refuse("scope on a weak or volatile access")
	}
	return m
}

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

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

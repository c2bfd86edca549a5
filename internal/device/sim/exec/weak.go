package exec

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// Weak turns on the weak memory model: a launch behaves in any way, chosen by
// Seed, that the PTX memory model lets a program behave which synchronises too
// little. Kernels must have been made by CompileWeak. docs/proof.md describes
// the model and what it leaves out.
//
// In short: a store stays with its thread until chance, or a release or fence
// by which it has to, brings it further: to the block, to the GPU, to memory. A
// load of global memory may give what was there before the last store, as long
// as its thread has not synchronised since. Every device's copy of a multicast
// address is a place of its own in this.
type Weak struct {
	History *History
	Seed    uint64
	// Temper, when not 0, chooses how the launch behaves on the whole (how long stores
	// wait, how often loads are early) apart from Seed, so that ranks can behave alike.
	Temper uint64
	// Process and Branch tell apart whose reads and releases are whose: of 8 processes,
	// and of 4 streams or branches of a graph of each.
	Process, Branch int
	// Before is what the work before the launch has left, in whose order the launch
	// stands; nil for none. Run sets Left to what the launch leaves.
	Before, Left *Known
	// Turn, when not nil, is called between steps of a launch, so that several
	// launches can take turns in a reproducible order. An error ends the launch.
	Turn func() error
	// Reached, when not nil, is told the kernel, and the line in the PTX text of each
	// instruction that a warp executes, under its guard or not.
	Reached func(kernel string, line int)
}

// model is the weak memory of one launch.
type model struct {
	level  // what the GPU's blocks have released to each other
	h      *History
	agent  int
	cfg    *Weak
	rng    *rand.Rand
	handed []uint32 // blocks that have released to the GPU and not further
	grown  *Known   // what threads that released at GPU scope had acquired
	left   *Known   // what threads that have ended had acquired
	// The temper of this launch, drawn from the seed, in 1/256.
	hold  uint32      // how often a store is kept back
	stale uint32      // how often a load gives an old value where it may
	drain uint32      // how often chance lets a store go, a step
	old   [][2]uint64 // what weakViews read
	views []unsafe.Pointer
}

// tempers are what a seed chooses from.
var tempers = []struct{ hold, stale, drain uint32 }{
	{256, 256, 16}, {256, 128, 64}, {256, 0, 12}, {128, 256, 32}, {0, 256, 256}, {256, 16, 24}, {230, 200, 8}, {64, 64, 128},
}

func newModel(cfg *Weak) *model {
	m := &model{h: cfg.History, agent: agentOf(cfg.Process, cfg.Branch), cfg: cfg, left: cfg.Before, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Process)))}
	t := tempers[m.rng.IntN(len(tempers))]
	if cfg.Temper != 0 {
		t = tempers[cfg.Temper%uint64(len(tempers))]
	}
	m.hold, m.stale, m.drain = t.hold, t.stale, t.drain
	return m
}

func (m *model) chance(of256 uint32) bool { return m.rng.Uint32()&255 < of256 }

// ended is what a launch panics with that Turn has ended in the middle of a step.
type ended struct{ err error }

// read gives a word of global memory as the thread sees it. mask are the bytes
// that count, data tells that nobody may store to them meanwhile.
func (m *model) read(b *blockModel, t *threadModel, p unsafe.Pointer, mask uint8, a access, data bool) (uint64, error) {
	c := m.h.cell(p)
	strong := a.order != weak
	v, old, moment, told, oldTold := c.read(p, mask)
	fresh := true
	if !t.acquired.covers(moment) && (v^old)&spread(mask) != 0 {
		// What is not strong on both sides, at a scope with both threads, is a race. Of
		// weak loads the value shows it.
		if by := writer(moment) / branches; by != m.agent/branches && strong && (a.narrow() || (told[0]|told[1])&narrow != 0) {
			return 0, fmt.Errorf("process %d has stored to it, no release and acquire are in between, and not both accesses are strong and at system scope", by)
		}
		if moment > max(t.seen[p], b.seen[p], m.seen[p]) {
			stale := m.stale
			if strong {
				stale /= 2 // or a loop would never see the new value
			}
			switch {
			case m.chance(stale):
				v, fresh = old, false
			case strong:
				t.note(p, moment)
			}
		}
	}
	if !fresh {
		told = oldTold
	}
	if strong {
		t.hear(m.h, told[0])
		t.hear(m.h, told[1])
	}
	if data {
		m.h.noteRead(c, m.agent, b.block, mask)
	}
	return t.over(p, b.over(p, m.over(p, v))), nil
}

// narrow tells whether an access is weak, or of a scope that has no threads of other
// processes. A volatile access is one of the system.
func (a access) narrow() bool {
	return a.order == weak || a.order != volatile && a.scope != scopeSystem
}

// acquire lets a thread see what others have released to the scope, as far as it
// has observed of them.
func (m *model) acquire(b *blockModel, t *threadModel, s scope) {
	switch s {
	case scopeCTA:
		t.acquired = t.acquired.join(b.grown)
	case scopeCluster, scopeGPU:
		t.acquired = t.acquired.join(m.grown).join(b.grown)
	default:
		t.acquired = t.acquired.join(t.observed)
		for word, moment := range t.seen {
			if t.acquired.covers(moment) {
				delete(t.seen, word)
			}
		}
	}
}

// release brings the stores of a thread, and those that it has synchronised
// with, to where the scope sees them. It gives the name of what a store tells
// that belongs to it.
func (m *model) release(b *blockModel, t *threadModel, s scope) (told uint64) {
	t.into(&b.level)
	b.grown = b.grown.join(t.acquired)
	if s == scopeCTA {
		return t.fenced
	}
	b.into(&m.level)
	m.grown = m.grown.join(t.acquired)
	if s == scopeSystem {
		for len(m.stores) > 0 {
			m.commit(&m.level, m.any(m.rng))
			// Others may look on.
			if m.cfg.Turn != nil && m.rng.IntN(4) == 0 {
				if err := m.cfg.Turn(); err != nil {
					panic(ended{err})
				}
			}
		}
	}
	if s != scopeSystem {
		m.handed = append(m.handed, b.block)
		return t.fenced
	}
	// What blocks have released to the GPU is released with it.
	told = m.h.noteRelease(m.agent, b.block, t.acquired)
	for _, h := range m.handed {
		m.h.noteRelease(m.agent, h, t.acquired)
	}
	m.handed = m.handed[:0]
	return told
}

// write makes a store of a thread. told names what it tells.
func (m *model) write(b *blockModel, t *threadModel, s pending, told uint64, a access) {
	s.acquired = t.acquired
	for half := range s.told {
		s.told[half] = told
		if at := (location{s.word, half}); s.mask>>(4*half)&15 == 0 || a.order == weak {
			continue
		} else if told != t.fenced {
			if t.released == nil {
				t.released = map[location]uint64{}
			}
			t.released[at] = told
		} else if before := t.released[at]; before != 0 {
			s.told[half] = m.h.both(before, told)
		}
	}
	if a.narrow() {
		s.told[0], s.told[1] = s.told[0]|narrow, s.told[1]|narrow
	}
	t.put(s)
	if !m.chance(m.hold) {
		m.flush(b, t, s.word)
	}
}

// commit brings the i-th store of a level to memory.
func (m *model) commit(l *level, i int) {
	s := l.take(i)
	c := m.h.cell(s.word)
	var race error
	_, moment := m.h.change(s.word, c, m.agent, s.told, func(was, old, since uint64) (uint64, uint8) {
		race = m.h.unordered(c, m.agent, s.mask, s.acquired, was, old, since)
		return s.value, s.mask
	})
	l.note(s.word, moment)
	if race != nil {
		panic(&Fault{Kind: DataRace, Addr: s.addr, Bytes: 8, Block: s.block, Thread: s.thread, Line: s.in.Line, Text: s.in.Text, Err: race})
	}
}

// flush brings to memory what a thread and its wider levels keep of a word, the
// oldest first.
func (m *model) flush(b *blockModel, t *threadModel, p unsafe.Pointer) {
	for _, l := range []*level{&m.level, &b.level, &t.level} {
		if i := l.find(p); i >= 0 {
			m.commit(l, i)
		}
	}
}

// underway counts the stores that are not in memory.
func (m *model) underway(resident []*cta) int {
	n := len(m.stores)
	for _, c := range resident {
		n += len(c.weak.stores) + c.copiesLeft()
		for i := range c.weak.threads {
			n += len(c.weak.threads[i].stores)
		}
	}
	return n
}

// settle lets one store go that chance finds: of the GPU, or of a block or one of
// its threads.
func (m *model) settle(resident []*cta) {
	if len(m.stores) > 0 && m.rng.IntN(2) == 0 {
		m.commit(&m.level, m.any(m.rng))
		return
	}
	if len(resident) == 0 {
		return
	}
	c := resident[m.rng.IntN(len(resident))]
	if len(c.copies) > 0 && m.rng.IntN(2) == 0 {
		m.settleCopy(c)
		return
	}
	b := c.weak
	if len(b.stores) > 0 && m.rng.IntN(4) == 0 {
		s := &b.stores[b.any(m.rng)]
		if i := m.find(s.word); i >= 0 {
			m.commit(&m.level, i)
		}
		m.commit(&b.level, b.find(s.word))
		return
	}
	from := m.rng.IntN(len(b.threads))
	for i := range b.threads {
		if t := &b.threads[(from+i)%len(b.threads)]; len(t.stores) > 0 {
			m.flush(b, t, t.stores[t.any(m.rng)].word)
			return
		}
	}
}

// update is an atomic operation on an element of 4 or 8 bytes.
func (m *model) update(b *blockModel, t *threadModel, p unsafe.Pointer, a access, f func(old uint64) (value uint64, store bool)) uint64 {
	tells := t.fenced
	if a.order == release || a.order == acquireRelease {
		tells = m.release(b, t, a.scope)
	}
	word, shift := wordOf(p)
	m.flush(b, t, word)
	mask := uint8(maskOf(int(a.width))) << (shift / 8)
	c := m.h.cell(word)
	// What the value told that it replaces, it tells too.
	var told [2]uint64
	for half := range told {
		told[half] = m.h.both(c.told[half].Load(), tells)
		if a.narrow() {
			told[half] |= narrow
		}
	}
	was, moment := m.h.change(word, c, m.agent, told, func(old, _, _ uint64) (uint64, uint8) {
		v, ok := f(old >> shift & maskOf(int(a.width)*8))
		if !ok {
			return 0, 0
		}
		return v << shift, mask
	})
	t.note(word, moment)
	for half := range told {
		if mask>>(4*half)&15 != 0 {
			t.hear(m.h, told[half])
		}
	}
	if a.order == acquire || a.order == acquireRelease {
		m.acquire(b, t, a.scope)
	}
	return was >> shift & maskOf(int(a.width)*8)
}

// wordOf gives the aligned word in which an element lies, and where in it.
func wordOf(p unsafe.Pointer) (unsafe.Pointer, uint) {
	in := uintptr(p) & 7
	return unsafe.Add(p, -int(in)), uint(in) * 8
}

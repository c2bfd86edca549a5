package exec

import "unsafe"

// blockModel is the weak memory of a block.
type blockModel struct {
	level
	m          *model
	block      uint32
	threads    []threadModel
	met        [barriers]*Known // at each barrier: what the threads there have acquired
	words      []sharedWord     // kernels with bulk copies: shared memory as the async proxy sees it
	common     []int            // of these, what all threads may make known to it
	metProxied [barriers]*Known // as met, of proxied
	grown      *Known           // as of model, at block scope
	pace       uint32           // the slower, the higher
}

// threadModel is the weak memory of a thread.
type threadModel struct {
	level
	acquired *Known              // of whose stores it must see what
	fenced   uint64              // the name of its last fence that released to all: every later store tells of it
	released map[location]uint64 // the names of its releases to all: later stores to the same location tell of them
	proxied  *Known              // of acquired, what a fence.proxy.async has carried over to bulk copies
	words    []int               // shared memory that it has stored to, and the async proxy may not know
	observed *Known              // what the stores tell that its strong loads have seen
	heard    uint64              // a name that it has looked up,
	learned  *Known              // and what that tells
}

// location is half a word.
type location struct {
	word unsafe.Pointer
	half int
}

// begin prepares the memory of a block: a thread that starts knows what the work has
// left that its launch comes behind, and nothing else, however long it is in memory.
func (m *model) begin(c *cta) {
	if c.weak == nil {
		c.weak = &blockModel{threads: make([]threadModel, c.threads)}
	}
	b := c.weak
	b.m, b.block = m, c.index
	b.reset()
	b.grown = m.cfg.Before
	b.met, b.metProxied = [barriers]*Known{}, [barriers]*Known{}
	clear(b.words)
	b.common = b.common[:0]
	b.pace = []uint32{1, 1, 2, 4, 8}[m.rng.IntN(5)]
	for i := range b.threads {
		t := &b.threads[i]
		t.reset()
		t.acquired, t.observed, t.fenced, t.heard = b.grown, nil, 0, 0
		clear(t.released)
		t.proxied, t.words = b.grown, t.words[:0]
	}
}

// end passes on what a block leaves behind: its stores, and what its threads have
// acquired.
func (m *model) end(c *cta) {
	b := c.weak
	for i := range b.threads {
		b.threads[i].into(&b.level)
		m.left = m.left.join(b.threads[i].acquired)
	}
	b.into(&m.level)
}

func (w *warp) thread(l uint8) *threadModel { return &w.cta.weak.threads[w.first+uint32(l)] }

// hear takes what a word tells that a strong load has read.
func (t *threadModel) hear(h *History, told uint64) {
	if told &^= narrow; told == 0 {
		return
	}
	if told != t.heard {
		t.heard, t.learned = told, h.learn(told)
	}
	t.observed = t.observed.join(t.learned)
}

// arrive brings the threads of w to a barrier: the block sees what they stored.
func (b *blockModel) arrive(w *warp, id int) {
	for _, l := range w.act {
		t := w.thread(l & 31)
		t.into(&b.level)
		b.arriveShared(t)
		b.met[id] = b.met[id].join(t.acquired)
		b.metProxied[id] = b.metProxied[id].join(t.proxied)
	}
}

// leave lets the threads of m go on: they see what all that arrived had seen.
func (b *blockModel) leave(w *warp, id int, m uint32) {
	for l := range uint8(warpSize) {
		if m>>l&1 != 0 {
			t := w.thread(l)
			t.acquired = t.acquired.join(b.met[id])
			t.proxied = t.proxied.join(b.metProxied[id])
		}
	}
}

// meet is arrive and leave for threads of one warp.
func (b *blockModel) meet(w *warp, m uint32) {
	var most, proxied *Known
	for l := range uint8(warpSize) {
		if m>>l&1 != 0 {
			t := w.thread(l)
			t.into(&b.level)
			b.arriveShared(t)
			most, proxied = most.join(t.acquired), proxied.join(t.proxied)
		}
	}
	for l := range uint8(warpSize) {
		if m>>l&1 != 0 {
			t := w.thread(l)
			t.acquired, t.proxied = most, proxied
		}
	}
}

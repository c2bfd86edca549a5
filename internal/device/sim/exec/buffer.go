package exec

import (
	"math/rand/v2"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// pending is a store that is not in memory yet: some bytes of one aligned word.
type pending struct {
	word     unsafe.Pointer
	value    uint64
	mask     uint8     // of the bytes
	acquired *Known    // what the thread that stored had acquired
	told     [2]uint64 // and released, for each half of the word
	addr     uint64    // for a fault
	in       *ptx.Instr
	block    uint32
	thread   uint32
}

// spread makes a mask of bytes a mask of bits.
func spread(mask uint8) uint64 {
	if mask == 0xff {
		return ^uint64(0)
	}
	var m uint64
	for i := range 8 {
		if mask>>i&1 != 0 {
			m |= 0xff << (8 * i)
		}
	}
	return m
}

// level is a place where stores stay for a while: a thread's, its block's, or
// its GPU's. Who belongs to it sees them, others do not.
type level struct {
	stores []pending
	index  map[unsafe.Pointer]int // into stores, once there are many
	// seen tells for words, from which moment on their values may still be
	// taken for current ones: this level has stored, or seen by a strong load, what
	// was stored then.
	seen map[unsafe.Pointer]uint64
}

// few is the number of stores that are searched one by one.
const few = 8

func (l *level) find(word unsafe.Pointer) int {
	if l.index == nil {
		for i := range l.stores {
			if l.stores[i].word == word {
				return i
			}
		}
		return -1
	}
	if i, ok := l.index[word]; ok {
		return i
	}
	return -1
}

// put adds a store. One to the same word joins what is there, so that program
// order to one address is kept.
func (l *level) put(s pending) {
	if i := l.find(s.word); i >= 0 {
		old, m := &l.stores[i], spread(s.mask)
		s.value = old.value&^m | s.value&m
		for half := range s.told {
			if s.mask>>(4*half)&15 == 0 {
				s.told[half] = old.told[half]
			}
		}
		s.mask |= old.mask
		s.acquired = s.acquired.join(old.acquired)
		*old = s
		return
	}
	l.stores = append(l.stores, s)
	if l.index != nil {
		l.index[s.word] = len(l.stores) - 1
	} else if len(l.stores) > few {
		l.index = map[unsafe.Pointer]int{}
		for i := range l.stores {
			l.index[l.stores[i].word] = i
		}
	}
}

// take removes the i-th store.
func (l *level) take(i int) pending {
	s, last := l.stores[i], len(l.stores)-1
	l.stores[i] = l.stores[last]
	l.stores = l.stores[:last]
	if l.index != nil {
		delete(l.index, s.word)
		if i != last {
			l.index[l.stores[i].word] = i
		}
	}
	return s
}

// over puts the level's own bytes over the value of a word.
func (l *level) over(word unsafe.Pointer, v uint64) uint64 {
	if len(l.stores) == 0 {
		return v
	}
	if i := l.find(word); i >= 0 {
		m := spread(l.stores[i].mask)
		v = v&^m | l.stores[i].value&m
	}
	return v
}

// note remembers that the value of the moment was stored or seen.
func (l *level) note(word unsafe.Pointer, moment uint64) {
	if l.seen == nil {
		l.seen = map[unsafe.Pointer]uint64{}
	}
	if l.seen[word] < moment {
		l.seen[word] = moment
	}
}

// into makes everything of l visible at a wider level.
func (l *level) into(to *level) {
	for i := range l.stores {
		to.put(l.stores[i])
	}
	l.stores = l.stores[:0]
	clear(l.index)
	for w, m := range l.seen {
		to.note(w, m)
	}
	clear(l.seen)
}

// reset empties the level.
func (l *level) reset() {
	l.stores = l.stores[:0]
	clear(l.index)
	clear(l.seen)
}

// any chooses a store.
func (l *level) any(r *rand.Rand) int { return r.IntN(len(l.stores)) }

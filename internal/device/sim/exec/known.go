package exec

import "sync/atomic"

// known tells, for each process, up to which moment its stores, and its reads that
// a release has closed, are known to somebody: a vector clock. It is never
// changed once others may have it; nil knows nothing.
type known [readers]uint64

// of is the moment up to which a process is known.
func (k *known) of(process int) uint64 {
	if k == nil {
		return 0
	}
	return k[process%readers]
}

// covers tells whether k knows of the store, or release, of a moment.
func (k *known) covers(moment uint64) bool { return moment <= k.of(writer(moment)) }

// join knows what either does.
func (k *known) join(o *known) *known {
	switch {
	case k == nil || k == o:
		return o
	case o == nil:
		return k
	}
	less, more := false, false
	for i := range k {
		less, more = less || k[i] < o[i], more || k[i] > o[i]
	}
	switch {
	case !less:
		return k
	case !more:
		return o
	}
	both := new(known)
	for i := range both {
		both[i] = max(k[i], o[i])
	}
	return both
}

// everything is all that was stored up to a moment.
func everything(moment uint64) *known {
	k := new(known)
	for i := range k {
		k[i] = moment
	}
	return k
}

// with is k, and all that a process has done up to a moment.
func (k *known) with(process int, moment uint64) *known {
	n := new(known)
	if k != nil {
		*n = *k
	}
	n[process%readers] = moment
	return n
}

// record is a known that all processes can read.
type record [readers]atomic.Uint64

func (r *record) put(k *known) {
	for i := range r {
		r[i].Store(k.of(i))
	}
}

func (r *record) get() *known {
	k := new(known)
	for i := range k {
		k[i] = r[i].Load()
	}
	return k
}

// A word tells of a release by its name: 1 + the process, the block (both in
// 8 bits) and the number of the release among the block's, in 32. What no
// release of a block is, but several together, or the start of a launch, has the
// process 0xff and the number of a spare record.

// toldKept is how many of a block's last releases can be told of; who learns of an
// older one gets a newer one.
const toldKept = 32

// spares is how many spare records there are at a time.
const spares = 1024

func nameOf(process int, block, number uint32) uint64 {
	return uint64(process%readers+1)<<40 | uint64(block%blocks)<<32 | uint64(number)
}

// learn gives what whoever acquires a word learns of.
func (h *History) learn(told uint64) *known {
	process, block, number := told>>40, told>>32&0xff, uint32(told)
	switch process {
	case 0:
		return nil
	case 0xff:
		return h.head.spare[number%spares].get()
	}
	return h.head.told[process-1][block][number%toldKept].get()
}

// name makes a spare record.
func (h *History) name(k *known) uint64 {
	number := h.head.spared.Add(1)
	h.head.spare[number%spares].put(k)
	return 0xff<<40 | uint64(number)
}

// both is what tells of two releases.
func (h *History) both(a, b uint64) uint64 {
	switch {
	case a == 0 || a == b:
		return b
	case b == 0:
		return a
	}
	return h.name(h.learn(a).join(h.learn(b)))
}

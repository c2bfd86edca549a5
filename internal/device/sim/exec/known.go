package exec

import "sync/atomic"

// Known tells, for each agent, up to which moment its stores, and its reads that
// a release has closed, are known to somebody: a vector clock. It is never
// changed once others may have it; nil knows nothing.
type Known [agents]uint64

// An agent is a stream of a process, or a branch of a graph: what one of them does is
// in order, and what two do is not, unless something orders it. Streams beyond
// branches share their agents, and are then taken to know more of each other than
// they do.
const (
	branches = 4
	agents   = processes * branches
)

// agentOf gives the number of an agent.
func agentOf(process, branch int) int { return process%processes*branches + branch%branches }

// of is the moment up to which an agent is known.
func (k *Known) of(agent int) uint64 {
	if k == nil {
		return 0
	}
	return k[agent]
}

// covers tells whether k knows of the store, or release, of a moment.
func (k *Known) covers(moment uint64) bool { return moment <= k.of(writer(moment)) }

// Join knows what either does.
func (k *Known) Join(o *Known) *Known { return k.join(o) }

func (k *Known) join(o *Known) *Known {
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
	both := new(Known)
	for i := range both {
		both[i] = max(k[i], o[i])
	}
	return both
}

// with is k, and all that an agent has done up to a moment.
func (k *Known) with(agent int, moment uint64) *Known {
	n := new(Known)
	if k != nil {
		*n = *k
	}
	n[agent] = moment
	return n
}

// record is a known that all processes can read.
type record [agents]atomic.Uint64

func (r *record) put(k *Known) {
	for i := range r {
		r[i].Store(k.of(i))
	}
}

func (r *record) get() *Known {
	k := new(Known)
	for i := range k {
		k[i] = r[i].Load()
	}
	return k
}

// add takes in k. Others may do the same.
func (r *record) add(k *Known) {
	for i := range r {
		for {
			old := r[i].Load()
			if k.of(i) <= old || r[i].CompareAndSwap(old, k.of(i)) {
				break
			}
		}
	}
}

// HostsLearn tells that a host has waited for work that leaves k. Hosts are taken to
// tell each other at once what they know.
func (h *History) HostsLearn(k *Known) { h.head.hosts.add(k) }

// HostsKnow is what hosts know: work that they enqueue from now on comes behind it.
func (h *History) HostsKnow() *Known { return h.head.hosts.get() }

// A word tells of a release by its name: 1 + the process, in 8 bits, and the number
// of the release among the process's, in 32. What is several releases together
// has the process 0x7f and the number of a spare record. narrow stands beside.

// toldKept is how many of a process's last releases can be told of; who learns of an
// older one gets a newer one.
const toldKept = 2048

// spares is how many spare records there are at a time.
const spares = 1024

// narrow tells of a store that is weak, or of a scope less than the system: accesses
// by other processes are no match for it, whatever they are.
const narrow = 1 << 63

// learn gives what whoever acquires a word learns of.
func (h *History) learn(told uint64) *Known {
	process, number := told&^narrow>>32, uint32(told)
	switch process {
	case 0:
		return nil
	case 0x7f:
		return h.head.spare[number%spares].get()
	}
	return h.head.told[process-1][number%toldKept].get()
}

// name makes a spare record.
func (h *History) name(k *Known) uint64 {
	number := h.head.spared.Add(1)
	h.head.spare[number%spares].put(k)
	return 0x7f<<32 | uint64(number)
}

// both is what tells of two releases.
func (h *History) both(a, b uint64) uint64 {
	a, b = a&^narrow, b&^narrow
	switch {
	case a == 0 || a == b:
		return b
	case b == 0:
		return a
	}
	return h.name(h.learn(a).join(h.learn(b)))
}

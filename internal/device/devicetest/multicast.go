package devicetest

import (
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// multicastScenarios are played by ranks with a device each.
var multicastScenarios = map[string]part{
	"Reduce":     multicastReduce,
	"BindBlocks": multicastBindBlocks,
	"Rules":      multicastRules,
}

// testMulticast runs the multicast part where there is multicast, and elsewhere
// checks that every call says so.
func testMulticast(t *testing.T, s Subject) {
	const goroutines = 2
	processes := s.Processes
	ranks := openRanks(t, s, goroutines)
	info := ranks[0].Info()
	if !info.Multicast {
		playOn(t, ranks[:1], noMulticast)
		return
	}
	if ranks[0].Info().UUID == ranks[1].Info().UUID {
		t.Skip("the multicast part needs a device for each rank, and the ranks share one")
	}
	for _, name := range names(multicastScenarios) {
		t.Run(name, func(t *testing.T) {
			t.Run("goroutines", func(t *testing.T) { play(t, s, goroutines, multicastScenarios[name]) })
			t.Run("processes", func(t *testing.T) {
				if distinct(openRanks(t, s, processes)) < processes {
					t.Skipf("needs %d devices", processes)
				}
				inProcesses(t, s, processes, name)
			})
		})
	}
}

func distinct(ranks []*rank) int {
	seen := map[device.UUID]bool{}
	for _, r := range ranks {
		seen[r.Info().UUID] = true
	}
	return len(seen)
}

func noMulticast(r *rank) {
	check := func(what string, err error) {
		r.refused(err, what+" without multicast", device.NotSupported)
		if off := r.Info().MulticastOff; off != "" && !strings.Contains(err.Error(), off) {
			r.failf("%s: the error does not name the switch %s: %v", what, off, err)
		}
	}
	_, _, err := r.MulticastGranularity(2, r.granule)
	check("MulticastGranularity", err)
	_, err = r.CreateMulticast(2, r.granule)
	check("CreateMulticast", err)
	_, err = r.ImportMulticast(nil, 2, r.granule)
	check("ImportMulticast", err)
}

// team makes a multicast object of all ranks, at least bytes large: rank 0
// creates it, the others import it.
func (r *rank) team(bytes uint64) (device.Multicast, uint64) {
	minimum, recommended, err := r.MulticastGranularity(r.size, bytes)
	r.ok(err, "MulticastGranularity")
	if minimum == 0 || recommended%minimum != 0 {
		r.failf("multicast granularities %d and %d", minimum, recommended)
	}
	bytes = (bytes + recommended - 1) / recommended * recommended
	if r.number == 0 {
		m, err := r.CreateMulticast(r.size, bytes)
		r.ok(err, "CreateMulticast")
		f, err := m.Export()
		r.ok(err, "Export of a multicast object")
		for _, copied := range r.exchange(f) {
			if copied != nil {
				r.ok(copied.Close(), "closing a descriptor")
			}
		}
		r.ok(f.Close(), "closing the exported descriptor")
		return m, bytes
	}
	f := r.exchange(nil)[0]
	m, err := r.ImportMulticast(f, r.size, bytes)
	r.ok(err, "ImportMulticast")
	r.ok(f.Close(), "closing the received descriptor")
	return m, bytes
}

// backing is memory that can be bound to all of a multicast object.
func (r *rank) backing(bytes uint64) (device.Memory, device.Ptr) {
	return r.alloc((bytes + r.granule - 1) / r.granule * r.granule)
}

func multicastReduce(r *rank) {
	const n = 40_000
	mc, bytes := r.team(r.granule)
	if mc.Bytes() != bytes {
		r.failf("the multicast object has %d bytes, expected %d", mc.Bytes(), bytes)
	}
	r.ok(mc.AddDevice(), "AddDevice")
	r.barrier()
	m, p := r.backing(bytes)
	r.ok(mc.Bind(0, m, 0, bytes), "Bind")
	at := r.mapped(mc)
	r.write(p, ramp(uint32(10*r.number), n))
	r.barrier()

	// Each rank reduces its slice into all memories; twice, the second time from
	// a graph, in place.
	reduce := r.function(multicastPTX, "reduce")
	quads := n / 4
	share := (quads + r.size - 1) / r.size
	first := r.number * share
	args := bytesOf(&reduceArgs{In: at, Out: at, First: uint32(first), Quads: uint32(min(share, quads-first))})
	s := r.stream()
	r.launch(s, reduce, 3, 128, args)
	r.wait(s)
	r.barrier()
	size := uint32(r.size)
	once := func(i uint32) uint32 { return 10*size*(size-1)/2 + size*i }
	r.expect("reduced over the multicast address", p, n, once)
	r.barrier()
	r.ok(s.BeginCapture(), "BeginCapture")
	r.launch(s, reduce, 3, 128, args)
	g, err := s.EndCapture()
	r.ok(err, "EndCapture")
	r.ok(s.LaunchGraph(g), "LaunchGraph")
	r.wait(s)
	r.barrier()
	r.expect("reduced again from a graph", p, n, func(i uint32) uint32 { return size * once(i) })
	r.barrier()

	r.ok(g.Close(), "Close of a graph")
	r.ok(s.Close(), "Close of a stream")
	r.ok(mc.Unmap(), "Unmap of a multicast object")
	r.ok(mc.Unbind(0, bytes), "Unbind")
	r.ok(mc.Close(), "Close of a multicast object")
	r.free(m)
}

// multicastBindBlocks: the last rank is late with AddDevice, and Bind of the
// others waits for it. What the last rank did before is seen by then.
func multicastBindBlocks(r *rank) {
	mc, bytes := r.team(r.granule)
	m, p := r.backing(bytes)
	peers, at := r.share(m, p)
	r.barrier()
	last := r.size - 1
	if r.number == last {
		time.Sleep(200 * time.Millisecond)
		r.write(p, []uint32{1})
	}
	r.ok(mc.AddDevice(), "AddDevice")
	r.ok(mc.Bind(0, m, 0, bytes), "Bind")
	r.expect("mark that the last rank made before AddDevice", at[last], 1, func(uint32) uint32 { return 1 })
	r.barrier()
	r.ok(mc.Unbind(0, bytes), "Unbind")
	r.ok(mc.Close(), "Close of a multicast object")
	r.free(peers...)
	r.barrier()
	r.free(m)
}

// multicastRules tries only what the driver documents as an error, and what the
// contract refuses before the driver is asked.
func multicastRules(r *rank) {
	minimum, _, err := r.MulticastGranularity(r.size, r.granule)
	r.ok(err, "MulticastGranularity")
	_, err = r.CreateMulticast(r.size, minimum+minimum/2)
	r.refused(err, "a multicast object whose size is no multiple of the granularity", device.InvalidValue)
	mc, bytes := r.team(2 * minimum)
	m, err := r.Alloc((bytes + r.granule - 1) / r.granule * r.granule)
	r.ok(err, "Alloc")
	r.ok(mc.AddDevice(), "AddDevice")
	r.barrier()
	r.refused(mc.Bind(minimum/2, m, 0, minimum), "Bind at an odd offset", device.InvalidValue)
	r.refused(mc.Bind(0, m, minimum/2, minimum), "Bind of memory at an odd offset", device.InvalidValue)
	r.refused(mc.Bind(bytes, m, 0, minimum), "Bind behind the end", device.InvalidValue)
	r.ok(mc.Bind(0, m, 0, bytes), "Bind")
	r.refused(m.Close(), "Close of bound memory")
	r.refused(mc.Close(), "Close of a multicast object with a binding")
	r.barrier()
	r.refused(mc.Unbind(0, minimum), "Unbind of a part")
	r.ok(mc.Unbind(0, bytes), "Unbind")
	r.refused(mc.Unbind(0, bytes), "Unbind of what is not bound")
	r.mapped(mc)
	_, err = mc.Map()
	r.refused(err, "a second Map")
	r.refused(mc.Close(), "Close of a mapped multicast object")
	r.ok(mc.Unmap(), "Unmap")
	r.refused(mc.Unmap(), "Unmap of what is not mapped")
	r.barrier()
	r.ok(mc.Close(), "Close of a multicast object")
	r.ok(m.Close(), "Close of memory")
}

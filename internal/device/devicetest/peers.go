package devicetest

import (
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// scenarios are played by several ranks, as goroutines and as processes.
var scenarios = map[string]part{
	"PeerMemory":        peerMemory,
	"PeerFlags":         peerFlags,
	"MemoryOutlives":    memoryOutlives,
	"ImportOfWrongSize": importOfWrongSize,
}

// share exports memory, and imports and maps that of every peer. The address
// of this rank's own is the one given.
func (r *rank) share(m device.Memory, own device.Ptr) (peers []device.Memory, addresses []device.Ptr) {
	f, err := m.Export()
	r.ok(err, "Export")
	files := r.exchange(f)
	r.ok(f.Close(), "closing the exported descriptor")
	for i, f := range files {
		if i != r.number {
			p, err := r.Import(f, m.Bytes())
			r.ok(err, "Import of rank %d's memory", i)
			peers = append(peers, p)
			addresses = append(addresses, r.mapped(p))
		} else {
			addresses = append(addresses, own)
		}
		r.ok(f.Close(), "closing a received descriptor")
	}
	return peers, addresses
}

// peerMemory: a kernel reads every rank's memory, copies write into the next
// rank's.
func peerMemory(r *rank) {
	const n = 10_000
	m, p := r.alloc(2 * r.granule)
	r.write(p, ramp(uint32(1000*r.number), n))
	peers, at := r.share(m, p)
	r.barrier()

	out := p + device.Ptr(r.granule)
	args := sumArgs{Out: out, Ranks: uint32(r.size), N: n}
	copy(args.In[:], at)
	s := r.stream()
	r.launch(s, r.portable("sum"), 4, 128, bytesOf(&args))
	r.wait(s)
	size := uint32(r.size)
	r.expect("sum over all ranks", out, n, func(i uint32) uint32 { return 1000*size*(size-1)/2 + size*i })
	r.barrier()

	next, before := (r.number+1)%r.size, (r.number+r.size-1)%r.size
	r.ok(s.Set32(at[next], uint32(100+r.number), 64), "Set32 of a peer's memory")
	r.ok(s.Copy(at[next]+4096, out, 4*n), "Copy into a peer's memory")
	r.wait(s)
	r.barrier()
	r.expect("words set by the rank before", p, 64, func(uint32) uint32 { return uint32(100 + before) })
	r.expect("words copied by the rank before", p+4096, n, func(i uint32) uint32 { return 1000*size*(size-1)/2 + size*i })
	r.barrier()

	r.ok(s.Close(), "Close of a stream")
	r.free(peers...)
	r.barrier()
	r.free(m)
}

// peerFlags: kernels of different ranks pass data with a flag, round after
// round, with no help from the host.
func peerFlags(r *rank) {
	const n, rounds = 500, 20
	m, p := r.alloc(r.granule)
	peers, at := r.share(m, p)
	next := at[(r.number+1)%r.size]
	flag, data, out := device.Ptr(0), device.Ptr(4096), device.Ptr(65536)
	send, receive := r.stream(), r.stream()
	await, signal := r.portable("await"), r.portable("signal")
	r.barrier()
	for value := uint32(1); value <= rounds; value++ {
		outcome := p + 1024 + device.Ptr(4*value)
		r.launch(receive, await, 1, 32, bytesOf(&awaitArgs{Data: p + data, Flag: p + flag, Out: p + out, Outcome: outcome,
			Nanoseconds: uint64(patience / 2), N: n, Value: value}))
		r.launch(send, signal, 1, 32, bytesOf(&signalArgs{Data: next + data, Flag: next + flag, N: n, Value: value}))
		r.wait(send)
		r.wait(receive)
		r.expect("outcome of waiting for the rank before", outcome, 1, func(uint32) uint32 { return 1 })
		r.expect("data of the rank before", p+out, n, func(i uint32) uint32 { return value + i })
		r.barrier()
	}
	r.ok(send.Close(), "Close of a stream")
	r.ok(receive.Close(), "Close of a stream")
	r.free(peers...)
	r.barrier()
	r.free(m)
}

// memoryOutlives: memory lives as long as a descriptor or an importer has it.
func memoryOutlives(r *rank) {
	const n = 1000
	var exported *os.File
	if r.number == 0 {
		m, p := r.alloc(r.granule)
		r.write(p, ramp(77, n))
		f, err := m.Export()
		r.ok(err, "Export")
		r.free(m)
		exported = f
	}
	f := r.exchange(exported)[0]
	if exported != nil {
		r.ok(exported.Close(), "closing the exported descriptor")
	}
	// Whoever allocates now must not get that memory.
	m, p := r.alloc(r.granule)
	r.write(p, make([]uint32, n))
	r.barrier()
	first, err := r.Import(f, r.granule)
	r.ok(err, "Import of memory that its maker has closed")
	second, err := r.Import(f, r.granule)
	r.ok(err, "a second Import")
	r.ok(f.Close(), "closing the received descriptor")
	q := r.mapped(first)
	r.ok(second.Close(), "Close of the second import")
	r.barrier()
	r.expect("memory that outlives its maker", q, n, func(i uint32) uint32 { return 77 + i })
	r.barrier()
	r.free(first, m)
}

func importOfWrongSize(r *rank) {
	// How a driver answers to a wrong size differs: CUDA fails at Map, not at
	// Import. Memory of the right size must still import afterwards.
	m, p := r.alloc(r.granule)
	f, err := m.Export()
	r.ok(err, "Export")
	files := r.exchange(f)
	r.ok(f.Close(), "closing the exported descriptor")
	for i, f := range files {
		wrong, err := r.Import(f, 4*r.granule)
		if err == nil {
			_, err = wrong.Map()
			r.ok(wrong.Close(), "Close of an import of the wrong size")
		}
		r.refused(err, "an import of the wrong size")
		right, err := r.Import(f, r.granule)
		r.ok(err, "Import of rank %d's memory", i)
		r.ok(right.Close(), "Close of an import")
		r.ok(f.Close(), "closing a received descriptor")
	}
	r.write(p, ramp(1, 10))
	r.expect("own memory", p, 10, func(i uint32) uint32 { return 1 + i })
	r.barrier()
	r.free(m)
}

package mutation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Families are the kernels that the workload runs.
var Families = []kernels.Family{
	kernels.OneShot, kernels.TwoShot, kernels.Packet, kernels.Push, kernels.PushBulk, kernels.Ring, kernels.CopyIn,
	kernels.NVLSZeroCopy, kernels.NVLSCopyIn,
}

// Mutated are what mutants are made of: the kernels, and the graph of CopyEngine.
var Mutated = append(slices.Clone(Families), kernels.LocalReduce, kernels.RankBarrier, CopyEngine)

// CopyEngine stands for the calls of copy engines: copies and kernels of two families,
// LocalReduce and RankBarrier, on three streams.
const CopyEngine kernels.Family = "copy_engine"

// Mixed stands for calls of all these on one stream, each of another mode than the one
// before, as a program has them that chooses a mode for each message: what one leaves
// behind, in scratch memory, counters or staging, the next one finds.
const Mixed kernels.Family = "mixed"

// pick chooses the family of a mixed round's i-th call.
func pick(d collective.DType, seed uint64, i int) kernels.Family {
	all := append(slices.Clone(Families), CopyEngine)
	if d.Size() == 1 { // the switch has no 8-bit arithmetic
		all = slices.DeleteFunc(all, kernels.Family.NeedsMulticast)
	}
	n := uint64(len(all))
	// From a first one on in steps: no call has the family of the one before.
	return all[(mix(seed)%n+uint64(i)*(1+mix(seed+1)%(n-1)))%n]
}

// Layout of a rank's memory: a send and a receive buffer that all calls use, the
// staging buffer, and for each call its input and what it left in the buffers.
const (
	bufferBytes   = 512 << 10
	sendOffset    = 0
	recvOffset    = bufferBytes
	stagingOffset = 2 * bufferBytes
	inputOffset   = 3 * bufferBytes
	keptOffset    = inputOffset + callsOfRound*bufferBytes
	blankOffset   = keptOffset + callsOfRound*bufferBytes // a pattern that no result is
	memoryBytes   = 8 << 20
	callsOfRound  = 5
	guard         = 64 // bytes around a buffer that must not change
	// packetSlots and pushSlots are few, so that they are used again soon. All calls
	// have the same.
	packetSlots = 256
	pushSlots   = 2
)

// shape is the geometry of a launch and the size of its message, much smaller
// than plans make them: a few packs a chunk, so that slots come around.
type shape struct {
	blocks, threads uint32
	chunk           uint64 // packs of one rank's part
	packs           uint64 // of the message
	outside         bool   // no packs: the buffers lie differently to 16 bytes
}

// shapes are many small chunks among several blocks and warps; chunks so large
// for so few threads that every loop goes around, unrolled and not, in one round; elements
// only, in many chunks and in one; for bulk copies two rounds of more stages than there are.
func shapes(ranks uint64) [5]shape {
	return [5]shape{
		{blocks: 2, threads: 64, chunk: 2, packs: max(12*ranks+3, 36)},
		{blocks: 2, threads: 8, chunk: 84, packs: 84*ranks + 30},
		{blocks: 2, threads: 40, chunk: 1, packs: 6 * ranks, outside: true},
		{blocks: 2, threads: 8, chunk: 6, packs: 6 * ranks, outside: true},
		{blocks: 1, threads: 64, chunk: 8272 / (ranks - 1), packs: 8272 / (ranks - 1) * ranks},
	}
}

// choose gives the shape of a round's i-th call.
func choose(f kernels.Family, i int, ranks, seed uint64) shape {
	all := shapes(ranks)
	s := all[[callsOfRound]int{0, 1, 2, 0, 3}[i]]
	switch {
	case f == kernels.OneShot && i == 3 && seed%2 == 1:
		s = all[2] // in place and no packs, as no plan has it: elements of several warps wait for each other
	case f == kernels.PushBulk && i == 1 && seed%2 == 1:
		// Several warps fill the stages of four rounds: what is behind the packs goes
		// where the last of them was.
		s.threads, s.blocks, s.packs = 40, 1, s.packs+54*ranks
	case f == kernels.PushBulk && i == 2 && ranks <= 4 && seed%4 == 3:
		s = all[4]
	case f == CopyEngine:
		s.packs *= 4 // more than the least chunk
		if i == 0 {
			s.packs *= 2 // and slots used three times
		}
	}
	return s
}

// call is one all-reduce of the workload.
type call struct {
	shape
	ranks       int
	family      kernels.Family
	dtype       collective.DType
	op          collective.Op
	count       uint64
	send, recv  uint64 // offsets in the memory
	input, kept uint64
	seed        uint64
}

// calls is a round: calls that follow each other on the stream, out of place and
// in place, each with data of its own, all in the same buffers.
func calls(f kernels.Family, d collective.DType, ranks int, seed uint64) []*call {
	size := uint64(d.Size())
	per := kernels.PackBytes / size
	var out []*call
	mixed := f == Mixed
	for i := range callsOfRound {
		if mixed {
			f = pick(d, seed, i)
		}
		c := &call{shape: choose(f, i, uint64(ranks), seed), ranks: ranks, family: f, dtype: d, seed: seed*8 + uint64(i)}
		c.send, c.recv = sendOffset+1024, sendOffset+1024
		if i%2 == 0 { // out of place
			c.recv = recvOffset + 1024
		}
		c.input, c.kept = inputOffset+uint64(i)*bufferBytes, keptOffset+uint64(i)*bufferBytes
		c.count = c.packs * per
		if i > 0 || seed%2 == 0 { // or nothing is left behind the packs
			c.count += (3 + 4*uint64(i)) % per
		}
		if f == kernels.NVLSZeroCopy {
			c.outside = false
		} else {
			switch {
			case i == 2 && c.outside: // out of place, and no packs
				c.send, c.recv = c.send+size%kernels.PackBytes, c.recv+3*size%kernels.PackBytes
			case i == 3: // a head before the packs
				c.send += 3 * size % kernels.PackBytes
				c.recv = c.send
			case i == 4:
				c.recv += size
				if f == kernels.Packet { // single elements, several for each thread
					c.send += size
				}
			}
		}
		if i == 3 {
			c.op = collective.Avg
		}
		out = append(out, c)
	}
	return out
}

func (c *call) bytes() uint64 { return c.count * uint64(c.dtype.Size()) }

// launch plans the call for a rank.
func (c *call) launch(m *member) (collective.Prepared, error) {
	send, recv, staging := m.memory.At(c.send), m.memory.At(c.recv), m.memory.At(stagingOffset)
	full := collective.Call{Send: send, Recv: recv, Count: c.count, DType: c.dtype, Op: c.op}
	n, rank := c.ranks, m.Rank.Rank()
	span := collective.NewSpan(send.Local(), recv.Local(), c.count, c.dtype)
	if c.outside {
		span.Head, span.Packs = 0, 0
	}
	a := kernels.Args{Head: span.Head, Packs: span.Packs, Chunk: c.chunk}
	w := m.Workspace()
	for i := range n {
		r := (rank + i) % n
		switch c.family {
		case kernels.OneShot:
			a.PeerIn[i] = uint64(send.Peer(i))
		case kernels.Packet:
			a.PeerOut[i] = uint64(w.Inbox(i))
		case kernels.CopyIn:
			a.PeerIn[i] = uint64(staging.Peer(r))
		default:
			a.PeerIn[i], a.PeerOut[i] = uint64(send.Peer(r)), uint64(recv.Peer(r))
		}
	}
	if c.family == CopyEngine {
		// Slots come around, in the least chunks that there are, or in some whose
		// reduction is unrolled.
		t := collective.Tuning{Blocks: c.blocks, Threads: max(c.threads, kernels.MaxRanks), Chunk: 1, Slots: 2 + uint32((c.seed+c.seed/callsOfRound)%2)}
		if c.chunk > 16 {
			t.Chunk = 2048
		}
		return m.copies.Tuned(t).Prepare(full)
	}
	next, blocks := (rank+1)%n, c.blocks
	switch c.family {
	case kernels.Packet:
		packets := collective.CeilDiv(c.bytes(), 8)
		blocks = max(blocks, uint32(collective.CeilDiv(packets, packetSlots)))
		a.Chunk = collective.CeilDiv(packets, uint64(blocks))
		a.Slots, a.Scratch = packetSlots, uint64(w.Inbox(rank))
	case kernels.Push, kernels.PushBulk, kernels.Ring:
		a.OutsideChunk, a.SlotBytes = 3, 16*c.chunk+64
		if c.outside && c.threads < 20 {
			a.OutsideChunk = 20 // several for each thread
		}
		a.Slots, a.Scratch = pushSlots, uint64(w.Scratch(rank))
		if c.family == kernels.PushBulk { // more rounds, so that stages of results are filled again
			a.Slots, a.Chunk = kernels.BulkSlots, collective.CeilDiv(c.chunk, 2)
		}
		if c.family == kernels.Ring {
			a.NextScratch = uint64(w.Scratch(next))
			a.PeerOut[0] = uint64(recv.Peer(next))
		}
	case kernels.CopyIn, kernels.NVLSCopyIn:
		a.Chunk *= uint64(n)
		a.Scratch, a.MulticastIn = uint64(staging.Local()), uint64(m.channel.At(stagingOffset))
	case kernels.TwoShot, kernels.NVLSZeroCopy:
		a.Chunk = collective.CeilDiv(span.Packs, uint64(n))
		a.MulticastIn, a.MulticastOut = uint64(m.channel.At(c.send)), uint64(m.channel.At(c.recv))
	}
	return m.NewLaunch(c.family, full, collective.Geometry{Blocks: blocks, Threads: c.threads}, a)
}

// pattern is what stands where nothing was written.
func pattern(n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(0xa5 ^ i*7)
	}
	return b
}

// Round runs the calls of one seed on all ranks and compares all results. The
// error of a rank says what went wrong there.
func (t *Team) Round(f kernels.Family, d collective.DType, seed uint64) error {
	list := calls(f, d, t.Ranks, seed)
	prepared := make([][]collective.Prepared, t.Ranks)
	err := t.Do(func(m *member) error {
		m.Write(m.memory.At(blankOffset).Local(), pattern(bufferBytes))
		for _, c := range list {
			m.Write(m.memory.At(c.input).Local(), surround(c.data(m.Rank.Rank())))
			p, err := c.launch(m)
			if err != nil {
				return err
			}
			prepared[m.Rank.Rank()] = append(prepared[m.Rank.Rank()], p)
		}
		return nil
	})
	if err != nil {
		return &refusedError{err}
	}
	t.conductor.TurnTime = waitLimit / time.Duration(t.Ranks*waitTurns(f))
	t.conductor.Reseed(seed)
	t.replay(true)
	defer t.replay(false)
	return t.Do(func(m *member) error {
		if err := m.replay(list, prepared[m.Rank.Rank()]); err != nil {
			return err
		}
		for i, c := range list {
			if err := c.verify(m); err != nil {
				return fmt.Errorf("call %d, %w", i, err)
			}
		}
		return nil
	})
}

// refusedError is what kept a round from beginning.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "the kernel was not loaded: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// replay runs the calls as one graph, so that no host's speed has a part in it.
// The input of a call is put into its buffer, and its result taken out, between
// the launches: what comes before and behind a kernel on its rank's stream is all
// that orders these with what other ranks do.
func (m *member) replay(list []*call, prepared []collective.Prepared) error {
	at := func(offset uint64) device.Ptr { return m.memory.At(offset).Local() }
	return m.inGraph(func(s collective.Stream) error {
		var errs []error
		for i, c := range list {
			whole := guard + c.bytes() + guard
			if c.send != c.recv {
				errs = append(errs, s.Copy(at(c.recv-guard), at(blankOffset), whole))
			}
			errs = append(errs, s.Copy(at(c.send-guard), at(c.input), whole),
				prepared[i].Enqueue(s),
				s.Copy(at(c.kept), at(c.recv-guard), whole))
		}
		return errors.Join(errs...)
	})
}

// inGraph runs what enqueue puts on a stream as one graph.
func (m *member) inGraph(enqueue func(collective.Stream) error) error {
	s := m.Stream()
	if err := s.BeginCapture(); err != nil {
		return err
	}
	err := enqueue(s)
	g, ended := s.EndCapture()
	if err := errors.Join(err, ended); err != nil {
		return err
	}
	defer g.Close()
	if err := s.LaunchGraph(g); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return m.Group.Wait(ctx)
}

// surround puts guards around data.
func surround(data []byte) []byte {
	b := pattern(uint64(guard + len(data) + guard))
	copy(b[guard:], data)
	return b
}

// verify compares a result and what is around it.
func (c *call) verify(m *member) error {
	want := surround(c.expected())
	got := m.Read(m.memory.At(c.kept).Local(), uint64(len(want)))
	size := uint64(c.dtype.Size())
	for i := uint64(0); i < uint64(len(got)); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			return fmt.Errorf("%s of %d %s on rank %d of %d: byte %d of the result is %x, expected %x", c.op, c.count, c.dtype, m.Rank.Rank(), c.ranks, int64(i)-guard, got[i:i+size], want[i:i+size])
		}
	}
	return nil
}

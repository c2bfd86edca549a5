package grouptest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Guard is how many bytes before and after each buffer of a Case must be the
// test's own: they are filled with a pattern and must not change.
const Guard = 64

// Case is one all-reduce to check. Inputs are made from Seed, the rank and the
// element's index; in place is a Recv that equals Send.
type Case struct {
	Send, Recv collective.Buffer
	Count      uint64
	DType      collective.DType
	Op         collective.Op
	Seed       uint64
	// Source, if it has an address, is where the input stands until the stream
	// comes to the call: a peer that does not wait for this rank then reads the
	// pattern.
	Source collective.Buffer
	// Reused says that calls before and after this one have the same send buffer,
	// into which Source is copied: a peer that still reads it sees other data. It
	// is not checked then.
	Reused bool
}

func (c Case) String() string {
	place := "out of place"
	if c.inPlace() {
		place = "in place"
	}
	return fmt.Sprintf("%s of %d %s, %s, at %#x and %#x", c.Op, c.Count, c.DType, place, uint64(c.Send.Local())&0xffff, uint64(c.Recv.Local())&0xffff)
}

func (c Case) inPlace() bool { return c.Send == c.Recv }

func (c Case) bytes() uint64 { return c.Count * uint64(c.DType.Size()) }

// Call is the case as an all-reduce takes it.
func (c Case) Call() collective.Call {
	return collective.Call{Send: c.Send, Recv: c.Recv, Count: c.Count, DType: c.DType, Op: c.Op}
}

// Started is a case whose input is written and whose call is enqueued.
type Started struct {
	Case
	Prepared collective.Prepared
	mode     string // of the all-reduce
	rank     *Rank
	input    []byte
}

// Start writes the input, poisons the output and enqueues the call on the
// group's stream. It does not wait.
func (r *Rank) Start(a collective.AllReducer, c Case) *Started {
	s := r.Prepare(a, c)
	if from, n := c.Source.Local(), c.bytes(); from != 0 && n != 0 {
		r.Write(from, s.input)
		if !c.Reused {
			r.Write(c.Send.Local(), pattern(n))
		}
		r.OK(r.Stream().Copy(c.Send.Local(), from, n), "copying the input")
	}
	r.OK(s.Prepared.Enqueue(r.Stream()), "%s: enqueueing %v", s.mode, c)
	return s
}

// Prepare is Start without enqueueing.
func (r *Rank) Prepare(a collective.AllReducer, c Case) *Started {
	s := &Started{Case: c, mode: a.Mode(), rank: r, input: input(c, r.Rank())}
	r.Write(c.Recv.Local()-Guard, pattern(Guard+c.bytes()+Guard))
	if !c.Reused {
		r.Write(c.Send.Local()-Guard, pattern(Guard+c.bytes()+Guard))
		r.Write(c.Send.Local(), s.input)
	}
	var err error
	s.Prepared, err = a.Prepare(c.Call())
	r.OK(err, "%s: preparing %v", s.mode, c)
	return s
}

// Verify compares output, input and guards with what they must be. The stream
// must have been waited for.
func (s *Started) Verify() {
	s.verify(expected(s.Case, s.rank.Size()))
}

// VerifyTimes is Verify where each 32-bit integer has to be factor times what
// the one call would have given.
func (s *Started) VerifyTimes(factor uint32) {
	want := expected(s.Case, s.rank.Size())
	for b := want; len(b) > 0; b = b[4:] {
		binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)*factor)
	}
	s.verify(want)
}

// Poison overwrites the output.
func (s *Started) Poison() { s.rank.Write(s.Recv.Local(), pattern(s.bytes())) }

func (s *Started) verify(want []byte) {
	r := s.rank
	size := uint64(s.DType.Size())
	got := s.guarded("receive", s.Recv.Local())
	for i := range s.Count {
		if g, w := got[i*size:(i+1)*size], want[i*size:(i+1)*size]; !bytes.Equal(g, w) {
			r.Fatalf("%s, %d ranks: %v (%s): element %d is %x, expected %x", s.mode, r.Size(), s.Case, s.Prepared.Algorithm(), i, g, w)
		}
	}
	if !s.inPlace() && !s.Reused && !bytes.Equal(s.guarded("send", s.Send.Local()), s.input) {
		r.Fatalf("%s, %d ranks: %v: the send buffer has changed", s.mode, r.Size(), s.Case)
	}
}

// guarded reads a buffer and checks what is around it.
func (s *Started) guarded(name string, at device.Ptr) []byte {
	n := s.bytes()
	all := s.rank.Read(at-Guard, Guard+n+Guard)
	want := pattern(Guard + n + Guard)
	if !bytes.Equal(all[:Guard], want[:Guard]) || !bytes.Equal(all[Guard+n:], want[Guard+n:]) {
		s.rank.Fatalf("%s, %d ranks: %v (%s): bytes around the %s buffer were changed: %x before, %x after", s.mode, s.rank.Size(), s.Case, s.Prepared.Algorithm(), name, all[:Guard], all[Guard+n:])
	}
	return all[Guard : Guard+n]
}

// Close frees the prepared call. Nothing that it enqueued may be under way.
func (s *Started) Close() { s.rank.OK(s.Prepared.Close(), "%s: closing a prepared call", s.mode) }

// Check runs one case and verifies it.
func (r *Rank) Check(a collective.AllReducer, c Case) {
	s := r.Start(a, c)
	r.Wait()
	s.Verify()
	s.Close()
}

func pattern(n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(0xa5 ^ i*7)
	}
	return b
}

package sim_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
)

// A session with the weak memory model is weak for all that attach, whose kernels
// see, once they start, what others have stored and copied.
func TestWeakSession(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: 64 << 20, Weak: true, Seed: 42})
	other, err := sim.Attach(s.Files())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if !other.Weak() || other.Seed() != 42 {
		t.Fatalf("weak is %v, the seed %d", other.Weak(), other.Seed())
	}
	a, b := newBench(t, open(t, s, 0)), newBench(t, open(t, other, 1))
	mem, mine := a.alloc(sim.Granule)
	f, err := mem.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	imported, err := b.Import(f, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := imported.Map()
	if err != nil {
		t.Fatal(err)
	}
	run := func(w *bench, at device.Ptr, value uint32) {
		t.Helper()
		if err := w.stream.Launch(w.function("store"), 1, 32, 0, storeArgs(at, value)); err != nil {
			t.Fatal(err)
		}
		if err := w.stream.Copy(at+64, at, 4); err != nil {
			t.Fatal(err)
		}
		if err := w.stream.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(20) {
		run(a, mine, 2*i)
		run(b, theirs, 2*i+1)
		for _, off := range []device.Ptr{0, 64} {
			var word [4]byte
			if err := a.CopyToHost(word[:], mine+off); err != nil {
				t.Fatal(err)
			}
			if got := binary.LittleEndian.Uint32(word[:]); got != 2*i+1 {
				t.Fatalf("round %d: the word at %d is %d", i, off, got)
			}
		}
	}
	if err := imported.Unmap(); err != nil {
		t.Fatal(err)
	}
	if err := imported.Close(); err != nil {
		t.Fatal(err)
	}
}

// Without the history no rank may join: it would take the model for the host's.
func TestWeakSessionNeedsHistory(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: 64 << 20, Weak: true})
	files := s.Files()
	if got, err := sim.Attach(files[:len(files)-1]); err == nil {
		got.Close()
		t.Error("a session without its history was joined")
	}
}

// What a graph's edges say is all that its branches know of each other, and an edge
// can be left out.
func TestGraphEdgesOrder(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		asked := 0
		s := create(t, sim.Options{Devices: 1, MemoryBytes: 64 << 20, Weak: true, Seed: 7,
			Process: sim.Process{DropEdge: func(from, to string) bool {
				asked++
				if from == "store" && to != "copy on branch 1" {
					t.Errorf("edge from %s to %s", from, to)
				}
				return dropped && from == "store"
			}}})
		b := newBench(t, open(t, s, 0))
		_, at := b.alloc(sim.Granule)
		side, err := b.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for i := range uint32(30) {
			var events [2]device.Event
			for j := range events {
				if events[j], err = b.NewEvent(); err != nil {
					t.Fatal(err)
				}
			}
			g := func() device.Graph {
				if err := b.stream.BeginCapture(); err != nil {
					t.Fatal(err)
				}
				for _, err := range []error{
					b.stream.Launch(b.function("store"), 1, 32, 0, storeArgs(at, i+1)),
					b.stream.Record(events[0]), side.WaitEvent(events[0]),
					side.Copy(at+64, at, 4),
					side.Record(events[1]), b.stream.WaitEvent(events[1]),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				g, err := b.stream.EndCapture()
				if err != nil {
					t.Fatal(err)
				}
				return g
			}()
			if err := b.stream.LaunchGraph(g); err != nil {
				t.Fatal(err)
			}
			if err := b.stream.Wait(context.Background()); err != nil {
				if dropped {
					wrong++ // the store came behind the copy's read
					break
				}
				t.Fatal(err)
			}
			var word [4]byte
			if err := b.CopyToHost(word[:], at+64); err != nil {
				t.Fatal(err)
			}
			if binary.LittleEndian.Uint32(word[:]) != i+1 {
				wrong++
			}
		}
		if asked == 0 || dropped != (wrong > 0) {
			t.Errorf("the edge left out: %v; %d wrong of 30, %d edges", dropped, wrong, asked)
		}
	}
}

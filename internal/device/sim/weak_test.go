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

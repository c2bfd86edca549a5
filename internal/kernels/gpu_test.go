package kernels_test

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/cuda"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// These run on one real GPU and show what needs no link: how fast the kernels
// move data inside the GPU, and what a launch costs. Rank 1 is a place in memory
// whose flags say that it has always arrived already.

const (
	rankBytes = 40 << 20  // signals, scratch
	scratchAt = 64 << 10  // behind the signals
	message   = 256 << 20 // bytes
	arrivedAt = 256 + 4*4*kernels.MaxBlocks
)

type lone struct {
	t      testing.TB
	dev    device.Device
	stream device.Stream
	lib    *kernels.Library
	rank   [2]device.Ptr
	buffer [4]device.Ptr // in and out of rank 0, in and out of rank 1
	stage  device.Ptr
}

func openLone(t testing.TB) *lone {
	if nodes, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(nodes) == 0 {
		t.Skip("no GPU (/dev/nvidia0)")
	}
	driver, err := cuda.Open(cuda.Options{MulticastOff: "this test needs no multicast"})
	if err != nil {
		t.Fatal(err)
	}
	l := &lone{t: t}
	if l.dev, err = driver.Open(0); err != nil {
		t.Fatal(err)
	}
	if l.stream, err = l.dev.NewStream(); err != nil {
		t.Fatal(err)
	}
	l.lib = kernels.NewLibrary(l.dev)
	for i := range l.rank {
		l.rank[i] = l.alloc(rankBytes)
	}
	for i := range l.buffer {
		l.buffer[i] = l.alloc(message)
	}
	l.stage = l.alloc(64 << 20)
	peers := make([]byte, 16)
	binary.LittleEndian.PutUint64(peers, uint64(l.rank[0]))
	binary.LittleEndian.PutUint64(peers[8:], uint64(l.rank[1]))
	l.must(l.dev.CopyToDevice(l.rank[0]+kernels.PeersOffset, peers))
	arrived := make([]byte, 4*kernels.MaxBlocks*kernels.MaxRanks)
	for b := range kernels.MaxBlocks {
		binary.LittleEndian.PutUint32(arrived[4*(b*kernels.MaxRanks+1):], 1<<30)
	}
	l.must(l.dev.CopyToDevice(l.rank[0]+arrivedAt, arrived))
	return l
}

func (l *lone) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%+v", err)
	}
}

func (l *lone) alloc(bytes uint64) device.Ptr {
	m, err := l.dev.Alloc(bytes)
	l.must(err)
	p, err := m.Map()
	l.must(err)
	l.t.Cleanup(func() { m.Unmap(); m.Close() })
	return p
}

func (l *lone) args(bytes uint64) kernels.Args {
	a := kernels.Args{
		Self: uint64(l.rank[0]), In: uint64(l.buffer[0]), Out: uint64(l.buffer[1]), Count: bytes / 4, Packs: bytes / 16,
		Scratch: uint64(l.rank[0]) + scratchAt, Timeout: uint64(time.Second), Ranks: 2,
	}
	return a
}

// best is the shortest of n times of one launch, by events.
func (l *lone) best(n int, enqueue func() error) time.Duration {
	var shortest time.Duration
	for range n {
		start, err := l.dev.NewEvent()
		l.must(err)
		end, err := l.dev.NewEvent()
		l.must(err)
		l.must(l.stream.Record(start))
		l.must(enqueue())
		l.must(l.stream.Record(end))
		l.must(l.stream.Wait(context.Background()))
		d, err := end.Since(start)
		l.must(err)
		if shortest == 0 || d < shortest {
			shortest = d
		}
		start.Close()
		end.Close()
	}
	status := make([]byte, kernels.StatusBytes)
	l.must(l.dev.CopyToHost(status, l.rank[0]))
	if s, failed := kernels.DecodeStatus(status); failed {
		l.t.Fatal(s)
	}
	return shortest
}

// Bytes read and written inside the GPU over time, against a copy's.
func TestLocalTraffic(t *testing.T) {
	l := openLone(t)
	sms := uint32(l.dev.Info().SMs)
	copied := l.best(10, func() error { return l.stream.Copy(l.buffer[1], l.buffer[0], message) })
	rate := func(bytes float64, d time.Duration) float64 { return bytes / d.Seconds() / 1e9 }
	copyRate := rate(2*message, copied)
	t.Logf("%s: copy of %d MiB: %.1f us, %.0f GB/s read and written", l.dev.Info().Name, message>>20, micro(copied), copyRate)

	twoShot := l.args(message)
	twoShot.PeerIn = [8]uint64{uint64(l.buffer[0]), uint64(l.buffer[2])}
	twoShot.PeerOut = [8]uint64{uint64(l.buffer[1]), uint64(l.buffer[3])}
	twoShot.Chunk = twoShot.Packs / 2
	oneShot := twoShot
	push := l.args(message)
	push.PeerOut = twoShot.PeerOut
	push.Slots = 3
	copyIn := l.args(message)
	copyIn.Scratch = uint64(l.stage)
	copyIn.PeerIn = [8]uint64{uint64(l.stage), uint64(l.stage) + 32<<20}

	for _, c := range []struct {
		family  kernels.Family
		args    kernels.Args
		blocks  uint32
		traffic float64 // bytes read and written, in messages
	}{
		{kernels.TwoShot, twoShot, sms, 2},
		{kernels.OneShot, oneShot, sms, 3},
		{kernels.Push, push, sms, 3},
		{kernels.PushBulk, push, sms, 3},
		{kernels.CopyIn, copyIn, 32, 6},
		{kernels.CopyIn, copyIn, sms, 6},
	} {
		for _, element := range []string{"float", "bfloat16"} {
			args := c.args
			if element != "float" {
				args.Count *= 2
			}
			if c.family == kernels.Push || c.family == kernels.PushBulk {
				args.SlotBytes = min(64<<10, (32<<20)/uint64(c.blocks*args.Slots)/128*128)
				args.Chunk = args.SlotBytes / 16
			}
			if c.family == kernels.CopyIn {
				args.Chunk = 32 << 20 / uint64(c.blocks) / 3 / 16
			}
			fn, err := l.lib.Function(c.family, element, "sum")
			l.must(err)
			d := l.best(10, func() error { return l.stream.Launch(fn, c.blocks, 512, c.family.SharedBytes(), args.Bytes()) })
			r := rate(c.traffic*message, d)
			at := fn.Attributes()
			t.Logf("%-9s %-8s %3dx512: %8.1f us, %5.0f GB/s in the GPU, %3.0f %% of the copy; %d registers, %d bytes of local memory",
				c.family, element, c.blocks, micro(d), r, 100*r/copyRate, at.Registers, at.LocalBytes)
		}
	}
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// What one launch of an all-reduce costs the host, and what it takes on the GPU
// alone and in a graph.
func TestLaunchCost(t *testing.T) {
	l := openLone(t)
	args := l.args(1024)
	args.PeerIn = [8]uint64{uint64(l.buffer[0]), uint64(l.buffer[2])}
	args.PeerOut = [8]uint64{uint64(l.buffer[1]), uint64(l.buffer[3])}
	args.Chunk = args.Packs / 2
	fn, err := l.lib.Function(kernels.TwoShot, "float", "sum")
	l.must(err)
	plain := func() error { return l.stream.Launch(fn, 1, 64, 0, args.Bytes()) }
	l.must(l.stream.BeginCapture())
	l.must(plain())
	one, err := l.stream.EndCapture()
	l.must(err)
	defer one.Close()
	const n = 200
	for _, c := range []struct {
		name   string
		launch func() error
	}{{"a kernel", plain}, {"a graph of one kernel", func() error { return l.stream.LaunchGraph(one) }}} {
		for range 50 {
			l.must(c.launch())
		}
		l.must(l.stream.Wait(context.Background()))
		host, whole := time.Hour, time.Hour
		for range 20 {
			start := time.Now()
			for range n {
				l.must(c.launch())
			}
			host = min(host, time.Since(start)/n)
			l.must(l.stream.Wait(context.Background()))
			whole = min(whole, time.Since(start)/n)
		}
		allocs := testing.AllocsPerRun(100, func() { l.must(c.launch()) })
		l.must(l.stream.Wait(context.Background()))
		t.Logf("launching %s: %.2f us of host time, %.2f us until done, each of %d in a row (shortest of 20); %g Go allocations",
			c.name, micro(host), micro(whole), n, allocs)
		if allocs != 0 {
			t.Errorf("launching %s makes %g Go allocations", c.name, allocs)
		}
	}
	l.must(l.stream.BeginCapture())
	for range n {
		l.must(plain())
	}
	g, err := l.stream.EndCapture()
	l.must(err)
	defer g.Close()
	d := l.best(20, func() error { return l.stream.LaunchGraph(g) })
	t.Logf("one kernel in a graph of %d: %.2f us", n, micro(d)/n)
}

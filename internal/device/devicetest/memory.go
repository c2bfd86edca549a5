package devicetest

import (
	"bytes"
	"math/bits"
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

func testInfo(r *rank) {
	info := r.Info()
	switch {
	case info.Name == "":
		r.failf("the device has no name")
	case info.UUID == (device.UUID{}):
		r.failf("the device has no UUID")
	case info.Major < 8:
		r.failf("compute capability %s: the kernels need 8.0", info.ComputeCapability())
	case !info.VMM || !info.PosixFD:
		r.failf("virtual memory management %v, export as file descriptor %v: both are needed", info.VMM, info.PosixFD)
	case info.SMs < 1 || info.MaxThreadsPerBlock < 512 || info.MaxBlocksPerSM < 1:
		r.failf("%d SMs, %d threads a block, %d blocks an SM", info.SMs, info.MaxThreadsPerBlock, info.MaxBlocksPerSM)
	case info.MulticastOff != "" && info.Multicast:
		r.failf("multicast is reported although %s is on", info.MulticastOff)
	}
	free, total, err := r.MemInfo()
	r.ok(err, "MemInfo")
	if free > total || total > info.MemoryBytes || total == 0 {
		r.failf("%d bytes free of %d, the device has %d", free, total, info.MemoryBytes)
	}
	if bits.OnesCount64(r.granule) != 1 {
		r.failf("granularity %d is no power of two", r.granule)
	}
}

func testAllocate(r *rank) {
	for _, n := range []uint64{0, 1, r.granule - 1, r.granule + 4096} {
		_, err := r.Alloc(n)
		r.refused(err, "Alloc of a size that is no multiple of the granularity", device.InvalidValue)
	}
	_, err := r.Alloc((r.Info().MemoryBytes/r.granule + 2) * r.granule)
	r.refused(err, "Alloc of more than the device has", device.OutOfMemory)

	// Zero, also when the memory had another owner before.
	for range 2 {
		m, p := r.alloc(2 * r.granule)
		if m.Bytes() != 2*r.granule {
			r.failf("Bytes() = %d, expected %d", m.Bytes(), 2*r.granule)
		}
		words := int(2 * r.granule / 4)
		r.expect("new memory", p, words, func(uint32) uint32 { return 0 })
		r.write(p, ramp(1, words))
		r.free(m)
	}
}

func testMap(r *rank) {
	m, err := r.Alloc(r.granule)
	r.ok(err, "Alloc")
	r.refused(m.Unmap(), "Unmap of memory that is not mapped")
	p := r.mapped(m)
	_, err = m.Map()
	r.refused(err, "a second Map")
	r.refused(m.Close(), "Close of mapped memory")
	r.write(p, ramp(5, 100))
	r.ok(m.Unmap(), "Unmap")
	p = r.mapped(m)
	r.expect("memory mapped again", p, 100, func(i uint32) uint32 { return 5 + i })

	other, q := r.alloc(r.granule)
	if p == q {
		r.failf("two allocations have the address %#x", p)
	}
	r.expect("other memory", q, 100, func(uint32) uint32 { return 0 })
	r.free(m, other)
}

func testHostCopies(r *rank) {
	m, p := r.alloc(3 * r.granule)
	n := 3 * int(r.granule)
	image := make([]byte, n)
	put := func(at, length int) {
		part := image[at : at+length]
		for i := range part {
			part[i] = byte(at + 7*i + 1)
		}
		r.ok(r.CopyToDevice(p+device.Ptr(at), part), "CopyToDevice(offset %d, %d bytes)", at, length)
	}
	put(0, 1)
	put(3, 1001)
	put(int(r.granule)-5, 11)
	put(int(r.granule)+100, int(r.granule)+100)
	put(n-1, 1)
	put(n, 0)
	got := make([]byte, n)
	r.ok(r.CopyToHost(got, p), "CopyToHost")
	if !bytes.Equal(got, image) {
		for i := range got {
			if got[i] != image[i] {
				r.failf("byte %d is %d, expected %d", i, got[i], image[i])
			}
		}
	}
	r.free(m)
}

func testImportOther(r *rank) {
	f, err := os.Open(os.DevNull)
	r.ok(err, "opening %s", os.DevNull)
	defer f.Close()
	_, err = r.Import(f, r.granule)
	r.refused(err, "Import of a file that is no exported memory")
}

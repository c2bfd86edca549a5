package sim

import (
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// allocation is one range of a device's memory in the shared table. ID is 0
// while the entry is free and is written last.
type allocation struct {
	ID     uint64
	Offset uint64 // in the device's file, a multiple of Granule
	Bytes  uint64
	Device uint32
	_      uint32
	Refs   references
}

// allocate takes the first free range of the device that is large enough.
// Ranges are contiguous, which a real GPU's need not be: a session that holds
// many odd pieces can run out earlier, and the error says so.
func (s *Session) allocate(t *control, dev int, bytes uint64) (*allocation, error) {
	s.sweep(t)
	var (
		entry *allocation
		taken []*allocation
	)
	for i := range t.Allocations {
		a := &t.Allocations[i]
		switch {
		case a.ID == 0 && entry == nil:
			entry = a
		case a.ID != 0 && int(a.Device) == dev:
			taken = append(taken, a)
		}
	}
	if entry == nil {
		return nil, refuse(device.OutOfMemory, "the session's table holds %d allocations and is full", maxAllocations)
	}
	sort.Slice(taken, func(i, j int) bool { return taken[i].Offset < taken[j].Offset })
	var at, free, largest uint64
	found := false
	for i := 0; i <= len(taken) && !found; i++ {
		end := t.MemoryBytes
		if i < len(taken) {
			end = taken[i].Offset
		}
		gap := end - at
		free += gap
		largest = max(largest, gap)
		if gap >= bytes {
			found = true
			break
		}
		if i < len(taken) {
			at = taken[i].Offset + taken[i].Bytes
		}
	}
	if !found {
		return nil, refuse(device.OutOfMemory, "%d bytes were asked for; %d of %d are free, the largest piece has %d", bytes, free, t.MemoryBytes, largest)
	}
	t.LastID++
	entry.Offset, entry.Bytes, entry.Device = at, bytes, uint32(dev)
	entry.Refs = references{}
	entry.Refs[s.slot] = 1
	atomic.StoreUint64(&entry.ID, t.LastID)
	return entry, nil
}

// free gives the range back. Its pages return to the system, so that the next
// owner reads zeros.
func (s *Session) free(a *allocation) {
	// MADV_REMOVE on a memory file cannot fail but for a mapping that is not
	// there; then the entry stays, and with it the range, rather than handing
	// somebody's data to the next owner.
	if err := unix.Madvise(s.mem[a.Device][a.Offset:a.Offset+a.Bytes], unix.MADV_REMOVE); err != nil {
		return
	}
	if err := s.forgetHistory(int(a.Device), a.Offset, a.Bytes); err != nil {
		return
	}
	atomic.StoreUint64(&a.ID, 0)
}

// findAllocation looks an allocation up by its number.
func findAllocation(t *control, id uint64) *allocation {
	for i := range t.Allocations {
		if t.Allocations[i].ID == id {
			return &t.Allocations[i]
		}
	}
	return nil
}

// freeBytes counts what is left on a device.
func (s *Session) freeBytes(t *control, dev int) uint64 {
	s.sweep(t)
	free := t.MemoryBytes
	for i := range t.Allocations {
		if a := &t.Allocations[i]; a.ID != 0 && int(a.Device) == dev {
			free -= a.Bytes
		}
	}
	return free
}

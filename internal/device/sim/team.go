package sim

import (
	"math/bits"
	"sync/atomic"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// team is a multicast object in the shared table. ID is 0 while the entry is
// free and is written last.
type team struct {
	ID      uint64
	Bytes   uint64
	Size    uint64 // devices in the team
	Members uint64 // bit per device added
	Refs    references

	Bindings [maxBindings]binding
}

// binding is memory of one device behind a range of a multicast object.
type binding struct {
	Used   uint32
	Owner  uint32 // process that bound it: the binding ends with it
	Device uint32
	_      uint32
	At     uint64 // in the object
	Bytes  uint64
	Offset uint64 // in the device's memory
}

// free gives the slot back, empty.
func (tm *team) free() {
	for i := range tm.Bindings {
		tm.Bindings[i].Used = 0
	}
	atomic.StoreUint64(&tm.ID, 0)
}

func (tm *team) complete() bool { return uint64(bits.OnesCount64(tm.Members)) == tm.Size }

// missing is how many devices have not been added.
func (tm *team) missing() int { return int(tm.Size) - bits.OnesCount64(tm.Members) }

// createTeam takes a free slot.
func (s *Session) createTeam(t *control, size int, bytes uint64) (*team, error) {
	s.sweep(t)
	for i := range t.Teams {
		tm := &t.Teams[i]
		if tm.ID != 0 {
			continue
		}
		t.LastID++
		tm.Bytes, tm.Size, tm.Members = bytes, uint64(size), 0
		tm.Refs = references{}
		tm.Refs[s.slot] = 1
		atomic.StoreUint64(&tm.ID, t.LastID)
		return tm, nil
	}
	return nil, refuse(device.OutOfMemory, "all %d multicast slots are taken", maxTeams)
}

func findTeam(t *control, id uint64) *team {
	for i := range t.Teams {
		if t.Teams[i].ID == id {
			return &t.Teams[i]
		}
	}
	return nil
}

// bind enters a binding. The range must not overlap another one of the device.
func (s *Session) bind(t *control, tm *team, b binding) error {
	slot := -1
	for i := range tm.Bindings {
		o := &tm.Bindings[i]
		switch {
		case o.Used == 0:
			if slot < 0 {
				slot = i
			}
		case o.Device == b.Device && o.At < b.At+b.Bytes && b.At < o.At+o.Bytes:
			return refuse(device.InvalidValue, "offset %d, %d bytes overlap what is bound at offset %d, %d bytes", b.At, b.Bytes, o.At, o.Bytes)
		}
	}
	if slot < 0 {
		return refuse(device.OutOfMemory, "the multicast object holds %d bindings and is full", maxBindings)
	}
	b.Used = 0
	tm.Bindings[slot] = b
	atomic.StoreUint32(&tm.Bindings[slot].Used, 1)
	atomic.AddUint64(&t.Epoch, 1)
	return nil
}

// unbind ends a binding, which must be given exactly as it was bound.
func (s *Session) unbind(t *control, tm *team, dev int, at, bytes uint64) error {
	for i := range tm.Bindings {
		b := &tm.Bindings[i]
		if b.Used != 0 && int(b.Device) == dev && b.At == at && b.Bytes == bytes && int(b.Owner) == s.slot {
			b.Used = 0
			atomic.AddUint64(&t.Epoch, 1)
			return nil
		}
	}
	return refuse(device.InvalidValue, "nothing was bound by this process at offset %d with %d bytes", at, bytes)
}

// views gives one page of every device's memory behind an offset of the
// object, in the order of the devices' ordinals.
func (s *Session) views(id, offset uint64) (views [][]byte, err error) {
	err = s.locked(func(t *control) error {
		tm := findTeam(t, id)
		if tm == nil {
			return refuse(device.InvalidHandle, "the multicast object is gone")
		}
		for rest := tm.Members; rest != 0; rest &= rest - 1 {
			dev := bits.TrailingZeros64(rest)
			view := s.view(tm, dev, offset)
			if view == nil {
				return refuse(device.IllegalAddress, "device %s has no memory bound at offset %d of the multicast object", s.uuid(dev), offset)
			}
			views = append(views, view)
		}
		return nil
	})
	return views, err
}

// view is the page of one device, nil where nothing is bound.
func (s *Session) view(tm *team, dev int, offset uint64) []byte {
	for i := range tm.Bindings {
		b := &tm.Bindings[i]
		if b.Used != 0 && int(b.Device) == dev && offset >= b.At && offset+Granule <= b.At+b.Bytes {
			at := b.Offset + (offset - b.At)
			return s.mem[dev][at : at+Granule]
		}
	}
	return nil
}

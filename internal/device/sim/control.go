package sim

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

const (
	maxDevices     = 64
	maxMemory      = 64 << 30 // per device: what one window of addresses takes in easily
	maxProcesses   = 256
	maxAllocations = 4096
	maxTeams       = 128 // multicast objects; as many as an NVSwitch system has slots
	maxBindings    = 1024

	// lockPatience bounds the wait for the control file's lock. It is held for
	// microseconds; only a stopped process can hold it longer.
	lockPatience = 30 * time.Second
)

var magic = [8]byte{'N', 'V', 'L', 'S', 'S', 'I', 'M', '1'}

// Locks on the control file are taken at offsets far behind its end: one byte
// for the tables, one for the life of each process, and one for each exported
// object, at descriptorBase plus its number.
const (
	tableByte      = 1 << 40
	processBase    = 1<<40 + 1
	descriptorBase = 1 << 41
)

// control is the content of the control file. Everything behind Files is
// changed only under the lock. A process can be killed between any two stores,
// so that every record is written first and marked as used last.
type control struct {
	Magic   [8]byte
	Layout  uint32 // size of this struct: its version
	Devices uint32
	Session [16]byte

	MemoryBytes          uint64
	SMs, BlocksPerSM     uint32
	Major, Minor         uint32
	MulticastMinimum     uint64
	MulticastRecommended uint64
	Files                [maxDevices]fileID
	Weak                 uint32 // 1: the weak memory model
	_                    uint32
	Seed                 uint64

	LastID uint64 // of allocations and teams; never used twice
	// Epoch changes with every binding made or ended. It is read without the
	// lock: a device that sees a new epoch forgets what it resolved.
	Epoch uint64

	Processes   [maxProcesses]uint32 // 1: taken
	Allocations [maxAllocations]allocation
	Teams       [maxTeams]team
}

// references count the handles that each process holds on one object.
type references [maxProcesses]uint16

func (r *references) any() bool {
	for _, n := range r {
		if n != 0 {
			return true
		}
	}
	return false
}

// add counts one more handle of a process.
func (r *references) add(slot int) error {
	if r[slot] == math.MaxUint16 {
		return refuse(device.OutOfMemory, "this process has %d handles on the object already", math.MaxUint16)
	}
	r[slot]++
	return nil
}

// locked runs f with the tables locked against every thread and process.
func (s *Session) locked(f func(*control) error) error {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: tableByte, Len: 1}
	deadline := time.Now().Add(lockPatience)
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		err := unix.FcntlFlock(s.own.Fd(), unix.F_OFD_SETLK, &lk)
		if err == nil {
			break
		}
		if err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
			return refuse(device.OperatingSystem, "locking the session's tables: %v", err)
		}
		if time.Now().After(deadline) {
			return refuse(device.OperatingSystem, "another process has held the session's tables for %v: it is stopped", lockPatience)
		}
		time.Sleep(wait)
	}
	defer func() {
		lk.Type = unix.F_UNLCK
		_ = unix.FcntlFlock(s.own.Fd(), unix.F_OFD_SETLK, &lk) // cannot fail on a lock that is held
	}()
	return f(s.ctl)
}

// heldByOthers reports whether another open file description has a lock on
// this byte of the control file.
func (s *Session) heldByOthers(at int64) bool {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
	if err := unix.FcntlFlock(s.own.Fd(), unix.F_OFD_GETLK, &lk); err != nil {
		return true // unknown: keep what it protects
	}
	return lk.Type != unix.F_UNLCK
}

// join takes a free place in the process table and the lock that shows that
// this process lives.
func (s *Session) join(t *control) error {
	s.sweep(t)
	for i := range t.Processes {
		if t.Processes[i] != 0 {
			continue
		}
		lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: processBase + int64(i), Len: 1}
		if err := unix.FcntlFlock(s.own.Fd(), unix.F_OFD_SETLK, &lk); err != nil {
			return fmt.Errorf("locking place %d of the process table: %w", i, err)
		}
		t.Processes[i] = 1
		s.slot = i
		return nil
	}
	return fmt.Errorf("%d processes use this session already", maxProcesses)
}

// forget ends all references and bindings of one process.
func (s *Session) forget(t *control, slot int) {
	for i := range t.Teams {
		tm := &t.Teams[i]
		if tm.ID == 0 {
			continue
		}
		tm.Refs[slot] = 0
		for j := range tm.Bindings {
			if b := &tm.Bindings[j]; b.Used != 0 && int(b.Owner) == slot {
				b.Used = 0
			}
		}
	}
	for i := range t.Allocations {
		t.Allocations[i].Refs[slot] = 0
	}
	t.Processes[slot] = 0
	atomic.AddUint64(&t.Epoch, 1)
}

// sweep gives back what nobody holds any more: the references of processes that
// ended without closing, and objects that neither a process nor an exported
// descriptor refers to. It runs whenever something is allocated, released or
// counted, so that what a killed process leaves lasts until the next such call.
func (s *Session) sweep(t *control) {
	for i, used := range t.Processes {
		if used != 0 && i != s.slot && !s.heldByOthers(processBase+int64(i)) {
			s.forget(t, i)
		}
	}
	for i := range t.Teams {
		tm := &t.Teams[i]
		if tm.ID != 0 && !tm.Refs.any() && !s.heldByOthers(descriptorBase+int64(tm.ID)) {
			tm.free()
			atomic.AddUint64(&t.Epoch, 1)
		}
	}
	for i := range t.Allocations {
		a := &t.Allocations[i]
		if a.ID != 0 && !a.Refs.any() && !s.heldByOthers(descriptorBase+int64(a.ID)) {
			s.free(a)
		}
	}
}

// export makes a descriptor for the object with this number: the control file,
// opened once more and only for reading, with the number as its file position
// and a shared lock on the number's byte. Copies of the descriptor in other
// processes, and those under way in a socket, keep position and lock alive; the
// last one closed ends them. So a descriptor keeps its object alive, as CUDA's
// does, and cannot be mistaken for one of another session.
func (s *Session) export(id uint64) (*os.File, error) {
	f, err := reopen(s.files[0], os.O_RDONLY)
	if err != nil {
		return nil, refuse(device.OperatingSystem, "%v", err)
	}
	at := descriptorBase + int64(id)
	lk := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: at, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk); err != nil {
		f.Close()
		return nil, refuse(device.OperatingSystem, "locking an exported descriptor: %v", err)
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		f.Close()
		return nil, refuse(device.OperatingSystem, "marking an exported descriptor: %v", err)
	}
	return f, nil
}

// exported reads the number of the object behind a descriptor.
func (s *Session) exported(f *os.File) (uint64, error) {
	if f == nil {
		return 0, refuse(device.InvalidValue, "no file")
	}
	got, err := identityOf(f)
	if err != nil {
		return 0, refuse(device.InvalidValue, "%v", err)
	}
	want, err := identityOf(s.own)
	if err != nil {
		return 0, refuse(device.OperatingSystem, "%v", err)
	}
	if got != want {
		var head [8]byte
		if _, err := f.ReadAt(head[:], 0); err == nil && head == magic {
			return 0, refuse(device.InvalidHandle, "the descriptor was exported in another session of software GPUs")
		}
		return 0, refuse(device.InvalidHandle, "the descriptor is no exported memory of a software GPU")
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, refuse(device.InvalidHandle, "reading the descriptor: %v", err)
	}
	if at <= descriptorBase {
		return 0, refuse(device.InvalidHandle, "the descriptor is a file of the session, but no exported object")
	}
	return uint64(at - descriptorBase), nil
}

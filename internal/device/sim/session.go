// Package sim is the software device: a driver of the device contract whose
// GPUs are software and whose all else is real. Ranks are real processes, GPU
// memory is real shared memory, what is exported is a real file descriptor, and
// kernels are the PTX that ships, executed by package exec.
//
// Rules:
//
//   - A Session is one set of software GPUs, shared by all ranks of a node. It
//     is a few memory files (memfd_create) and has no name in any file system:
//     the first rank makes it, the others get its descriptors over a socket, and
//     it is gone when the last of them ends, however that happens.
//   - What processes share lives in the control file, changed only under its
//     lock. The lock, and the sign that a process lives, are locks of an open
//     file description, which the kernel drops when a process ends. No process
//     id is stored or compared.
//   - Device memory is memory of the node: it counts where a process's shared
//     memory counts (a container's or a job's limit), whatever size /dev/shm has,
//     and only what was written takes any.
//   - The rules of the CUDA driver are enforced with the driver's error numbers
//     where the driver would answer with undefined behaviour too.
//   - Nothing measured here is a property of hardware: Info.Simulated is true.
package sim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Granule is the unit of physical memory and of mappings, in bytes. It is the
// page size of package exec and the allocation granularity of the device.
const Granule = 2 << 20

// TraceVariable names the environment variable with the file to which every
// driver call of the process is appended, one line a call: the process's number
// in the session, the device, the call of CUDA that it stands for with its
// arguments, and the result.
//
//	p1 gpu1 cuMemCreate(bytes=2097152, POSIX_FILE_DESCRIPTOR) = CUDA_SUCCESS
const TraceVariable = "NVLS_ALLREDUCE_SIM_TRACE"

// Session is one process's hold on a set of software GPUs. Several sessions
// attached to the same files in one process count as several processes.
type Session struct {
	Process

	files   []*os.File // control, one per device, in the weak model the history; passed to other ranks
	own     *os.File   // the control file, opened once more: carries our locks
	ctlMap  []byte
	ctl     *control
	mem     [][]byte // per device: its whole memory
	past    []byte   // weak memory model: what history is in
	history *exec.History
	slot    int // in the process table
	id      string

	tableMu sync.Mutex // with the lock on the control file

	mu        sync.Mutex // guards what follows
	calls     map[string]int
	open      map[*gpu]struct{}
	opened    int // devices opened so far
	closed    bool
	traceMu   sync.Mutex
	traceFile *os.File

	stop     chan struct{} // closed by Close: ends waits
	stopOnce sync.Once
}

// Create makes a session. The error is a *failure.Error.
func Create(o Options) (*Session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newSession()
	s.Use(o.Process)
	if err := s.create(o); err != nil {
		s.Close()
		return nil, failure.Wrap(failure.Internal, err, "cannot create a session of %d software GPUs", o.Devices)
	}
	if err := s.enter(); err != nil {
		s.Close()
		return nil, err
	}
	s.Use(o.Process)
	return s, nil
}

// Attach joins the session whose Files another process passed on. The files
// may be closed afterwards. The error is a *failure.Error.
func Attach(files []*os.File) (*Session, error) {
	s := newSession()
	if err := s.attach(files); err != nil {
		s.Close()
		return nil, failure.Wrap(failure.Internal, err, "cannot attach to the software GPUs of another rank")
	}
	if err := s.enter(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newSession() *Session {
	return &Session{
		calls: map[string]int{},
		open:  map[*gpu]struct{}{},
		stop:  make(chan struct{}),
		slot:  -1,
	}
}

// Files are the descriptors that make up the session, to be sent to other
// processes. They stay the session's own: do not close them.
func (s *Session) Files() []*os.File { return append([]*os.File(nil), s.files...) }

// ID names the session; devices' UUIDs are derived from it.
func (s *Session) ID() string { return s.id }

// Driver gives the driver of this process.
func (s *Session) Driver() device.Driver { return &driver{s: s} }

// Close closes what this process still has open in the session and leaves it.
// References and bindings of this process end; memory that another process
// imported, or that a descriptor still names, stays.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var left []*gpu
	for d := range s.open {
		left = append(left, d)
	}
	s.mu.Unlock()

	s.stopOnce.Do(func() { close(s.stop) })
	var errs []error
	for _, d := range left {
		errs = append(errs, d.shut())
	}
	if s.slot >= 0 {
		errs = append(errs, s.locked(func(t *control) error {
			s.forget(t, s.slot)
			s.sweep(t)
			return nil
		}))
	}
	if s.own != nil {
		errs = append(errs, s.own.Close())
	}
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	for _, m := range s.mem {
		errs = append(errs, unix.Munmap(m))
	}
	if s.past != nil {
		errs = append(errs, unix.Munmap(s.past))
	}
	if s.ctlMap != nil {
		errs = append(errs, unix.Munmap(s.ctlMap))
	}
	if s.traceFile != nil {
		errs = append(errs, s.traceFile.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return failure.Wrap(failure.Internal, err, "closing the session of software GPUs")
	}
	return nil
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// create makes the files and writes the session's description.
func (s *Session) create(o Options) error {
	control, err := memfile("nvls-sim-"+o.Name, uint64(unsafe.Sizeof(control{})))
	if err != nil {
		return err
	}
	s.files = append(s.files, control)
	if err := s.mapControl(); err != nil {
		return err
	}
	c := s.ctl
	if _, err := rand.Read(c.Session[:]); err != nil {
		return err
	}
	c.Layout = uint32(unsafe.Sizeof(*c))
	c.Devices = uint32(o.Devices)
	c.MemoryBytes = o.MemoryBytes
	c.SMs, c.BlocksPerSM = uint32(o.SMs), uint32(o.BlocksPerSM)
	c.Major, c.Minor = uint32(o.Major), uint32(o.Minor)
	c.MulticastMinimum, c.MulticastRecommended = o.MulticastMinimum, o.MulticastRecommended
	for i := range o.Devices {
		f, err := memfile(fmt.Sprintf("nvls-sim-%s-gpu%d", o.Name, i), o.MemoryBytes)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		id, err := identityOf(f)
		if err != nil {
			return err
		}
		c.Files[i] = id
	}
	if o.Weak {
		f, err := memfile("nvls-sim-"+o.Name+"-history", historyBytes(c))
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		c.Weak, c.Seed = 1, o.Seed
	}
	c.Magic = magic
	return nil
}

// attach checks that files are those of a session and opens them for itself.
func (s *Session) attach(files []*os.File) error {
	if len(files) < 2 {
		return fmt.Errorf("%d descriptors: a session has one control file and one file a device", len(files))
	}
	for _, f := range files {
		g, err := reopen(f, os.O_RDWR)
		if err != nil {
			return err
		}
		s.files = append(s.files, g)
	}
	if err := s.mapControl(); err != nil {
		return err
	}
	c := s.ctl
	if c.Magic != magic || c.Layout != uint32(unsafe.Sizeof(*c)) {
		return errors.New("the first descriptor is no control file of a session, or one of another version of this program")
	}
	if want := 1 + int(c.Devices) + int(c.Weak&1); want != len(files) {
		return fmt.Errorf("the session has %d files, %d descriptors came", want, len(files))
	}
	for i := range int(c.Devices) {
		id, err := identityOf(s.files[1+i])
		if err != nil {
			return err
		}
		if id != c.Files[i] {
			return fmt.Errorf("descriptor %d is not the memory of device %d of this session", 1+i, i)
		}
	}
	return nil
}

// mapControl maps the control file, whose size it checks first.
func (s *Session) mapControl() error {
	f := s.files[0]
	size := int(unsafe.Sizeof(control{}))
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != int64(size) {
		return fmt.Errorf("the control file has %d bytes where %d are expected: not a session of this version", st.Size(), size)
	}
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the control file: %w", err)
	}
	s.ctlMap = m
	s.ctl = (*control)(unsafe.Pointer(unsafe.SliceData(m)))
	return nil
}

// enter maps the devices' memory, takes a place in the process table and opens
// the trace.
func (s *Session) enter() error {
	s.id = hex.EncodeToString(s.ctl.Session[:])
	for i := range int(s.ctl.Devices) {
		m, err := unix.Mmap(int(s.files[1+i].Fd()), 0, int(s.ctl.MemoryBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		if err != nil {
			return &failure.Error{Code: failure.Internal, What: "cannot map the memory of software GPUs", Err: err,
				Why: fmt.Sprintf("device %d needs %d bytes of address space", i, s.ctl.MemoryBytes),
				Do:  "raise the limit on address space (ulimit -v unlimited)", By: failure.User}
		}
		s.mem = append(s.mem, m)
	}
	if err := s.openHistory(); err != nil {
		return err
	}
	own, err := reopen(s.files[0], os.O_RDWR)
	if err != nil {
		return failure.Wrap(failure.Internal, err, "cannot open the control file of the software GPUs")
	}
	s.own = own
	if err := s.locked(s.join); err != nil {
		return failure.Wrap(failure.Internal, err, "cannot join the session of software GPUs")
	}
	if name := os.Getenv(TraceVariable); name != "" {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return &failure.Error{Code: failure.Usage, What: "cannot write the trace of the software device", Err: err,
				Do: "set " + TraceVariable + " to a file that can be written, or unset it", By: failure.User}
		}
		s.traceFile, s.Trace = f, f
	}
	return nil
}

// uuid derives a device's UUID from the session's id.
func (s *Session) uuid(ordinal int) (u device.UUID) {
	h := sha256.Sum256(fmt.Appendf(nil, "software GPU %d of session %x", ordinal, s.ctl.Session))
	copy(u[:], h[:])
	return u
}

// Package device is the contract between the collectives and the machine: the
// smallest set of operations that an all-reduce over the GPUs of one node
// needs, at the level of the CUDA driver API.
//
// Two packages implement it. Package cuda opens libcuda at run time. Package
// sim is a software device that executes the same PTX on the CPU. Both pass the
// suite in package devicetest, and whatever a collective does must work on
// both: nothing outside those two packages asks which one it has, except to
// label results.
//
// Rules of the contract:
//
//   - GPUs are named by UUID whenever one process tells another about a GPU.
//     Ordinals mean something only inside one process.
//   - Memory is shared by POSIX file descriptors. No method accepts or returns
//     a FABRIC handle or a process id.
//   - Order of calls for multicast: create (one rank), export, import (the
//     others), AddDevice on every rank, then Bind on every rank, then Map.
//     Tear-down: Unmap, Unbind, Close, and only then free the bound memory.
//   - Every error that a driver reports is a *Error, found by errors.As.
package device

import (
	"context"
	"os"
	"time"
)

// Ptr is an address in the device address space of the current process.
type Ptr uint64

// Dim is the extent of a grid or of a block in x; the kernels of this project
// are one-dimensional.
type Dim = uint32

// Driver opens the devices that this process can see.
type Driver interface {
	// Name is "cuda" or "sim".
	Name() string
	// Version names the driver and its version for the record, for instance
	// "CUDA 13.0, driver 580.159.04" or "software device".
	Version() string
	// Devices lists what this process can see, in ordinal order.
	Devices() []Info
	// Open makes the device with this ordinal usable by the calling process.
	Open(ordinal int) (Device, error)
	// Close releases the driver; every device must have been closed.
	Close() error
}

// Device is one opened GPU (a CUDA primary context, or a software device).
// Its methods may be called from any goroutine, one at a time.
type Device interface {
	Info() Info
	// MemInfo gives free and total device memory in bytes.
	MemInfo() (free, total uint64, err error)

	// Granularity is the size in bytes of which every Alloc must be a multiple
	// (the driver's recommended allocation granularity).
	Granularity() (uint64, error)
	// Alloc makes physical memory on this device that can be exported as a file
	// descriptor. Its contents are zero.
	Alloc(bytes uint64) (Memory, error)
	// Import opens memory exported by another process, of the given size. The
	// file may be closed afterwards.
	Import(f *os.File, bytes uint64) (Memory, error)

	// MulticastGranularity gives the minimum and the recommended granularity in
	// bytes of a multicast object for a team of numDevices.
	MulticastGranularity(numDevices int, bytes uint64) (minimum, recommended uint64, err error)
	// CreateMulticast makes a multicast object for numDevices devices. bytes
	// must be a multiple of the minimum multicast granularity.
	CreateMulticast(numDevices int, bytes uint64) (Multicast, error)
	// ImportMulticast opens a multicast object exported by another process.
	ImportMulticast(f *os.File, numDevices int, bytes uint64) (Multicast, error)

	// LoadModule compiles PTX for this device.
	LoadModule(ptx string) (Module, error)
	NewStream() (Stream, error)
	NewEvent() (Event, error)

	// CopyToDevice and CopyToHost copy between host memory and the device and
	// return when the copy is done. They are not ordered after work on streams.
	CopyToDevice(dst Ptr, src []byte) error
	CopyToHost(dst []byte, src Ptr) error

	Close() error
}

// Memory is a physical allocation: this process's own or an imported one.
type Memory interface {
	Bytes() uint64
	// Export makes a new file descriptor for the memory. The caller closes it.
	Export() (*os.File, error)
	// Map gives the memory an address in this process, readable and writable by
	// this device. It may be called once until Unmap.
	Map() (Ptr, error)
	Unmap() error
	// Close drops this process's reference. The memory must be unmapped, and
	// unbound from every multicast object.
	Close() error
}

// Multicast is a multicast object: one address behind which the memory of every
// device of a team stands. Kernels reach it only by multimem instructions.
type Multicast interface {
	Bytes() uint64
	Export() (*os.File, error)
	// AddDevice puts this device into the team. Every device must have been
	// added before any Bind or Map.
	AddDevice() error
	// Bind puts bytes of m, from memOffset, at mcOffset of the object, for this
	// device. Offsets and size are multiples of the minimum multicast
	// granularity. The driver blocks until all devices were added, so callers
	// hold a watchdog over it.
	Bind(mcOffset uint64, m Memory, memOffset, bytes uint64) error
	Unbind(mcOffset, bytes uint64) error
	// Map gives the whole object an address in this process.
	Map() (Ptr, error)
	Unmap() error
	Close() error
}

// Module is compiled PTX.
type Module interface {
	// Function finds a kernel by its entry name.
	Function(name string) (Function, error)
	Close() error
}

// Function is one kernel. Its parameters are one struct passed by value.
type Function interface {
	Name() string
	// Attributes tells what one block of the kernel takes.
	Attributes() FunctionAttributes
}

// FunctionAttributes are the resources of a kernel as compiled for the device.
type FunctionAttributes struct {
	Registers          int // per thread
	SharedBytes        int // static, per block
	LocalBytes         int // per thread: spills and stack
	MaxThreadsPerBlock int
}

// Stream is a queue of device work executed in order. Calls other than Wait and
// Query return at once.
type Stream interface {
	// Launch enqueues a kernel of grid blocks of block threads. args are the
	// bytes of its parameter struct, copied before Launch returns. No memory is
	// allocated per call.
	Launch(f Function, grid, block Dim, sharedBytes uint32, args []byte) error
	// Copy enqueues a copy inside the device address space; peers' mapped
	// memory included.
	Copy(dst, src Ptr, bytes uint64) error
	// Set32 enqueues a fill of n 32-bit words.
	Set32(dst Ptr, value uint32, n uint64) error
	// Record makes e mark what this stream holds so far.
	Record(e Event) error
	// WaitEvent makes all work enqueued from now on wait for what e marks at this
	// moment, on whatever stream of the device; an event that was never recorded
	// holds up nothing.
	//
	// Between BeginCapture and EndCapture an event recorded on the capturing stream
	// draws each stream that waits for it into the same recording, whose work goes
	// into the graph as a branch of its own, until EndCapture. Every such branch
	// must be waited for by the capturing stream before that.
	WaitEvent(e Event) error
	// Query reports whether all enqueued work is done. An error of a kernel is
	// reported here and by Wait.
	Query() (done bool, err error)
	// Wait returns when all enqueued work is done or ctx ends; in the latter case
	// its error is ctx's cause and the work goes on.
	Wait(ctx context.Context) error
	// BeginCapture starts recording into a graph instead of executing.
	BeginCapture() error
	// EndCapture ends the recording and makes an executable graph.
	EndCapture() (Graph, error)
	// Capturing reports whether the stream is between its own BeginCapture and
	// EndCapture.
	Capturing() bool
	// LaunchGraph enqueues all work of g. It is not for a stream that is capturing.
	LaunchGraph(g Graph) error
	Close() error
}

// Event marks a moment in a stream.
type Event interface {
	// Since gives the time between an earlier event and this one. Both must
	// have been reached. An event recorded into a graph has no time.
	Since(earlier Event) (time.Duration, error)
	Close() error
}

// Graph is recorded work that can be launched again and again.
type Graph interface {
	Close() error
}

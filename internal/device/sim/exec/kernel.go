// Package exec executes one PTX kernel on the CPU.
//
// Compile turns the syntax tree of a kernel into basic blocks of closures. Run
// executes a launch of it over a Space, the device addresses of the process.
// Host memory behind the Space may be shared with other processes, so every
// access that PTX calls strong is an atomic access of the host.
//
// Rules:
//
//   - An instruction, modifier or operand that is not known is refused by
//     Compile, by name and line. Nothing is approximated or skipped.
//   - Alignment, unmapped addresses, plain access to multicast addresses and
//     multimem access to others are faults, as the PTX ISA has it.
//   - A thread that spins gives way: first to its block, then to other blocks,
//     then to other processes.
package exec

import (
	"context"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// Generic addresses below WindowEnd are windows onto the memory of a block, a
// thread or a launch; those from WindowEnd on are global.
const (
	SharedWindow = 0x0100_0000
	LocalWindow  = 0x0200_0000
	ParamWindow  = 0x0300_0000
	WindowEnd    = 0x0400_0000
)

// MaxThreadsPerBlock is the limit of every CUDA device.
const MaxThreadsPerBlock = 1024

// Kernel is a compiled kernel. It is immutable and may run in several
// goroutines at once.
type Kernel struct {
	name string
	// Registers is the number of 32-bit registers that the PTX declares for a
	// thread, an upper bound of what a GPU compiler would take, at most 255.
	Registers   int
	SharedBytes int // static shared memory a block
	LocalBytes  int // a thread
	ParamBytes  int // size of the parameters
}

// Name is the entry's name.
func (k *Kernel) Name() string { return k.name }

// Compile makes a kernel of an entry of m. It fails with an
// *UnknownInstructionError for what it does not know.
func Compile(e *ptx.Entry, m *ptx.Module) (*Kernel, error) {
	return nil, &UnknownInstructionError{Kernel: e.Name, Line: e.Line, Name: e.Name, Reason: "compiler is not written yet"}
}

// Config is the machine on which a kernel runs.
type Config struct {
	SMs         int // at least 1
	BlocksPerSM int // blocks resident on one SM, at least 1
	// Now gives %globaltimer in nanoseconds. nil means the system's clock.
	Now func() uint64
	// Seed varies the order in which multimem reductions take the devices, so
	// that no kernel can rely on one.
	Seed uint64
	// Stats, when not nil, gets the counts of the launch added at its end. It
	// may be shared by several launches at once.
	Stats *Stats
}

// Launch is one kernel launch. Grid and block are one-dimensional.
type Launch struct {
	Grid, Block uint32
	SharedBytes uint32 // dynamic shared memory a block, in bytes
	// Args are the bytes of the parameters, each at its natural alignment.
	// len(Args) must be the kernel's ParamBytes.
	Args []byte
}

// Run executes a launch and returns when every thread has ended. Errors are a
// *Fault of the kernel, ctx's cause, or what is wrong with the launch itself.
// After an error no thread of the launch runs any more.
func (k *Kernel) Run(ctx context.Context, s *Space, cfg *Config, l Launch) error {
	return context.Cause(ctx)
}

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

import "sync"

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
	// MaxThreads is what .maxntid or .reqntid says, 0 if neither is there.
	MaxThreads int

	blocks    []*block
	slots     int // registers of a warp
	preds     int
	spins     int // strong loads and atomics
	constants []constant
	specials  []special
	dynamicAt int       // where dynamic shared memory starts, 0 if the kernel has none
	sink      int       // slot of "_" plus 1
	spare     sync.Pool // *cta
	weak      bool
}

// Name is the entry's name.
func (k *Kernel) Name() string { return k.name }

// localStride is the distance of the local memories of two threads.
func (k *Kernel) localStride() int { return int(align(uint64(k.LocalBytes), 16)) }

// constant is a register slot with the same value in every lane, for immediate
// operands and addresses of variables.
type constant struct {
	slot  int
	value uint64
}

// special is a register slot filled when a block of threads starts.
type special struct {
	slot int
	name string
}

package exec

import "fmt"

// Kind is the class of a Fault. The driver maps it to a CUDA code; the code
// that hardware would give stands behind each.
type Kind uint8

// The kinds of a fault.
const (
	IllegalAddress    Kind = iota + 1 // nothing is mapped there (CUDA 700)
	Misaligned                        // not naturally aligned (CUDA 716)
	PlainOnMulticast                  // a plain access to a multicast address (the PTX ISA leaves it undefined; CUDA 717)
	MultimemOnUnicast                 // a multimem instruction on an ordinary address (CUDA 717)
	MulticastUnbound                  // multimem where some device's memory is not bound (CUDA 700)
	WrongSpace                        // a shared, local or parameter address out of its window (CUDA 717)
	Trap                              // a trap instruction (CUDA 719)
	Deadlock                          // threads wait at a barrier that can never be complete (hardware hangs; CUDA 719)
	BulkSize                          // a bulk copy of a size that is no multiple of 16 (undefined; CUDA 719)
	BulkUnread                        // a block ended before it knew that its bulk copies had read its shared memory (undefined; CUDA 719)
	DataRace                          // weak memory model only: a store that no synchronisation puts behind a read of another process (undefined; CUDA 719)
)

var kindNames = [...]string{
	IllegalAddress:    "illegal address",
	Misaligned:        "misaligned address",
	PlainOnMulticast:  "plain access to a multicast address",
	MultimemOnUnicast: "multimem access to an address that is not multicast",
	MulticastUnbound:  "multicast address where not every device's memory is bound",
	WrongSpace:        "address outside its state space",
	Trap:              "trap instruction",
	Deadlock:          "barrier that can never be complete",
	BulkSize:          "bulk copy of a size that is no multiple of 16:",
	BulkUnread:        "the block ended without waiting until its bulk copy had read shared memory; to",
	DataRace:          "data race: the store takes effect where another rank may still be reading, at",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("fault %d", uint8(k))
}

// Fault is an error that a kernel ran into. The kernel is stopped; what it
// wrote so far stays.
type Fault struct {
	Kind   Kind
	Kernel string // "" when the host made the access (Space.Host)
	Addr   uint64 // the address as the instruction computed it
	Bytes  int    // width of the access
	Block  uint32 // %ctaid.x
	Thread uint32 // %tid.x
	Line   int    // of the PTX text
	Text   string // the instruction
	Err    error  // what resolve said, for MulticastUnbound; who reads, for DataRace
}

func (f *Fault) Error() string {
	s := f.Kind.String()
	if f.Addr != 0 || f.Kind != Trap && f.Kind != Deadlock {
		s += fmt.Sprintf(" %#x", f.Addr)
	}
	if f.Kernel != "" {
		s += fmt.Sprintf(" in kernel %s, block %d, thread %d, PTX line %d: %q", f.Kernel, f.Block, f.Thread, f.Line, f.Text)
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

func (f *Fault) Unwrap() error { return f.Err }

// UnknownInstructionError is Compile's refusal of an instruction, or of a
// modifier or operand of it, that the software device does not know.
type UnknownInstructionError struct {
	Kernel string
	Line   int
	Name   string // with modifiers
	Text   string
	Reason string // what of it is unknown
}

func (e *UnknownInstructionError) Error() string {
	s := fmt.Sprintf("kernel %s, PTX line %d: the software device does not know %s", e.Kernel, e.Line, e.Name)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	return s + fmt.Sprintf(": %q", e.Text)
}

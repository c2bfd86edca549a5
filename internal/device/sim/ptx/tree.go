// Package ptx parses PTX text into a syntax tree.
//
// The software device executes the same PTX that a GPU gets, so this parser
// reads what clang's NVPTX back end and inline assembly write: one module of
// entries, with register, shared and local declarations, labels, nested scopes
// and instructions. It knows the grammar only. What an instruction means, and
// whether it is known at all, is package exec's business.
//
// Rule: no input makes Parse panic or run for long. Errors are *SyntaxError
// and name the line.
package ptx

import (
	"fmt"
	"strings"
)

// Module is one PTX text.
type Module struct {
	Version     string // ".version 8.3" gives "8.3"
	Target      string // ".target sm_90" gives "sm_90"; several are joined by ", "
	AddressSize int    // 64, or 32 where no directive says otherwise
	Entries     []*Entry
	Vars        []*Var   // variables of module scope
	Funcs       []string // names of .func helpers; a call of one is refused by exec
}

// Entry finds a kernel by name, nil if there is none.
func (m *Module) Entry(name string) *Entry {
	for _, e := range m.Entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Entry is one kernel.
type Entry struct {
	Name   string
	Line   int
	Params []*Var
	// Directives are the performance directives, for instance
	// "maxntid" -> [512, 1, 1].
	Directives map[string][]int
	Body       *Scope
}

// Var is a variable declaration: a parameter, or .shared, .local, .global,
// .const memory.
type Var struct {
	Name  string
	Line  int
	Space string // "param", "shared", "local", "global", "const"
	Type  string // "b8", "u64", ...
	// Bytes is the size of the variable, 0 for an unsized extern array.
	Bytes uint64
	Align uint64 // bytes, a power of two
	// Extern is set for `.extern .shared`, whose size is the launch's.
	Extern bool
	// Init says that an initialiser stands behind the declaration.
	Init bool
}

// Reg is a register declaration: `.reg .b32 %r<4>;` declares %r0 to %r3
// (Count 4), `.reg .b32 x;` declares x (Count 0).
type Reg struct {
	Name  string
	Type  string // "pred", "b16", "b32", "f32", "b64", ...
	Count int
	Line  int
}

// Scope is what stands between braces, in order.
type Scope struct {
	Line  int
	Items []Item
}

// Item is one thing in a scope; exactly one field is set.
type Item struct {
	Reg   *Reg
	Var   *Var
	Label *Label
	Instr *Instr
	Scope *Scope
}

// Label is a branch target. Targets is set for `.branchtargets`.
type Label struct {
	Name    string
	Line    int
	Targets []string
}

// Instr is one instruction.
type Instr struct {
	Line  int    // 1-based line of the text
	Text  string // as written, spaces folded, without the semicolon
	Guard string // the predicate of @p or @!p, "" when there is none
	Not   bool   // the guard is negated
	Op    string // "ld" of ld.global.u32
	Mods  []string
	Args  []Operand
}

// Name is the instruction's full name with its modifiers, "ld.global.u32".
func (i *Instr) Name() string {
	if len(i.Mods) == 0 {
		return i.Op
	}
	return i.Op + "." + strings.Join(i.Mods, ".")
}

// OperandKind tells the forms of an operand apart.
type OperandKind uint8

// The forms of an operand.
const (
	Ident  OperandKind = iota // register, special register, variable or label: Name
	Int                       // integer constant: Bits (two's complement)
	Float                     // 0f… or 0d… or decimal constant: Bits, Width 32 or 64
	Addr                      // [base+Offset]: List[0] is the base, Offset in bytes; [base, …] has more in List
	Vector                    // {a, b, …}: List
	Pair                      // p|q: List of two
	Sum                       // symbol+offset outside brackets: List[0], Offset
)

// Operand is one operand of an instruction.
type Operand struct {
	Kind   OperandKind
	Name   string
	Not    bool // !p
	Bits   uint64
	Width  int
	Offset int64
	List   []Operand
}

// SyntaxError says where a text is no PTX that this package reads.
type SyntaxError struct {
	Line int    // 1-based
	Text string // the line as it stands
	Msg  string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("PTX line %d: %s: %q", e.Line, e.Msg, strings.TrimSpace(e.Text))
}

package exec

import (
	"fmt"
	"sort"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// flat is an entry of the list of instructions and labels without their scopes, whose
// names each keeps.
type flat struct {
	in    *ptx.Instr
	label *label
	env   *env
}

// compiler makes one kernel of one entry of a module.
type compiler struct {
	entry    *ptx.Entry
	module   *ptx.Module
	k        *Kernel
	flat     []flat
	cur      *block
	consts   map[uint64]int
	specials map[string]int
	declared int // registers declared, in units of 32 bits
	arch     int // of .target: 90 for sm_90
	isa      int // of .version: 83 for 8.3
	weak     bool
	bulk     bool // the kernel has bulk copies
}

// Compile makes a kernel of an entry of m. It fails with an
// *UnknownInstructionError for what it does not know.
func Compile(e *ptx.Entry, m *ptx.Module) (*Kernel, error) { return compile(e, m, false) }

// CompileWeak is Compile for the weak memory model: its kernels run with
// Config.Weak set, and only then.
func CompileWeak(e *ptx.Entry, m *ptx.Module) (*Kernel, error) { return compile(e, m, true) }

func compile(e *ptx.Entry, m *ptx.Module, weak bool) (k *Kernel, err error) {
	defer func() {
		if r := recover(); r != nil {
			u, ok := r.(*UnknownInstructionError)
			if !ok {
				panic(r)
			}
			k, err = nil, u
		}
	}()
	c := &compiler{entry: e, module: m, k: &Kernel{name: e.Name, weak: weak}, weak: weak, consts: map[uint64]int{}, specials: map[string]int{}}
	c.arch, c.isa = numbers(strings.TrimPrefix(m.Target, "sm_")), numbers(m.Version)
	c.compile()
	return c.k, nil
}

// numbers joins the digits at the start of "90a" or "8.3".
func numbers(s string) int {
	n := 0
	for _, ch := range s {
		if ch == '.' {
			continue
		}
		if ch < '0' || ch > '9' || n > 1000 {
			break
		}
		n = n*10 + int(ch-'0')
	}
	return n
}

// refuse ends the compilation.
func (c *compiler) refuse(line int, name, text, format string, args ...any) {
	panic(&UnknownInstructionError{Kernel: c.entry.Name, Line: line, Name: name, Text: text, Reason: fmt.Sprintf(format, args...)})
}

func align(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

func (c *compiler) compile() {
	root := newEnv(nil)
	var offset uint64
	for _, p := range c.entry.Params {
		offset = align(offset, p.Align)
		root.vars[p.Name] = &variable{decl: p, addr: offset}
		offset += p.Bytes
	}
	c.k.ParamBytes = int(offset)
	var late []*variable // extern shared arrays lie behind everything else
	for _, v := range c.module.Vars {
		if v.Space != "shared" {
			// Its name is not entered, so that an instruction that uses it is
			// refused with its line.
			continue
		}
		root.vars[v.Name] = c.declare(v)
		if v.Extern {
			late = append(late, root.vars[v.Name])
		}
	}
	c.walk(c.entry.Body, root)
	for _, v := range late {
		v.addr = align(uint64(c.k.SharedBytes), max(v.decl.Align, 16))
		c.k.dynamicAt = max(c.k.dynamicAt, int(v.addr))
	}
	c.k.Registers = min(c.declared, 255)
	if d := c.entry.Directives["maxntid"]; len(d) > 0 {
		c.k.MaxThreads = d[0]
	}
	if d := c.entry.Directives["reqntid"]; len(d) > 0 {
		c.k.MaxThreads = d[0]
	}
	for d := range c.entry.Directives {
		switch d {
		case "maxntid", "reqntid", "minnctapersm", "maxnreg":
		default:
			c.refuse(c.entry.Line, "."+d, "."+d, "directive")
		}
	}

	c.start()
	for i := range c.flat {
		f := &c.flat[i]
		if f.label != nil {
			if len(c.cur.steps) > 0 {
				c.fall()
			}
			f.label.block = len(c.k.blocks) - 1
			continue
		}
		c.instruction(f)
	}
	c.cur.end = endExit
	for i, b := range c.k.blocks {
		if b.end == endFall || b.end == endCond || b.end > endExit {
			if i+1 == len(c.k.blocks) {
				panic("exec: block without successor")
			}
		}
		if b.label != nil {
			b.target = b.label.block
		}
		for _, l := range b.table {
			b.jumps = append(b.jumps, l.block)
		}
	}
	for v, slot := range c.consts {
		c.k.constants = append(c.k.constants, constant{slot, v})
	}
	sort.Slice(c.k.constants, func(i, j int) bool { return c.k.constants[i].slot < c.k.constants[j].slot })
	for name, slot := range c.specials {
		c.k.specials = append(c.k.specials, special{slot, name})
	}
	sort.Slice(c.k.specials, func(i, j int) bool { return c.k.specials[i].slot < c.k.specials[j].slot })
}

// instruction compiles one instruction into the current block.
func (c *compiler) instruction(f *flat) {
	b := &build{c: c, in: f.in, env: f.env, mods: append([]string(nil), f.in.Mods...)}
	guard, not := -1, false
	if f.in.Guard != "" {
		r := c.register(f.env, f.in.Guard)
		if r == nil || r.bits != 1 {
			b.refuse("guard %s is no predicate", f.in.Guard)
		}
		guard, not = r.slot, f.in.Not
	}
	make := instructions[f.in.Op]
	if make == nil {
		b.refuse("")
	}
	if line := f.in.Line; c.weak {
		b.emit(func(w *warp) {
			if reached := w.run.weak.cfg.Reached; reached != nil {
				reached(w.run.k.name, line)
			}
		})
	}
	if guard >= 0 && endsBlock(f.in) {
		if f.in.Op == "bra" {
			l := b.branch()
			c.cur.count++
			c.cur.end, c.cur.pred, c.cur.not, c.cur.label, c.cur.in = endCond, guard, not, l, f.in
			c.start()
			return
		}
		// Jump around it where the guard does not hold.
		skip := &label{}
		c.cur.end, c.cur.pred, c.cur.not, c.cur.label, c.cur.in = endCond, guard, !not, skip, f.in
		c.start()
		make(b)
		if len(c.cur.steps) > 0 || c.cur.end != endFall {
			c.fall()
		}
		skip.block = len(c.k.blocks) - 1
		return
	}
	n := len(c.cur.steps)
	blk := c.cur
	c.cur.count++
	make(b)
	if len(b.mods) > 0 {
		b.refuse("modifier .%s", b.mods[0])
	}
	if guard >= 0 {
		if c.cur != blk {
			panic("exec: guarded " + f.in.Op + " ended its block")
		}
		for i := n; i < len(blk.steps); i++ {
			blk.steps[i] = guarded(guard, not, blk.steps[i])
		}
	}
}

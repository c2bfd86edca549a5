package exec

import (
	"fmt"
	"sort"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// step is one compiled instruction. It acts on the active lanes of a warp.
type step func(w *warp)

// endKind is how a basic block ends.
type endKind uint8

const (
	endFall     endKind = iota // go on with the next block
	endBranch                  // to target
	endCond                    // to target where the predicate holds
	endIndexed                 // brx.idx
	endExit                    // ret, exit
	endBarrier                 // bar.sync and its like
	endWarpSync                // wait for the lanes of a mask
	endSpin                    // behind a strong load or an atomic: give way if it spins
	endYield                   // nanosleep: give way
)

// block is a basic block.
type block struct {
	steps  []step
	count  int // PTX instructions in it, the one that ends it included
	end    endKind
	pred   int // endCond
	not    bool
	target int // endBranch, endCond
	label  *label
	index  int      // endIndexed: slot of the index
	table  []*label // endIndexed
	jumps  []int
	mask   int // endWarpSync: slot of the lane mask
	bar    *barrierOp
	in     *ptx.Instr
}

// label is a place in the program, known once its block is.
type label struct {
	name    string
	block   int
	targets *ptx.Label // set for .branchtargets
	env     *env
}

// reg is one virtual register.
type reg struct {
	typ  string
	bits int // 1 for a predicate
	slot int // index into the warp's registers or predicates, -1 until it is used
}

// env holds the names of one scope.
type env struct {
	up     *env
	ranges map[string]*ptx.Reg
	regs   map[string]*reg
	labels map[string]*label
	vars   map[string]*variable
}

// variable is memory declared in PTX.
type variable struct {
	decl *ptx.Var
	addr uint64 // in its own state space
}

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

type flat struct {
	in    *ptx.Instr
	label *label
	env   *env
}

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

func newEnv(up *env) *env {
	return &env{up: up, ranges: map[string]*ptx.Reg{}, regs: map[string]*reg{}, labels: map[string]*label{}, vars: map[string]*variable{}}
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

// maxVariables is the limit of the shared variables of a block and of the local
// ones of a thread, in bytes: what CUDA devices have of local memory. Shared
// memory has a lower limit when the kernel is launched.
const maxVariables = 512 << 10

// declare gives a variable its address.
func (c *compiler) declare(v *ptx.Var) *variable {
	out := &variable{decl: v}
	if v.Init {
		c.refuse(v.Line, v.Name, v.Name, "initialised variable")
	}
	size := &c.k.SharedBytes
	switch v.Space {
	case "shared":
		if v.Extern || v.Bytes == 0 {
			return out
		}
	case "local":
		size = &c.k.LocalBytes
	default:
		c.refuse(v.Line, "."+v.Space, v.Name, "variable of this state space in a kernel")
	}
	at := align(uint64(*size), v.Align)
	out.addr = at
	if at+v.Bytes > maxVariables {
		c.refuse(v.Line, "."+v.Space, v.Name, "variables take too much memory")
	}
	*size = int(at + v.Bytes)
	return out
}

// walk enters the names of a scope and lists its instructions.
func (c *compiler) walk(s *ptx.Scope, e *env) {
	for _, it := range s.Items {
		switch {
		case it.Reg != nil:
			n := max(it.Reg.Count, 1)
			if typeOf(it.Reg.Type).bits == 64 {
				c.declared += n
			}
			c.declared += n
			if it.Reg.Count > 0 {
				e.ranges[it.Reg.Name] = it.Reg
			} else {
				e.regs[it.Reg.Name] = c.newReg(it.Reg)
			}
		case it.Var != nil:
			e.vars[it.Var.Name] = c.declare(it.Var)
		case it.Label != nil:
			l := &label{name: it.Label.Name, block: -1, env: e}
			if it.Label.Targets != nil {
				l.targets = it.Label
			}
			if e.labels[l.name] != nil {
				c.refuse(it.Label.Line, l.name, l.name+":", "label defined twice")
			}
			e.labels[l.name] = l
			if l.targets == nil {
				c.flat = append(c.flat, flat{label: l, env: e})
			}
		case it.Instr != nil:
			c.bulk = c.bulk || it.Instr.Op == "cp"
			c.flat = append(c.flat, flat{in: it.Instr, env: e})
		case it.Scope != nil:
			c.walk(it.Scope, newEnv(e))
		}
	}
}

func (c *compiler) newReg(r *ptx.Reg) *reg {
	out := &reg{typ: r.Type, bits: typeOf(r.Type).bits, slot: -1}
	if r.Type == "pred" {
		out.bits = 1
	}
	if out.bits == 0 || out.bits > 64 {
		c.refuse(r.Line, ".reg ."+r.Type, r.Name, "register type")
	}
	return out
}

// start begins a new block.
func (c *compiler) start() {
	c.cur = &block{}
	c.k.blocks = append(c.k.blocks, c.cur)
}

// fall ends the block; the next one follows.
func (c *compiler) fall() {
	c.cur.end = endFall
	c.start()
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

// emit adds a step to the current block.
func (b *build) emit(s step) { b.c.cur.steps = append(b.c.cur.steps, s) }

// endsBlock tells whether an instruction ends or splits the block in which it
// stands.
func endsBlock(in *ptx.Instr) bool {
	switch in.Op {
	case "bra", "brx", "ret", "exit", "bar", "barrier", "nanosleep", "shfl", "vote", "match", "activemask", "redux", "atom":
		return true
	case "ld", "multimem":
		for _, m := range in.Mods {
			switch m {
			case "acquire", "relaxed", "volatile", "mmio":
				return true
			}
		}
	}
	return false
}

func guarded(pred int, not bool, s step) step {
	return func(w *warp) {
		m := w.p[pred]
		if not {
			m = ^m
		}
		m &= w.mask
		if m == w.mask {
			s(w)
			return
		}
		if m == 0 {
			return
		}
		act, mask := w.act, w.mask
		w.narrow(m)
		s(w)
		w.act, w.mask = act, mask
	}
}

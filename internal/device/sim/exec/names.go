package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// env holds the names of one scope.
type env struct {
	up     *env
	ranges map[string]*ptx.Reg
	regs   map[string]*reg
	labels map[string]*label
	vars   map[string]*variable
}

// reg is one virtual register.
type reg struct {
	typ  string
	bits int // 1 for a predicate
	slot int // index into the warp's registers or predicates, -1 until it is used
}

// variable is memory declared in PTX.
type variable struct {
	decl *ptx.Var
	addr uint64 // in its own state space
}

func newEnv(up *env) *env {
	return &env{up: up, ranges: map[string]*ptx.Reg{}, regs: map[string]*reg{}, labels: map[string]*label{}, vars: map[string]*variable{}}
}

// maxVariables is the limit of the shared variables of a block and of the local
// ones of a thread, in bytes: what CUDA devices have of local memory. Shared
// memory has a lower limit when the kernel is launched.
const maxVariables = 512 << 10

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

// register finds a register by name, nil if there is none.
func (c *compiler) register(e *env, name string) *reg {
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	for ; e != nil; e = e.up {
		r := e.regs[name]
		if r == nil && digits < len(name) && len(name)-digits < 7 && (name[digits] != '0' || digits+1 == len(name)) {
			if d := e.ranges[name[:digits]]; d != nil {
				n := 0
				for _, ch := range name[digits:] {
					n = n*10 + int(ch-'0')
				}
				if n < d.Count {
					r = c.newReg(d)
					e.regs[name] = r
				}
			}
		}
		if r == nil {
			continue
		}
		if r.slot < 0 {
			if r.bits == 1 {
				r.slot = c.k.preds
				c.k.preds++
			} else {
				r.slot = c.newSlot()
			}
		}
		return r
	}
	return nil
}

func (c *compiler) newSlot() int {
	c.k.slots++
	return c.k.slots - 1
}

func (e *env) variable(name string) *variable {
	for ; e != nil; e = e.up {
		if v := e.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

func (e *env) label(name string) *label {
	for ; e != nil; e = e.up {
		if l := e.labels[name]; l != nil {
			return l
		}
	}
	return nil
}

// constSlot gives a slot that holds v in every lane.
func (c *compiler) constSlot(v uint64) int {
	s, ok := c.consts[v]
	if !ok {
		s = c.newSlot()
		c.consts[v] = s
	}
	return s
}

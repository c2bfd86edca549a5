package exec

import (
	"math"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// class is the family of a fundamental type.
type class uint8

const (
	classNone class = iota
	classBits
	classUnsigned
	classSigned
	classFloat  // f16, f32, f64
	classBFloat // bf16
	classPred
)

// typ is a PTX type. lanes is 2 for f16x2 and bf16x2.
type typ struct {
	class class
	bits  int // of the whole, 32 for f16x2
	lanes int
	name  string
}

func typeOf(name string) typ {
	t := typ{lanes: 1, name: name}
	switch name {
	case "pred":
		t.class, t.bits = classPred, 1
	case "b8":
		t.class, t.bits = classBits, 8
	case "b16":
		t.class, t.bits = classBits, 16
	case "b32":
		t.class, t.bits = classBits, 32
	case "b64":
		t.class, t.bits = classBits, 64
	case "u8":
		t.class, t.bits = classUnsigned, 8
	case "u16":
		t.class, t.bits = classUnsigned, 16
	case "u32":
		t.class, t.bits = classUnsigned, 32
	case "u64":
		t.class, t.bits = classUnsigned, 64
	case "s8":
		t.class, t.bits = classSigned, 8
	case "s16":
		t.class, t.bits = classSigned, 16
	case "s32":
		t.class, t.bits = classSigned, 32
	case "s64":
		t.class, t.bits = classSigned, 64
	case "f16":
		t.class, t.bits = classFloat, 16
	case "f32":
		t.class, t.bits = classFloat, 32
	case "f64":
		t.class, t.bits = classFloat, 64
	case "f16x2":
		t.class, t.bits, t.lanes = classFloat, 32, 2
	case "bf16":
		t.class, t.bits = classBFloat, 16
	case "bf16x2":
		t.class, t.bits, t.lanes = classBFloat, 32, 2
	}
	return t
}

func (t typ) integer() bool { return t.class >= classBits && t.class <= classSigned }
func (t typ) isFloat() bool { return t.class == classFloat || t.class == classBFloat }

// half tells the 16-bit floats, packed or not.
func (t typ) half() bool {
	return t.isFloat() && (t.bits == 16 || t.lanes == 2)
}

func maskOf(bits int) uint64 {
	if bits >= 64 {
		return math.MaxUint64
	}
	return 1<<bits - 1
}

// sext extends the sign of the low bits of v to 64 bits.
func sext(v uint64, bits int) uint64 {
	s := 64 - bits
	return uint64(int64(v<<s) >> s)
}

// build is the compilation of one instruction.
type build struct {
	c    *compiler
	in   *ptx.Instr
	env  *env
	mods []string // modifiers not consumed yet
}

func (b *build) refuse(format string, args ...any) {
	b.c.refuse(b.in.Line, b.in.Name(), b.in.Text, format, args...)
}

// needs refuses an instruction that the module's target or PTX version does not
// have, as the driver's compiler does. Versions are those that the PTX ISA's
// "Target ISA Notes" and "PTX ISA Notes" give.
func (b *build) needs(arch, isa int) {
	if b.c.arch < arch || b.c.isa < isa {
		b.refuse("needs .target sm_%d and .version %d.%d; the module has .target %s and .version %s",
			arch, isa/10, isa%10, b.c.module.Target, b.c.module.Version)
	}
}

// take consumes a modifier if it is there.
func (b *build) take(name string) bool {
	i := slices.Index(b.mods, name)
	if i < 0 {
		return false
	}
	b.mods = slices.Delete(b.mods, i, i+1)
	return true
}

// oneOf consumes the one of the names that is there, "" if none is.
func (b *build) oneOf(names ...string) string {
	for _, n := range names {
		if b.take(n) {
			return n
		}
	}
	return ""
}

// typ consumes the last modifier, which must be a type.
func (b *build) typ() typ {
	if len(b.mods) == 0 {
		b.refuse("type is missing")
	}
	last := len(b.mods) - 1
	t := typeOf(b.mods[last])
	if t.class == classNone {
		b.refuse("type .%s", b.mods[last])
	}
	b.mods = b.mods[:last]
	return t
}

// args checks the number of operands.
func (b *build) args(low, high int) {
	if n := len(b.in.Args); n < low || n > high {
		b.refuse("%d operands", n)
	}
}

func (b *build) arg(i int) *ptx.Operand {
	if i >= len(b.in.Args) {
		b.refuse("operand %d is missing", i+1)
	}
	return &b.in.Args[i]
}

// src gives the slot of operand i, read as a value of bits bits.
func (b *build) src(i, bits int) int { return b.value(b.arg(i), bits, false) }

// value gives the slot of an operand of the given width. wider allows
// registers wider than that, as ld, st and cvt do.
func (b *build) value(o *ptx.Operand, bits int, wider bool) int {
	switch o.Kind {
	case ptx.Int:
		return b.c.constSlot(o.Bits & maskOf(bits))
	case ptx.Float:
		v := o.Bits
		if o.Width != bits {
			if bits == 32 && o.Width == 64 {
				v = uint64(math.Float32bits(float32(math.Float64frombits(v))))
			} else {
				b.refuse("floating-point constant of %d bits for a type of %d", o.Width, bits)
			}
		}
		return b.c.constSlot(v)
	case ptx.Ident:
		if o.Not {
			break
		}
		if r := b.c.register(b.env, o.Name); r != nil {
			if r.bits == 1 {
				b.refuse("predicate %s as a number", o.Name)
			}
			if r.bits != bits && !(wider && r.bits > bits) {
				b.refuse("register %s has %d bits and the type %d", o.Name, r.bits, bits)
			}
			return r.slot
		}
		if w, ok := specialBits(o.Name); ok {
			if w != bits {
				b.refuse("special register %s has %d bits and the type %d", o.Name, w, bits)
			}
			s, ok := b.c.specials[o.Name]
			if !ok {
				s = b.c.newSlot()
				b.c.specials[o.Name] = s
			}
			return s
		}
		if v := b.env.variable(o.Name); v != nil {
			return b.c.constSlot(v.addr)
		}
		b.refuse("name %s", o.Name)
	case ptx.Sum:
		if v := b.env.variable(o.List[0].Name); v != nil {
			return b.c.constSlot(v.addr + uint64(o.Offset))
		}
	}
	b.refuse("form of an operand")
	return 0
}

// dst gives the slot of a destination register of exactly this width.
func (b *build) dst(i, bits int) int { return b.dest(b.arg(i), bits, false).slot }

func (b *build) dest(o *ptx.Operand, bits int, wider bool) *reg {
	if o.Kind == ptx.Ident && !o.Not {
		if o.Name == "_" {
			return &reg{bits: bits, slot: b.c.sink()}
		}
		if r := b.c.register(b.env, o.Name); r != nil && r.bits > 1 {
			if r.bits != bits && !(wider && r.bits > bits) {
				b.refuse("register %s has %d bits and the type %d", o.Name, r.bits, bits)
			}
			return r
		}
	}
	b.refuse("destination is no register")
	return nil
}

// sink is the slot that takes what is not wanted ("_").
func (c *compiler) sink() int {
	if c.k.sink == 0 {
		c.k.sink = c.newSlot() + 1
	}
	return c.k.sink - 1
}

// pred gives the index of a predicate operand and whether it is negated.
func (b *build) pred(o *ptx.Operand) (int, bool) {
	if o.Kind == ptx.Ident {
		if r := b.c.register(b.env, o.Name); r != nil && r.bits == 1 {
			return r.slot, o.Not
		}
	}
	b.refuse("operand is no predicate")
	return 0, false
}

// branch gives the label of a bra.
func (b *build) branch() *label {
	b.take("uni")
	if len(b.mods) > 0 {
		b.refuse("modifier .%s", b.mods[0])
	}
	b.args(1, 1)
	return b.labelOf(b.arg(0).Name, b.env)
}

func (b *build) labelOf(name string, e *env) *label {
	l := e.label(name)
	if l == nil || l.targets != nil {
		b.refuse("label %s is not defined", name)
	}
	return l
}

package ptx

import (
	"math"
	"strconv"
	"strings"
)

// instruction reads one instruction with its guard and its semicolon.
func (p *parser) instruction() *Instr {
	first := p.peek()
	in := &Instr{Line: first.line}
	if p.accept("@") {
		in.Not = p.accept("!")
		in.Guard = p.ident("a predicate").text
	}
	in.Op = p.ident("an instruction").text
	for p.peek().kind == tokDot {
		in.Mods = append(in.Mods, p.next().text[1:])
	}
	if !p.is(";") {
		in.Args = append(in.Args, p.operand(0))
		for p.accept(",") {
			in.Args = append(in.Args, p.operand(0))
		}
	}
	end := p.expect(";")
	in.Text = strings.Join(strings.Fields(p.src[first.start:end.start]), " ")
	return in
}

// operand reads one operand; depth counts the brackets around it.
func (p *parser) operand(depth int) Operand {
	if depth > 2 {
		p.fail(p.peek(), "operands nested too deep")
	}
	t := p.peek()
	var o Operand
	switch {
	case p.accept("{"):
		o = Operand{Kind: Vector, List: p.list("}", depth)}
	case p.accept("("):
		o = Operand{Kind: Vector, Name: "()", List: p.list(")", depth)}
	case p.accept("["):
		base := p.operand(depth + 1)
		o = Operand{Kind: Addr}
		switch base.Kind {
		case Sum:
			o.List, o.Offset = base.List, base.Offset
		case Ident, Int:
			o.List = []Operand{base}
		default:
			p.fail(t, "expected an address")
		}
		for p.accept(",") { // coordinates of tex and its like
			o.List = append(o.List, p.operand(depth+1))
		}
		p.expect("]")
	case p.accept("!"):
		o = Operand{Kind: Ident, Not: true, Name: p.ident("a predicate").text}
	case p.is("-") || t.kind == tokNumber:
		o = p.constant()
	case t.kind == tokIdent:
		p.next()
		o = Operand{Kind: Ident, Name: t.text}
		if p.peek().kind == tokDot { // %tid.x
			o.Name += p.next().text
		}
		if p.is("+") || p.is("-") {
			neg := p.next().text == "-"
			// The assembler also takes "+-8".
			if p.accept("-") {
				neg = !neg
			}
			v := int64(p.number("an offset", math.MaxInt64))
			if neg {
				v = -v
			}
			o = Operand{Kind: Sum, List: []Operand{o}, Offset: v}
		}
	default:
		p.fail(t, "expected an operand and found "+t.text)
	}
	if p.accept("|") {
		o = Operand{Kind: Pair, List: []Operand{o, {Kind: Ident, Name: p.ident("a register").text}}}
	}
	return o
}

func (p *parser) list(end string, depth int) []Operand {
	var out []Operand
	for !p.accept(end) {
		if len(out) > 0 {
			p.expect(",")
		}
		out = append(out, p.operand(depth+1))
	}
	return out
}

// constant reads an integer or a floating-point constant with its sign.
func (p *parser) constant() Operand {
	neg := false
	for p.accept("-") {
		neg = !neg
	}
	t := p.next()
	if t.kind != tokNumber {
		p.fail(t, "expected a number and found "+t.text)
	}
	s := t.text
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("fFdD", s[1]) >= 0 {
		width := 32
		if s[1] == 'd' || s[1] == 'D' {
			width = 64
		}
		bits, err := strconv.ParseUint(s[2:], 16, width)
		if err != nil || len(s)-2 != width/4 {
			p.fail(t, "floating-point constant of wrong form")
		}
		if neg {
			bits ^= 1 << (width - 1)
		}
		return Operand{Kind: Float, Bits: bits, Width: width}
	}
	if strings.Contains(s, ".") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			p.fail(t, "floating-point constant of wrong form")
		}
		if neg {
			f = -f
		}
		return Operand{Kind: Float, Bits: math.Float64bits(f), Width: 64}
	}
	v, err := strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
	if err != nil {
		p.fail(t, "integer constant of wrong form")
	}
	if neg {
		v = -v
	}
	return Operand{Kind: Int, Bits: v}
}

package ptx

// registers reads a .reg declaration into the scope.
func (p *parser) registers(s *Scope) {
	p.expect(".reg")
	typ := p.next()
	if typ.kind != tokDot || (typeBytes(typ.text[1:]) == 0 && typ.text != ".pred") {
		p.fail(typ, "expected a register type and found "+typ.text)
	}
	for {
		n := p.ident("a register name")
		r := &Reg{Name: n.text, Type: typ.text[1:], Line: n.line}
		if p.accept("<") {
			r.Count = int(p.number("a register count", maxRegCount))
			p.expect(">")
			if r.Count == 0 {
				p.fail(n, "register range of none")
			}
		}
		s.Items = append(s.Items, Item{Reg: r})
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
}

// variables reads the declarations behind one state space, and over what they are
// initialised with.
func (p *parser) variables() []*Var {
	space := p.next().text[1:]
	typ := p.varType()
	var out []*Var
	for {
		v := p.declarator(space, typ)
		if p.accept("=") {
			v.Init = true
			for !p.is(";") {
				if p.is("{") {
					p.next()
					p.skipBraces()
				} else if p.is(",") {
					break
				} else if p.next().kind == tokEOF {
					p.fail(p.peek(), "expected ;")
				}
			}
		}
		out = append(out, v)
		if !p.accept(",") {
			break
		}
	}
	p.expect(";")
	return out
}

// varType reads the attributes of a declaration up to the name.
func (p *parser) varType() Var {
	var v Var
	vec := uint64(1)
	for p.peek().kind == tokDot {
		t := p.next()
		switch name := t.text[1:]; name {
		case "align":
			v.Align = p.number("an alignment", 1<<20)
			if v.Align == 0 || v.Align&(v.Align-1) != 0 {
				p.fail(t, "alignment is no power of two")
			}
		case "v2":
			vec = 2
		case "v4":
			vec = 4
		case "ptr":
			// .ptr{.space}{.align N} describes what a pointer parameter points to.
			for p.is(".global") || p.is(".shared") || p.is(".const") || p.is(".local") {
				p.next()
			}
			if p.accept(".align") {
				p.number("an alignment", 1<<20)
			}
		default:
			n := typeBytes(name)
			if n == 0 || v.Type != "" {
				p.fail(t, "expected a type and found "+t.text)
			}
			v.Type, v.Bytes = name, n
		}
	}
	if v.Type == "" {
		p.fail(p.peek(), "declaration without type")
	}
	v.Bytes *= vec
	if v.Align == 0 {
		v.Align = v.Bytes
	}
	return v
}

// declarator reads name and array size.
func (p *parser) declarator(space string, v Var) *Var {
	n := p.ident("a variable name")
	v.Name, v.Line, v.Space = n.text, n.line, space
	for p.accept("[") {
		size := uint64(0)
		if !p.is("]") {
			size = p.number("an array size", maxVarBytes)
		}
		p.expect("]")
		v.Bytes *= size
		if v.Bytes > maxVarBytes {
			p.fail(n, "variable is too large")
		}
	}
	return &v
}

// typeBytes is the size of a fundamental type, 0 if there is no such type.
func typeBytes(t string) uint64 {
	switch t {
	case "b8", "u8", "s8":
		return 1
	case "b16", "u16", "s16", "f16", "bf16":
		return 2
	case "b32", "u32", "s32", "f32", "f16x2", "bf16x2":
		return 4
	case "b64", "u64", "s64", "f64":
		return 8
	case "b128":
		return 16
	}
	return 0
}

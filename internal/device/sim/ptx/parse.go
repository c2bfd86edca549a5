package ptx

import (
	"math"
	"strconv"
	"strings"
)

// Limits that keep hostile input cheap. Real modules stay far below them.
const (
	maxScopeDepth = 32
	maxRegCount   = 1 << 16
	maxVarBytes   = 1 << 30
)

// Parse reads a module. Errors are *SyntaxError.
func Parse(src string) (m *Module, err error) {
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{src: src, toks: toks}
	m = &Module{AddressSize: 32}
	// The parser's methods report errors by panic(*SyntaxError); nothing else
	// is caught here.
	defer func() {
		if r := recover(); r != nil {
			se, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			m, err = nil, se
		}
	}()
	p.module(m)
	return m, nil
}

type parser struct {
	src  string
	toks []token
	pos  int
}

func (p *parser) fail(t token, msg string) {
	panic(&SyntaxError{Line: t.line, Text: lineAt(p.src, t.start), Msg: msg})
}

func (p *parser) peek() token { return p.toks[p.pos] }

func (p *parser) ahead() token { return p.toks[min(p.pos+1, len(p.toks)-1)] }

// next returns the current token and steps on; at the end it stays.
func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return t.text == text && (t.kind == tokPunct || t.kind == tokDot)
}

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(text string) token {
	if !p.is(text) {
		p.fail(p.peek(), "expected "+text+" and found "+p.peek().text)
	}
	return p.next()
}

func (p *parser) ident(what string) token {
	t := p.next()
	if t.kind != tokIdent {
		p.fail(t, "expected "+what+" and found "+t.text)
	}
	return t
}

// number reads an integer constant without sign.
func (p *parser) number(what string, limit uint64) uint64 {
	t := p.next()
	if t.kind != tokNumber {
		p.fail(t, "expected "+what+" and found "+t.text)
	}
	v, err := strconv.ParseUint(strings.TrimSuffix(t.text, "U"), 0, 64)
	if err != nil || v > limit {
		p.fail(t, what+" out of range")
	}
	return v
}

func (p *parser) module(m *Module) {
	var linking []string
	for {
		t := p.peek()
		if t.kind == tokEOF {
			if m.Version == "" || m.Target == "" {
				p.fail(t, "no .version or no .target in the text")
			}
			return
		}
		if t.kind != tokDot {
			p.fail(t, "expected a directive and found "+t.text)
		}
		switch t.text {
		case ".version":
			p.next()
			v := p.next()
			if v.kind != tokNumber {
				p.fail(v, "expected a version number")
			}
			m.Version = v.text
		case ".target":
			p.next()
			names := []string{p.ident("a target").text}
			for p.accept(",") {
				names = append(names, p.ident("a target").text)
			}
			m.Target = strings.Join(names, ", ")
		case ".address_size":
			p.next()
			m.AddressSize = int(p.number("an address size", 64))
		case ".visible", ".extern", ".weak", ".common":
			linking = append(linking, p.next().text)
			continue
		case ".entry":
			m.Entries = append(m.Entries, p.entry())
		case ".func":
			m.Funcs = append(m.Funcs, p.function())
		case ".shared", ".global", ".const":
			for _, v := range p.variables() {
				for _, l := range linking {
					v.Extern = v.Extern || l == ".extern"
				}
				m.Vars = append(m.Vars, v)
			}
		case ".pragma":
			p.skipTo(";")
		case ".file", ".loc":
			p.skipLine()
		case ".section":
			p.next()
			p.skipTo("{")
			p.skipBraces()
		default:
			p.fail(t, "directive that is not known: "+t.text)
		}
		linking = linking[:0]
	}
}

func (p *parser) skipTo(text string) {
	for !p.is(text) {
		if p.next().kind == tokEOF {
			p.fail(p.peek(), "expected "+text)
		}
	}
	p.next()
}

func (p *parser) skipLine() {
	line := p.peek().line
	for p.peek().kind != tokEOF && p.peek().line == line {
		p.next()
	}
}

// skipBraces goes behind the brace that closes one already read.
func (p *parser) skipBraces() {
	for depth := 1; depth > 0; {
		t := p.next()
		switch {
		case t.kind == tokEOF:
			p.fail(t, "expected }")
		case t.kind == tokPunct && t.text == "{":
			depth++
		case t.kind == tokPunct && t.text == "}":
			depth--
		}
	}
}

// function reads over a .func and gives its name.
func (p *parser) function() string {
	p.expect(".func")
	if p.accept("(") {
		p.skipTo(")")
	}
	name := p.ident("a function name").text
	for !p.is("{") && !p.is(";") {
		if p.next().kind == tokEOF {
			p.fail(p.peek(), "expected { or ;")
		}
	}
	if p.next().text == "{" {
		p.skipBraces()
	}
	return name
}

func (p *parser) entry() *Entry {
	p.expect(".entry")
	name := p.ident("a kernel name")
	e := &Entry{Name: name.text, Line: name.line, Directives: map[string][]int{}}
	if p.accept("(") {
		for !p.accept(")") {
			if len(e.Params) > 0 {
				p.expect(",")
			}
			p.expect(".param")
			e.Params = append(e.Params, p.declarator("param", p.varType()))
		}
	}
	for p.peek().kind == tokDot {
		d := p.next()
		vals := []int{}
		if d.text == ".pragma" {
			p.skipTo(";")
			continue
		}
		if p.peek().kind == tokNumber {
			vals = append(vals, int(p.number("a directive's value", math.MaxInt32)))
			for p.accept(",") {
				vals = append(vals, int(p.number("a directive's value", math.MaxInt32)))
			}
		}
		e.Directives[d.text[1:]] = vals
	}
	open := p.expect("{")
	e.Body = p.scope(open.line, 1)
	return e
}

// scope reads up to and with the closing brace.
func (p *parser) scope(line, depth int) *Scope {
	if depth > maxScopeDepth {
		p.fail(p.peek(), "scopes nested too deep")
	}
	s := &Scope{Line: line}
	for !p.accept("}") {
		t := p.peek()
		switch {
		case t.kind == tokEOF:
			p.fail(t, "expected }")
		case p.is("{"):
			p.next()
			s.Items = append(s.Items, Item{Scope: p.scope(t.line, depth+1)})
		case p.is(";"):
			p.next()
		case p.is(".reg"):
			p.registers(s)
		case p.is(".shared"), p.is(".local"), p.is(".param"), p.is(".global"), p.is(".const"):
			for _, v := range p.variables() {
				s.Items = append(s.Items, Item{Var: v})
			}
		case p.is(".pragma"):
			p.skipTo(";")
		case p.is(".loc"), p.is(".file"):
			p.skipLine()
		case t.kind == tokIdent && p.ahead().kind == tokPunct && p.ahead().text == ":":
			p.next()
			p.next()
			l := &Label{Name: t.text, Line: t.line}
			if p.accept(".branchtargets") {
				l.Targets = append(l.Targets, p.ident("a label").text)
				for p.accept(",") {
					l.Targets = append(l.Targets, p.ident("a label").text)
				}
				p.expect(";")
			}
			s.Items = append(s.Items, Item{Label: l})
		case t.kind == tokIdent, p.is("@"):
			s.Items = append(s.Items, Item{Instr: p.instruction()})
		default:
			p.fail(t, "expected an instruction and found "+t.text)
		}
	}
	return s
}

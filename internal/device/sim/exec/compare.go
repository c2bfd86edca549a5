package exec

import "github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"

// comparison gives the test of a comparison operator on a type.
func (b *build) comparison(op string, t typ) func(x, y uint64) bool {
	if t.isFloat() {
		return b.floatComparison(op, t)
	}
	if t.class == classPred || t.bits < 16 || t.class == classBits && op != "eq" && op != "ne" {
		b.refuse("comparison .%s on type .%s", op, t.name)
	}
	switch op {
	case "lo", "ls", "hi", "hs":
		if t.class != classUnsigned {
			b.refuse("comparison .%s on type .%s", op, t.name)
		}
		op = map[string]string{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}[op]
	}
	signed := t.class == classSigned
	s := 64 - t.bits
	switch op {
	case "eq":
		return func(x, y uint64) bool { return x == y }
	case "ne":
		return func(x, y uint64) bool { return x != y }
	case "lt":
		if signed {
			return func(x, y uint64) bool { return int64(x<<s) < int64(y<<s) }
		}
		return func(x, y uint64) bool { return x < y }
	case "le":
		if signed {
			return func(x, y uint64) bool { return int64(x<<s) <= int64(y<<s) }
		}
		return func(x, y uint64) bool { return x <= y }
	case "gt":
		if signed {
			return func(x, y uint64) bool { return int64(x<<s) > int64(y<<s) }
		}
		return func(x, y uint64) bool { return x > y }
	case "ge":
		if signed {
			return func(x, y uint64) bool { return int64(x<<s) >= int64(y<<s) }
		}
		return func(x, y uint64) bool { return x >= y }
	}
	b.refuse("comparison")
	return nil
}

func (b *build) floatComparison(op string, t typ) func(x, y uint64) bool {
	if t.lanes > 1 {
		b.refuse("type .%s", t.name)
	}
	v := func(x uint64) float64 { return toFloat64(t, x) }
	if t.name == "f32" {
		v = func(x uint64) float64 { return float64(f32(x)) }
	}
	nan := func(x, y uint64) bool { return v(x) != v(x) || v(y) != v(y) }
	switch op {
	case "eq":
		return func(x, y uint64) bool { return v(x) == v(y) }
	case "ne": // ordered, unlike C's
		return func(x, y uint64) bool { return v(x) != v(y) && !nan(x, y) }
	case "lt":
		return func(x, y uint64) bool { return v(x) < v(y) }
	case "le":
		return func(x, y uint64) bool { return v(x) <= v(y) }
	case "gt":
		return func(x, y uint64) bool { return v(x) > v(y) }
	case "ge":
		return func(x, y uint64) bool { return v(x) >= v(y) }
	case "equ":
		return func(x, y uint64) bool { return v(x) == v(y) || nan(x, y) }
	case "neu":
		return func(x, y uint64) bool { return v(x) != v(y) }
	case "ltu":
		return func(x, y uint64) bool { return !(v(x) >= v(y)) }
	case "leu":
		return func(x, y uint64) bool { return !(v(x) > v(y)) }
	case "gtu":
		return func(x, y uint64) bool { return !(v(x) <= v(y)) }
	case "geu":
		return func(x, y uint64) bool { return !(v(x) < v(y)) }
	case "num":
		return func(x, y uint64) bool { return !nan(x, y) }
	case "nan":
		return nan
	}
	b.refuse("comparison")
	return nil
}

// compared reads the comparison and the Boolean operator of setp and set.
func (b *build) compared() (op, join string) {
	op = b.oneOf("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
		"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
	if op == "" {
		b.refuse("comparison is missing")
	}
	return op, b.oneOf("and", "or", "xor")
}

func combine(join string, p, q uint32) uint32 {
	switch join {
	case "and":
		return p & q
	case "or":
		return p | q
	case "xor":
		return p ^ q
	}
	return p
}

// compileSetp compiles setp.
func compileSetp(b *build) {
	t := b.typ()
	op, join := b.compared()
	test := b.comparison(op, t)
	if join == "" {
		b.args(3, 3)
	} else {
		b.args(4, 4)
	}
	d, q := -1, -1
	out := b.arg(0)
	if out.Kind == ptx.Pair {
		if out.List[1].Name != "_" {
			q, _ = b.pred(&out.List[1])
		}
		out = &out.List[0]
	}
	if out.Name != "_" || out.Kind != ptx.Ident {
		d, _ = b.pred(out)
	}
	x, y := b.src(1, t.bits), b.src(2, t.bits)
	if join == "" && q < 0 && d >= 0 {
		b.setpSimple(op, t, d, x, y, test)
		return
	}
	c, not := -1, false
	if join != "" {
		c, not = b.pred(b.arg(3))
	}
	b.emit(func(w *warp) {
		var p uint32
		rx, ry := &w.r[x], &w.r[y]
		for _, l := range w.act {
			l &= 31
			if test(rx[l], ry[l]) {
				p |= 1 << l
			}
		}
		r, s := p, ^p
		if c >= 0 {
			third := flip(w.p[c], not)
			r, s = combine(join, p, third), combine(join, ^p, third)
		}
		if d >= 0 {
			w.p[d] = w.p[d]&^w.mask | r&w.mask
		}
		if q >= 0 {
			w.p[q] = w.p[q]&^w.mask | s&w.mask
		}
	})
}

// setpSimple has the comparisons that end loops written out.
func (b *build) setpSimple(op string, t typ, d, x, y int, test func(x, y uint64) bool) {
	unsigned := t.class == classUnsigned
	s := 64 - t.bits
	switch {
	case op == "eq" && t.integer():
		b.emit(func(w *warp) {
			var p uint32
			rx, ry := &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				var v uint32
				if rx[l] == ry[l] {
					v = 1
				}
				p |= v << l
			}
			w.p[d] = w.p[d]&^w.mask | p
		})
	case op == "ne" && t.integer():
		b.emit(func(w *warp) {
			var p uint32
			rx, ry := &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				var v uint32
				if rx[l] != ry[l] {
					v = 1
				}
				p |= v << l
			}
			w.p[d] = w.p[d]&^w.mask | p
		})
	case (op == "lt" || op == "gt") && unsigned:
		if op == "gt" {
			x, y = y, x
		}
		b.emit(func(w *warp) {
			var p uint32
			rx, ry := &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				var v uint32
				if rx[l] < ry[l] {
					v = 1
				}
				p |= v << l
			}
			w.p[d] = w.p[d]&^w.mask | p
		})
	case (op == "lt" || op == "gt") && t.class == classSigned:
		if op == "gt" {
			x, y = y, x
		}
		b.emit(func(w *warp) {
			var p uint32
			rx, ry := &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				var v uint32
				if int64(rx[l]<<s) < int64(ry[l]<<s) {
					v = 1
				}
				p |= v << l
			}
			w.p[d] = w.p[d]&^w.mask | p
		})
	default:
		b.emit(func(w *warp) {
			var p uint32
			rx, ry := &w.r[x], &w.r[y]
			for _, l := range w.act {
				l &= 31
				if test(rx[l], ry[l]) {
					p |= 1 << l
				}
			}
			w.p[d] = w.p[d]&^w.mask | p
		})
	}
}

// compileSet compiles set: all ones, or 1.0, where the test holds.
func compileSet(b *build) {
	t := b.typ()
	to := b.typ()
	op, join := b.compared()
	test := b.comparison(op, t)
	yes := uint64(1<<32 - 1)
	if to.name == "f32" {
		yes = 0x3f800000
	} else if to.bits != 32 || !to.integer() || to.class == classBits {
		b.refuse("type .%s", to.name)
	}
	c, not := -1, false
	b.args(3, 4)
	if (join != "") != (len(b.in.Args) == 4) {
		b.refuse("operands")
	}
	if join != "" {
		c, not = b.pred(b.arg(3))
	}
	d, x, y := b.dst(0, 32), b.src(1, t.bits), b.src(2, t.bits)
	b.emit(func(w *warp) {
		for _, l := range w.act {
			l &= 31
			var p uint32
			if test(w.r[x][l], w.r[y][l]) {
				p = 1
			}
			if c >= 0 {
				p = combine(join, p, flip(w.p[c], not)>>l&1)
			}
			w.r[d][l] = 0
			if p != 0 {
				w.r[d][l] = yes
			}
		}
	})
}

// compileSelp compiles selp.
func compileSelp(b *build) {
	b.args(4, 4)
	t := b.typ()
	if t.class == classPred || t.bits < 16 || t.lanes > 1 {
		b.refuse("type .%s", t.name)
	}
	d, x, y := b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits)
	c, not := b.pred(b.arg(3))
	b.emit(func(w *warp) {
		p := flip(w.p[c], not)
		rd, rx, ry := &w.r[d], &w.r[x], &w.r[y]
		for _, l := range w.act {
			l &= 31
			v := ry[l]
			if p>>l&1 != 0 {
				v = rx[l]
			}
			rd[l] = v
		}
	})
}

// compileSlct compiles slct: the first operand where the third is not negative.
func compileSlct(b *build) {
	b.args(4, 4)
	c := b.typ()
	t := b.typ()
	if t.class == classPred || t.bits < 16 || t.lanes > 1 {
		b.refuse("type .%s", t.name)
	}
	var f func(z uint64) bool
	switch c.name {
	case "s32":
		f = func(z uint64) bool { return int32(z) >= 0 }
	case "f32":
		f = func(z uint64) bool { return f32(z) >= 0 }
	default:
		b.refuse("type .%s", c.name)
	}
	b.op3(b.dst(0, t.bits), b.src(1, t.bits), b.src(2, t.bits), b.src(3, 32), func(x, y, z uint64) uint64 {
		if f(z) {
			return x
		}
		return y
	})
}

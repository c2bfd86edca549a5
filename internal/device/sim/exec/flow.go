package exec

// finish ends the current block and begins the next.
func (b *build) finish(end endKind) {
	b.c.cur.end, b.c.cur.in = end, b.in
	b.c.start()
}

func compileBra(b *build) {
	b.c.cur.label = b.branch()
	b.finish(endBranch)
}

// compileBrx compiles brx.idx.
func compileBrx(b *build) {
	b.args(2, 2)
	if !b.take("idx") {
		b.refuse("")
	}
	b.take("uni")
	index := b.src(0, 32)
	l := b.env.label(b.arg(1).Name)
	if l == nil || l.targets == nil {
		b.refuse("list of labels %s is not defined", b.arg(1).Name)
	}
	for _, name := range l.targets.Targets {
		b.c.cur.table = append(b.c.cur.table, b.labelOf(name, l.env))
	}
	b.c.cur.index = index
	b.finish(endIndexed)
}

// compileExit compiles ret and exit, which are the same in a kernel.
func compileExit(b *build) {
	b.args(0, 0)
	b.take("uni")
	b.finish(endExit)
}

func compileTrap(b *build) {
	b.args(0, 0)
	b.emit(func(w *warp) { w.fault(b.in, Trap, 0, 0, w.act[0]) })
}

// compileNanosleep compiles nanosleep: others get a turn, for however long.
func compileNanosleep(b *build) {
	b.args(1, 1)
	if t := b.typ(); t.name != "u32" {
		b.refuse("type .%s", t.name)
	}
	b.src(0, 32)
	b.finish(endYield)
}

// compileBarrier compiles bar and barrier.
func compileBarrier(b *build) {
	if b.take("warp") {
		if b.in.Op != "bar" || !b.take("sync") {
			b.refuse("")
		}
		b.args(1, 1)
		b.c.cur.mask = b.src(0, 32)
		b.finish(endWarpSync)
		return
	}
	b.take("cta")
	b.take("aligned")
	op := &barrierOp{count: -1, in: b.in}
	arg := b.in.Args
	switch b.oneOf("sync", "arrive", "red") {
	case "sync":
	case "arrive":
		op.arrive = true
		b.args(2, 2)
	case "red":
		op.op = b.oneOf("popc", "and", "or")
		t := b.typ()
		switch {
		case op.op == "popc" && t.name == "u32":
			op.dst = b.dst(0, 32)
		case (op.op == "and" || op.op == "or") && t.class == classPred:
			op.dst, _ = b.pred(b.arg(0))
		default:
			b.refuse("reduction")
		}
		b.args(3, 4)
		op.src, op.not = b.pred(b.arg(len(arg) - 1))
		arg = arg[1 : len(arg)-1]
	default:
		b.refuse("")
	}
	if len(arg) < 1 || len(arg) > 2 {
		b.refuse("%d operands", len(b.in.Args))
	}
	op.id = b.value(&arg[0], 32, false)
	if len(arg) == 2 {
		op.count = b.value(&arg[1], 32, false)
	}
	b.c.cur.bar = op
	b.finish(endBarrier)
}

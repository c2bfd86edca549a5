package exec

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

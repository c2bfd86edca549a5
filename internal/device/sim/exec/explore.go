package exec

import "context"

// paces bounds the number of steps in a row in which nothing happened and after
// which the CPU is given to others.
const paces = 64

// explore is all for the weak memory model: blocks start in any order, and blocks
// and warps run at very different speeds, all drawn from the seed.
func (r *run) explore(ctx context.Context) (err error) {
	x := r.weak
	sms := max(r.cfg.SMs, 1)
	room := min(uint64(sms)*uint64(max(r.cfg.BlocksPerSM, 1)), uint64(r.l.Grid))
	order := x.rng.Perm(int(r.l.Grid))
	var resident []*cta
	start := func(c *cta) {
		index := uint32(order[0])
		order = order[1:]
		c.begin(index, index%uint32(sms))
		x.begin(c)
	}
	defer func() {
		for _, c := range resident {
			r.count(c)
			r.giveCTA(c)
		}
		switch p := recover().(type) {
		case nil:
		case *Fault:
			p.Kernel = r.k.name
			err = p
		case ended:
			err = p.err
		default:
			panic(p)
		}
	}()
	for range room {
		c := r.takeCTA()
		resident = append(resident, c)
		start(c)
	}
	r.done = ctx.Done()
	idle := 0
	for len(resident) > 0 || len(x.stores) > 0 {
		if err := r.step(ctx); err != nil {
			return err
		}
		worked := true
		if len(resident) > 0 {
			i := x.rng.IntN(len(resident))
			c := resident[i]
			if x.rng.Uint32N(c.weak.pace) == 0 {
				worked = r.turn(c)
			}
			if c.live == 0 {
				c.endCopies()
				x.end(c)
				r.stats.blocks++
				if len(order) > 0 {
					start(c)
				} else {
					r.count(c)
					r.giveCTA(c)
					resident = append(resident[:i], resident[i+1:]...)
				}
			}
		}
		if x.chance(x.drain) {
			// Of many stores that are on their way many go.
			for range 1 + x.rng.IntN(1+x.underway(resident)/4) {
				x.settle(resident)
			}
		}
		if worked {
			idle = 0
		} else if idle++; idle > paces && x.cfg.Turn == nil {
			x.settle(resident) // others may wait for it
			r.stats.sleeps++
			giveWay(idle - paces)
		}
	}
	x.cfg.Left = x.h.end(x.agent, x.left, 0, blocks-1)
	return nil
}

// step ends the launch with its context and lets other launches go on.
func (r *run) step(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if turn := r.weak.cfg.Turn; turn != nil {
		return turn()
	}
	return nil
}

// turn runs one warp of the block for a while.
func (r *run) turn(c *cta) (worked bool) {
	from := r.weak.rng.IntN(len(c.warps))
	for i := range c.warps {
		w := &c.warps[(from+i)%len(c.warps)]
		if w.live&^w.wait != 0 {
			if w.idle && r.weak.rng.IntN(4) != 0 {
				return false // it only waits
			}
			r.slice = 1 << r.weak.rng.UintN(9)
			worked = w.slice(r.k.blocks)
			w.idle = !worked
			return worked
		}
	}
	if c.live > 0 {
		c.deadlock()
	}
	return false
}

package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"time"
)

// Conductor lets the launches of several ranks of one process take turns, one
// step at a time, in an order that depends on a seed alone: what they do to each
// other is then reproducible. Ranks run at very different speeds.
//
// A rank takes its seat for a piece of work, a launch or a whole graph. The work
// of a round begins when every rank has its seat, and a round ends when all have
// left.
type Conductor struct {
	// TurnTime is how long a turn lasts on the clock that kernels read; one
	// microsecond if it is 0. Set it between rounds only.
	TurnTime time.Duration

	mu     sync.Mutex
	ranks  int
	seed   uint64
	rng    *rand.Rand
	round  []*Seat
	begun  bool
	turns  uint64
	rounds uint64
}

// Seat is a rank's part in a round, or one of its parts.
type Seat struct {
	c     *Conductor
	rank  int
	wake  chan struct{}
	pace  uint32 // the slower, the higher
	turns int    // left before another rank's
	ctx   context.Context
	seeds *rand.Rand
	alike *rand.Rand // the same for all ranks
}

// NewConductor is for ranks that start in the order of seed.
func NewConductor(ranks int, seed uint64) *Conductor {
	c := &Conductor{ranks: ranks}
	c.Reseed(seed)
	return c
}

// Reseed begins another order. No round may be under way.
func (c *Conductor) Reseed(seed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seed, c.rounds = seed, 0
	c.rng = rand.New(rand.NewPCG(seed, 0x636f6e64))
}

// Now is a clock for %globaltimer in nanoseconds.
func (c *Conductor) Now() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 1_000_000_000 + c.turns*uint64(max(c.TurnTime, time.Microsecond))
}

// seatPatience bounds the wait for all ranks to begin a round.
const seatPatience = 30 * time.Second

// Sit waits for the first turn of a rank in the next round.
func (c *Conductor) Sit(ctx context.Context, rank int) (*Seat, error) {
	s := &Seat{c: c, rank: rank, wake: make(chan struct{}, 1), ctx: ctx}
	limit := time.Now().Add(seatPatience)
	for {
		c.mu.Lock()
		if !c.begun {
			break
		}
		c.mu.Unlock()
		if time.Now().After(limit) {
			return nil, fmt.Errorf("rank %d waits for the others to end a round of launches", rank)
		}
		time.Sleep(20 * time.Microsecond)
	}
	c.round = append(c.round, s)
	if len(c.round) == c.ranks {
		c.begun = true
		c.rounds++
		sort.Slice(c.round, func(i, j int) bool { return c.round[i].rank < c.round[j].rank })
		for _, r := range c.round {
			r.seeds = rand.New(rand.NewPCG(c.seed, c.rounds<<8|uint64(r.rank)))
			r.alike = rand.New(rand.NewPCG(c.seed, c.rounds<<8|0xff))
			r.pace = []uint32{1, 1, 2, 4, 10}[c.rng.IntN(5)]
		}
		c.pass()
	}
	c.mu.Unlock()
	select {
	case <-s.wake:
		return s, nil
	case <-ctx.Done():
		s.Leave()
		return nil, context.Cause(ctx)
	case <-time.After(time.Until(limit)):
		s.Leave()
		return nil, fmt.Errorf("rank %d is alone: %d other ranks have launched nothing", rank, c.ranks-1)
	}
}

// pass gives the next turn to somebody and tells whom. c.mu is held.
func (c *Conductor) pass() *Seat {
	for {
		s := c.round[c.rng.IntN(len(c.round))]
		if c.rng.Uint32N(s.pace) == 0 {
			s.turns = 1 << c.rng.UintN(6)
			s.wake <- struct{}{}
			return s
		}
	}
}

// Turn ends a step and waits for the next turn.
func (s *Seat) Turn() error {
	c := s.c
	c.mu.Lock()
	c.turns++
	if s.turns--; s.turns > 0 {
		c.mu.Unlock()
		return nil
	}
	c.pass()
	c.mu.Unlock()
	select {
	case <-s.wake:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// Next gives a seed for the next launch of a rank in this round, and in half of
// all launches a temper that all ranks have then.
func (s *Seat) Next() (seed, temper uint64) {
	temper = s.alike.Uint64()
	if temper>>63 == 0 {
		temper = 0
	}
	return s.seeds.Uint64(), temper
}

// Fork takes one more seat in the round for the rank of s, whose turn it must be:
// for work that goes on beside that of s. number tells the seats of a rank apart.
// Whoever gets it calls Begin first and Leave at the end.
func (s *Seat) Fork(number int) *Seat {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	other := uint64(number) << 48
	f := &Seat{c: c, rank: s.rank, wake: make(chan struct{}, 1), ctx: s.ctx, pace: []uint32{1, 1, 2, 4, 10}[c.rng.IntN(5)],
		seeds: rand.New(rand.NewPCG(c.seed, c.rounds<<8|uint64(s.rank)|other)),
		alike: rand.New(rand.NewPCG(c.seed, c.rounds<<8|0xff|other))}
	c.round = append(c.round, f)
	return f
}

// Begin waits for the first turn of a seat that Fork gave.
func (s *Seat) Begin() error {
	select {
	case <-s.wake:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// Leave ends a rank's part in the round.
func (s *Seat) Leave() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.round {
		if c.round[i] == s {
			c.round = append(c.round[:i], c.round[i+1:]...)
			break
		}
	}
	switch {
	case len(c.round) == 0:
		c.begun = false
	case c.begun:
		c.pass()
	}
}

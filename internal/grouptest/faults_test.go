package grouptest

import (
	"context"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// broken is an all-reduce of one rank, which is a copy, that also spoils a word.
type broken struct {
	r  *Rank
	at func(collective.Call) device.Ptr
	c  collective.Call
}

func (b broken) Mode() string                                   { return "broken" }
func (b broken) Supports(collective.DType, collective.Op) error { return nil }
func (b broken) Close(context.Context) error                    { return nil }
func (b broken) Prepare(c collective.Call) (collective.Prepared, error) {
	b.c = c
	return brokenCall{b}, nil
}

type brokenCall struct{ broken }

func (b brokenCall) Algorithm() string             { return "none" }
func (b brokenCall) Tuning() (t collective.Tuning) { return t }
func (b brokenCall) Close() error                  { return nil }
func (b brokenCall) Enqueue(s device.Stream) error {
	p, _ := b.r.Trivial(b.c)
	if err := p.Enqueue(s); err != nil || b.at == nil {
		return err
	}
	return s.Set32(b.at(b.c), 0x01020304, 1)
}

// Verify sees a wrong element, a changed input, and a byte too many on either side.
func TestVerifySeesFaults(t *testing.T) {
	const bytes = 400
	for _, c := range []struct {
		want string
		at   func(collective.Call) device.Ptr
	}{
		{"", nil},
		{"element 0 is 04030201", func(c collective.Call) device.Ptr { return c.Recv.Local() }},
		{"element 99 is 04030201", func(c collective.Call) device.Ptr { return c.Recv.Local() + bytes - 4 }},
		{"the send buffer has changed", func(c collective.Call) device.Ptr { return c.Send.Local() + 40 }},
		{"bytes around the receive buffer were changed", func(c collective.Call) device.Ptr { return c.Recv.Local() - 4 }},
		{"bytes around the receive buffer were changed", func(c collective.Call) device.Ptr { return c.Recv.Local() + bytes }},
		{"bytes around the send buffer were changed", func(c collective.Call) device.Ptr { return c.Send.Local() + bytes }},
		{"bytes around the send buffer were changed", func(c collective.Call) device.Ptr { return c.Send.Local() - Guard }},
	} {
		rec := &recorder{TB: t}
		Run(rec, 1, nil, func(r *Rank) {
			m := r.Alloc(1)
			defer m.Close(context.Background())
			arena := NewArena(m)
			r.Check(broken{r: r, at: c.at}, Case{Send: arena.Take(bytes, 0), Recv: arena.Take(bytes, 0), Count: bytes / 4, DType: collective.Float})
		})
		got := strings.Join(rec.errors, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("expected %q, errors: %s", c.want, got)
		}
	}
}

// The reference itself, for values that can be seen to be right.
func TestReference(t *testing.T) {
	c := Case{Count: 50, DType: collective.Int32, Op: collective.Sum, Seed: 3}
	for i := range c.Count {
		sum := value(c, 0, i) + value(c, 1, i)
		want := string(Encode(nil, collective.Int32, sum, 1))
		if got := expected(c, 2)[4*i : 4*i+4]; string(got) != want {
			t.Errorf("element %d: %x, expected %x", i, got, want)
		}
	}
	for d, want := range map[collective.DType]string{
		collective.Half: "\x00\xbe", collective.BFloat16: "\xc0\xbf", collective.Float: "\x00\x00\xc0\xbf",
		collective.Double: "\x00\x00\x00\x00\x00\x00\xf8\xbf", collective.Int8: "\xff", collective.Int64: strings.Repeat("\xff", 8),
	} {
		if got := Encode(nil, d, -3, 2); string(got) != want { // -1.5; integers cut it to -1
			t.Errorf("%s: %x, expected %x", d, got, want)
		}
	}
}

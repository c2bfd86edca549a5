package bench

import (
	"bytes"
	"context"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// spoiled is a call after which one word of a rank's result is wrong.
type spoiled struct {
	collective.Prepared
	at   device.Ptr
	here bool
	only int // the round, from 0; -1: every one
	n    int
}

func (s *spoiled) Enqueue(st device.Stream) error {
	if err := s.Prepared.Enqueue(st); err != nil {
		return err
	}
	s.n++
	if !s.here || s.only >= 0 && s.only != s.n-1 {
		return nil
	}
	return st.Set32(s.at, 0x42280000, 1) // 42
}

// A right result is found right; of a wrong one all ranks learn how many elements
// are wrong over all rounds, and which is the first.
func TestVerify(t *testing.T) {
	const rounds, count, index = 70, 500, 321 // more rounds than a batch
	for _, c := range []struct {
		name  string
		only  int
		wrong uint64
		got   string
	}{
		{"right", rounds, 0, ""},
		{"always wrong", -1, rounds, "overwritten by a later check"},
		{"wrong at last", rounds - 1, 1, "42"},
	} {
		for _, p := range []result.Placement{result.OutOfPlace, result.InPlace} {
			grouptest.Run(t, 3, nil, func(r *grouptest.Rank) {
				cfg := configs.Default()
				cfg.Run.Mode, cfg.Run.Device = []string{"ring"}, configs.DeviceSim
				cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes = 4*count, 4*count
				cfg.Timing.Check = rounds
				b, err := start(r, cfg, new(bytes.Buffer))
				r.OK(err, "setting up")
				call := b.buffers.call(0, 4*count, collective.Float, collective.Sum, p)
				prepared, err := b.find("ring").reducer.Prepare(call)
				r.OK(err, "Prepare")
				s := &spoiled{Prepared: prepared, at: call.Recv.Local() + 4*index, here: r.Rank() == 1, only: c.only}
				var row result.Row
				r.OK(b.verify(context.Background(), &row, s, call), "verify")
				f := row.FirstWrong
				switch {
				case row.Wrong == nil || *row.Wrong != c.wrong || (f == nil) != (c.wrong == 0):
					r.Fatalf("%s, %v: wrong: %v, first: %+v", c.name, p, row.Wrong, f)
				case f != nil && (f.Rank != 1 || f.Index != index || f.Got.Value != c.got || f.Expected.Value == "" || f.Expected.Value == "42"):
					r.Fatalf("%s, %v: first: %+v", c.name, p, f)
				}
				if s.n != rounds {
					r.Fatalf("%d rounds of %d", s.n, rounds)
				}
				r.OK(prepared.Close(), "closing the call")
				stop(r, b)
			})
		}
	}
}

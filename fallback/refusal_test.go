package fallback_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// Packets have a largest message, which works, and say so of a larger one.
func TestPacketLimit(t *testing.T) {
	for _, n := range []int{2, 5} {
		most := packet().MaxBytes(n)
		grouptest.Run(t, n, nil, func(r *grouptest.Rank) {
			m := r.Alloc(2 << 20)
			p := fallback.NewP2P(r.Group, fallback.Packet, collective.Tuning{})
			r.Check(p, grouptest.Case{Send: m.At(1 << 10), Recv: m.At(1<<20 + 1<<10), Count: most, DType: collective.Uint8})
			_, err := p.Prepare(collective.Call{Send: m.At(0), Recv: m.At(1 << 20), Count: most + 1, DType: collective.Uint8})
			want := fmt.Sprintf("p2p-packet cannot take this size.* at most %s .*--mode p2p", collective.FormatBytes(most))
			if failure.CodeOf(err) != failure.Unavailable || !regexp.MustCompile(want).MatchString(err.Error()) {
				r.Fatalf("code %d, expected %q: %v", failure.CodeOf(err), want, err)
			}
			// Plain p2p takes it.
			a := fallback.NewP2P(r.Group, fallback.Auto, collective.Tuning{})
			r.Check(a, grouptest.Case{Send: m.At(1 << 10), Recv: m.At(1<<20 + 1<<10), Count: most + 1, DType: collective.Uint8})
			r.Close(m)
		})
	}
}

// Every mode does every type and operation, where nothing is known of multicast.
func TestWithoutMulticast(t *testing.T) {
	for _, configure := range []func(int, *collective.Options){
		func(_ int, o *collective.Options) { o.MulticastOff = "the test" },
		func(_ int, o *collective.Options) { o.Sim.Major = 8 },
	} {
		grouptest.Run(t, 2, configure, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			arena := grouptest.NewArena(m)
			for _, mode := range modes() {
				a := mode.New(r, collective.Tuning{}, m)
				for _, d := range collective.DTypes() {
					for _, op := range collective.Ops() {
						r.OK(a.Supports(d, op), "%s: %s of %s", a.Mode(), op, d)
					}
				}
				r.Check(a, grouptest.Case{Send: arena.Take(4000, 0), Recv: arena.Take(4000, 0), Count: 1000, DType: collective.Float, Op: collective.Prod})
				r.Close(a)
			}
			r.Close(m)
		})
	}
}

// A staging buffer that does not fit is an error of all ranks that says what to do.
func TestStagingDoesNotFit(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		_, err := fallback.NewCopyIn(context.Background(), r.Group, 1<<40, collective.Tuning{})
		if failure.CodeOf(err) != failure.Device || !regexp.MustCompile("the staging buffer.*bytes are free.*--staging").MatchString(err.Error()) {
			r.Fatalf("code %d: %v", failure.CodeOf(err), err)
		}
	})
}

package fallback_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
)

// Bulk copies are chosen where the GPUs have them, and the calls say what runs.
func TestBulkCapability(t *testing.T) {
	for major, want := range map[int]string{8: "plain-push ", 9: "push-bulk ", 10: "push-bulk "} {
		grouptest.Run(t, 3, func(_ int, o *collective.Options) { o.Sim.Major = major }, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			arena := grouptest.NewArena(m)
			p := fallback.NewP2P(r.Group, fallback.PushBulk, collective.Tuning{})
			s := r.Start(p, grouptest.Case{Send: arena.Take(40000, 4), Recv: arena.Take(40000, 4), Count: 9999, DType: collective.Float})
			r.Wait()
			s.Verify()
			if got := s.Prepared.Algorithm(); !strings.HasPrefix(got, want) || fallback.BulkCopies(r.Group) != (major >= 9) {
				r.Fatalf("capability %d.0: algorithm %q, expected %q", major, got, want)
			}
			s.Close()
			r.Close(p)
			r.Close(m)
		})
	}
}

// Messages of several stages a round, and of more rounds than there are slots.
func TestBulkRounds(t *testing.T) {
	for n, scratch := range map[int]uint64{2: 16 << 20, 3: 0} {
		grouptest.Run(t, n, func(_ int, o *collective.Options) { o.ScratchBytes = scratch }, func(r *grouptest.Rank) {
			const bytes = 1<<20 + 4<<10
			m := r.Alloc(3 * bytes)
			p := fallback.NewP2P(r.Group, fallback.PushBulk, collective.Tuning{Blocks: 1, Threads: 256})
			for i, c := range []grouptest.Case{
				{Send: m.At(4096), Recv: m.At(4096 + bytes), Count: bytes/4 - 1500, DType: collective.Float, Op: collective.Avg},
				{Send: m.At(4096 + 2), Recv: m.At(4096 + 2), Count: bytes/2 - 3000, DType: collective.BFloat16},
			} {
				c.Seed = uint64(i)
				r.Check(p, c)
			}
			r.Close(p)
			r.Close(m)
		})
	}
}

// A round with more inputs than a ring has stages fills stages again, and so do
// results, round after round. Without the wait for what still reads them, the
// result is wrong.
func TestBulkStages(t *testing.T) {
	wait := regexp.MustCompile(`cp\.async\.bulk\.wait_group\.read\s+\d+;`)
	grouptest.Run(t, 3, nil, func(r *grouptest.Rank) {
		const size = 400 << 10
		m := r.Alloc(2 * size)
		var results [2][]byte
		for i, rewrite := range []func(string) string{nil, func(ptx string) string { return wait.ReplaceAllString(ptx, "") }} {
			r.Library().Rewrite = rewrite
			r.OK(r.Library().Close(), "unloading kernels")
			p := fallback.NewP2P(r.Group, fallback.PushBulk, collective.Tuning{Blocks: 1, Threads: 512})
			s := r.Start(p, grouptest.Case{Send: m.At(4096), Recv: m.At(size), Count: 90000, DType: collective.Float})
			r.Wait()
			results[i] = r.Read(s.Recv.Local(), 4*90000)
			if rewrite == nil {
				s.Verify()
			}
			s.Close()
			r.Close(p)
		}
		if bytes.Equal(results[0], results[1]) {
			r.T.Error("stages are stored to while copies read them, and nothing is wrong")
		}
		r.Library().Rewrite = nil
		r.Close(m)
	})
}

package nccl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// listen runs a call with NCCL's log on, and one after it.
func listen(ctx context.Context, r *rank) error {
	a, err := Open(ctx, r.Group, r.options())
	if err != nil {
		return err
	}
	m, err := r.Alloc(ctx, "test", 4096)
	if err != nil {
		return err
	}
	p, err := a.Prepare(collective.Call{Send: m.At(0), Recv: m.At(0), Count: 1, DType: collective.Float, Op: collective.Sum})
	if err != nil {
		return err
	}
	work := func() error { return p.Enqueue(r.Stream()) }
	chosen, err := a.Listen(work)
	if err != nil {
		return err
	}
	fmt.Printf("chosen %q\n", chosen)
	for _, name := range []string{envDebug, envSubsys, envFile} {
		v, _ := cEnv(name)
		fmt.Printf("%s=%s\n", name, v)
	}
	if _, err := a.Listen(func() error { return errors.New("of the work") }); err == nil || err.Error() != "of the work" {
		return fmt.Errorf("the error of the work is %v", err)
	}
	return errors.Join(work(), r.Wait(ctx), m.Close(ctx), a.Close(ctx))
}

func TestListen(t *testing.T) {
	ring := "FAKENCCL_CHOICE=AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
	for _, tt := range []struct {
		name   string
		env    []string
		chosen string
		resets int
	}{
		{"ring", []string{ring}, "ring ll", 4},
		{"symmetric", []string{"FAKENCCL_CHOICE=AllReduce [Symmetric]: 4 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 nthreads 512 nWorks 1"}, "symmetric AllReduce_AGxLL_R", 4},
		{"another function", []string{"FAKENCCL_CHOICE=Broadcast: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"}, "", 4},
		{"nothing said", nil, "", 4},
		{"the user's own log", []string{ring, "NCCL_DEBUG=WARN"}, "", 0},
		{"the user's own file", []string{ring, "NCCL_DEBUG_FILE=/nowhere/log"}, "ring ll", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := child(t, "listen", tt.env...)
			want := []string{fmt.Sprintf("chosen %q\n", tt.chosen)}
			for _, name := range []string{envDebug, envSubsys, envFile} {
				before := ""
				for _, kv := range tt.env {
					if v, ok := strings.CutPrefix(kv, name+"="); ok {
						before = v
					}
				}
				want = append(want, fmt.Sprintf("%s=%s\n", name, before))
			}
			for _, w := range want {
				if !o.done || !strings.Contains(o.output, w) {
					t.Errorf("%q is missing in:\n%s", w, o.output)
				}
			}
			if n := count(o.calls(), "ncclResetDebugInit"); n != tt.resets {
				t.Errorf("%d resets of the log, want %d: %v", n, tt.resets, o.calls())
			}
		})
	}
	// Only rank 0 is told, so only it listens.
	both := pair(t, "listen", [2][]string{{ring}, {ring}})
	for i, chosen := range []string{`chosen "ring ll"`, `chosen ""`} {
		if !both[i].done || !strings.Contains(both[i].output, chosen) {
			t.Errorf("rank %d: %s", i, both[i].output)
		}
	}
}

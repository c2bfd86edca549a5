package exec

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// works runs pieces of work one after the other on one memory, each on an agent and
// behind what other pieces have left.
type works struct {
	t *testing.T
	m *machine
	h *History
}

func newWorks(t *testing.T) *works {
	m := newMachine(t)
	return &works{t, m, NewHistory(alignedBytes(HistoryHeadBytes), []HistoryRange{{m.mem, alignedBytes(HistoryBytes(PageSize))}})}
}

// kernel runs a kernel of one block and says whether it ended with a race.
func (w *works) kernel(k *Kernel, process, branch int, seed uint64, before *Known) (left *Known, race bool) {
	w.t.Helper()
	cfg := w.m.cfg
	cfg.Weak = &Weak{History: w.h, Seed: seed, Process: process, Branch: branch, Before: before}
	err := k.Run(context.Background(), w.m.space, &cfg, Launch{Grid: 1, Block: 1, Args: args(k.ParamBytes, base)})
	var f *Fault
	if errors.As(err, &f) && f.Kind == DataRace {
		return nil, true
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return cfg.Weak.Left, false
}

const orderSeeds = 60

// A kernel knows what the work before it has acquired, and that alone: neither what is
// in memory when it starts, nor what was only seen.
func TestStartKnowsPredecessors(t *testing.T) {
	put := weakKernel(t, kernelText(putData+"st.release.sys"+flag))
	read := weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0];\nld.global.u32 %r2, [%rd0+64];\nst.global.u32 [%rd0+1024], %r1;\nst.global.u32 [%rd0+1028], %r2;\n"))
	for _, c := range []struct {
		name, load string
		behind     bool
		fresh      bool
	}{
		{"behind an acquire", "acquire.sys", true, true},
		{"behind a relaxed load", "relaxed.sys", true, false},
		{"beside an acquire", "acquire.sys", false, false},
	} {
		wait := weakKernel(t, kernelText(await(c.load)))
		stale := 0
		for seed := range uint64(orderSeeds) {
			w := newWorks(t)
			w.kernel(put, 1, 0, seed, nil)
			left, _ := w.kernel(wait, 0, 0, seed, nil)
			if !c.behind {
				left = nil
			}
			w.kernel(read, 0, 0, seed, left)
			if w.m.u32(256) != 1 || w.m.u32(257) != 1 {
				stale++
			}
		}
		if c.fresh != (stale == 0) || !c.fresh && stale < orderSeeds/5 {
			t.Errorf("%s: %d of %d seeds read old values", c.name, stale, orderSeeds)
		}
	}
}

// Branches of one process are as strange to each other as ranks are.
func TestBranchesAreApart(t *testing.T) {
	read := weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0+64];\n"))
	store := weakKernel(t, kernelText(putData))
	for _, c := range []struct {
		branch  int
		ordered bool
		race    bool
	}{{0, true, false}, {0, false, false}, {1, true, false}, {1, false, true}} {
		w := newWorks(t)
		left, _ := w.kernel(read, 0, 0, 1, nil)
		if !c.ordered {
			left = nil
		}
		if _, race := w.kernel(store, 0, c.branch, 2, left); race != c.race {
			t.Errorf("read on branch 0, stored on %d, ordered: %v: a race: %v", c.branch, c.ordered, race)
		}
	}
	// A release of one branch says nothing of what another has read.
	release := weakKernel(t, kernelText("st.release.sys"+flag))
	wait := weakKernel(t, kernelText(await("acquire.sys")+putData))
	for _, branch := range []int{0, 1} {
		w := newWorks(t)
		left, _ := w.kernel(read, 0, branch, 1, nil)
		if branch == 1 {
			left = nil // no edge from there
		}
		w.kernel(release, 0, 0, 2, left)
		if _, race := w.kernel(wait, 1, 0, 3, nil); race != (branch == 1) {
			t.Errorf("read on branch %d, released on 0: a race: %v", branch, race)
		}
	}
}

// A copy reads and stores like a kernel.
func TestCopyIsAnAccess(t *testing.T) {
	put := weakKernel(t, kernelText(putData))
	copying := func(w *works, process int, seed uint64, before *Known) (*Known, error) {
		c := w.h.NewCopy(process, 1, before, seed)
		err := c.Move(w.m.mem[1024:1096], w.m.mem[:72])
		return c.End(), err
	}
	for _, ordered := range []bool{true, false} {
		stale := 0
		for seed := range uint64(orderSeeds) {
			w := newWorks(t)
			left, _ := w.kernel(put, 0, 0, seed, nil)
			if !ordered {
				left = nil
			}
			if _, err := copying(w, 1, seed, left); err != nil {
				t.Fatal(err)
			}
			if w.m.u32(256) != 1 || w.m.u32(256+16) != 1 {
				stale++
			}
		}
		if ordered != (stale == 0) || !ordered && stale < orderSeeds/5 {
			t.Errorf("behind the store: %v: %d of %d copies took old values", ordered, stale, orderSeeds)
		}
		// What a copy has read, and what it has stored, others may not store to.
		for _, at := range []string{"0", "1024"} {
			w := newWorks(t)
			left, err := copying(w, 1, 5, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.m.mem[1024]++ // as if it had brought something
			if !ordered {
				left = nil
			}
			over := weakKernel(t, kernelText(fmt.Sprintf("st.global.u32 [%%rd0+%s], 7;\n", at)))
			if _, race := w.kernel(over, 0, 0, 5, left); race == ordered {
				t.Errorf("a store to %s, behind the copy: %v: a race: %v", at, ordered, race)
			}
		}
		// Nor may a copy where others have read.
		w := newWorks(t)
		read := weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0+1028];\n"))
		left, _ := w.kernel(read, 0, 0, 5, nil)
		if !ordered {
			left = nil
		}
		if _, err := copying(w, 1, 5, left); (err == nil) != ordered {
			t.Errorf("a copy over what was read, behind the reader: %v: %v", ordered, err)
		}
	}
}

// What a host has waited for, work knows that hosts enqueue later.
func TestHostsTellEachOther(t *testing.T) {
	w := newWorks(t)
	put, read := weakKernel(t, kernelText(putData)), weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0];\n"))
	w.kernel(read, 1, 2, 3, nil)
	if _, race := w.kernel(put, 0, 0, 3, w.h.HostsKnow()); !race {
		t.Error("no host has waited, and there is no race")
	}
	w = newWorks(t)
	left, _ := w.kernel(read, 1, 2, 3, nil)
	w.h.HostsLearn(left)
	w.h.HostsLearn(nil)
	if _, race := w.kernel(put, 0, 0, 3, w.h.HostsKnow()); race {
		t.Error("a race behind what a host has waited for")
	}
}

// Two accesses of two ranks of which one is not strong, or of a scope that has not both
// threads, are a race unless they are ordered, even if each is right by itself.
func TestScopesOfFlags(t *testing.T) {
	const seeds = 30
	for _, c := range []struct {
		put, wait string
		race      bool
	}{
		{"st.relaxed.sys" + flag, await("relaxed.sys"), false},
		{"st.relaxed.gpu" + flag, await("relaxed.sys"), true},
		{"st.relaxed.sys" + flag, await("relaxed.gpu"), true},
		{"st.release.gpu" + flag, await("acquire.sys"), true},
		{"st.release.sys" + flag, await("acquire.cta"), true},
		{"st" + flag, await("relaxed.sys"), true},
		{"st.volatile" + flag, await("relaxed.sys"), false},
		{"red.relaxed.gpu.global.add.u32 [%rd0+128], 1;\n", await("relaxed.sys"), true},
		{"red.relaxed.sys.global.add.u32 [%rd0+128], 1;\n", await("relaxed.sys"), false},
	} {
		_, races := litmus{programs: []string{c.put, c.wait}}.outcomes(t, seeds)
		if c.race != (races > seeds*4/5) || !c.race && races > 0 {
			t.Errorf("%s%s: %d races of %d", c.put, c.wait, races, seeds)
		}
	}
}

// A store of what is there already is a store; so is one where another rank has stored.
func TestStoresAreCompared(t *testing.T) {
	const seeds = 60
	for name, c := range map[string]litmus{
		"equal value over a read": {programs: []string{"ld.global.u32 %r1, [%rd0+64];\nst.relaxed.sys" + flag, await("relaxed.sys") + "st.global.u32 [%rd0+64], 0;\n"}},
		"over a store":            {programs: []string{putData + "st.relaxed.sys" + flag, await("relaxed.sys") + "st.global.u32 [%rd0+64], 7;\n"}},
	} {
		if _, races := c.outcomes(t, seeds); races < seeds*4/5 {
			t.Errorf("%s: %d races of %d", name, races, seeds)
		}
	}
	ordered := litmus{programs: []string{putData + "st.release.sys" + flag, await("acquire.sys") + "st.global.u32 [%rd0+64], 7;\n"}}
	if _, races := ordered.outcomes(t, seeds); races != 0 {
		t.Errorf("over a store, behind it: %d races of %d", races, seeds)
	}
}

// Of a word two reads of a rank are remembered: of its two halves, and by two branches.
func TestTwoReadsAreKept(t *testing.T) {
	low, high := weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0];\n")), weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0+4];\n"))
	store := weakKernel(t, kernelText("st.global.u32 [%rd0], 1;\n"))
	w := newWorks(t)
	w.kernel(low, 0, 0, 1, nil)
	left, _ := w.kernel(high, 0, 1, 1, nil)
	if _, race := w.kernel(store, 1, 0, 1, left); !race {
		t.Error("a read by branch 0 is forgotten for one by branch 1")
	}
	w = newWorks(t)
	first, _ := w.kernel(low, 0, 0, 1, nil)
	w.kernel(high, 0, 1, 1, nil)
	if _, race := w.kernel(store, 1, 0, 1, first); race {
		t.Error("a race with a read of other bytes")
	}
	w = newWorks(t)
	c := weakKernel(t, kernelText("ld.global.u32 %r1, [%rd0];\nst.release.sys.global.u32 [%rd0+128], 1;\nld.global.u32 %r1, [%rd0+4];\nst.release.sys.global.u32 [%rd0+192], 1;\n"))
	w.kernel(c, 0, 0, 1, nil)
	if _, race := w.kernel(store, 1, 0, 1, nil); !race {
		t.Error("a read of the low half is forgotten for a later one of the high half")
	}
}

package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// litmus is two or more programs, each a launch of a process of its own over the
// same memory, run under many seeds. A program is a kernel body of one block;
// %rd0 is the memory, whose first page is zero. Programs leave results from byte
// 1024 on.
type litmus struct {
	threads  uint32
	programs []string
	machine  *machine
	cells    []byte
	head     []byte
}

// outcomes runs the seeds and counts what words of results come out, and races.
func (l litmus) outcomes(t *testing.T, seeds int, words ...int) (results map[string]int, races int) {
	t.Helper()
	kernels := l.compile(t)
	results = map[string]int{}
	for seed := range uint64(seeds) {
		out, race := l.run(t, kernels, seed)
		if race {
			races++
			continue
		}
		s := ""
		for _, w := range words {
			s += fmt.Sprintf("%d ", out.u32(256+w))
		}
		results[s]++
	}
	return results, races
}

func (l *litmus) compile(t *testing.T) (kernels []*Kernel) {
	l.machine, l.cells, l.head = newMachine(t), alignedBytes(HistoryBytes(PageSize)), alignedBytes(HistoryHeadBytes)
	for _, p := range l.programs {
		kernels = append(kernels, weakKernel(t, kernelText(p)))
	}
	return kernels
}

func (l *litmus) run(t *testing.T, kernels []*Kernel, seed uint64) (m *machine, race bool) {
	m = l.machine
	clear(m.mem[:4096])
	clear(l.cells[:HistoryBytes(4096)])
	clear(l.head)
	h := NewHistory(l.head, []HistoryRange{{m.mem, l.cells}})
	c := NewConductor(len(kernels), seed)
	errs := make([]error, len(kernels))
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, k := range kernels {
		all.Go(func() {
			seat, err := c.Sit(ctx, i)
			if err != nil {
				errs[i] = err
				return
			}
			defer seat.Leave()
			cfg := m.cfg
			cfg.Now = c.Now
			cfg.Weak = &Weak{History: h, Seed: seed, Process: i, Turn: seat.Turn}
			err = k.Run(ctx, m.space, &cfg, Launch{Grid: 1, Block: max(l.threads, 1), Args: args(k.ParamBytes, base)})
			if err != nil {
				cancel() // others may wait for this one
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		var f *Fault
		if errors.As(err, &f) && f.Kind == DataRace {
			race = true
		} else if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	return m, race
}

func weakKernel(t testing.TB, text string) *Kernel {
	t.Helper()
	mod, err := ptx.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	k, err := CompileWeak(mod.Entries[0], mod)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// await spins on the flag at byte 128 with a load of the given form.
func await(load string) string {
	return "WAIT: ld." + load + ".global.u32 %r9, [%rd0+128];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\n"
}

const (
	putData = "st.global.u32 [%rd0], 1;\nst.global.u32 [%rd0+64], 1;\n"
	getData = "ld.global.u32 %r1, [%rd0];\nld.global.u32 %r2, [%rd0+64];\nst.global.u32 [%rd0+1024], %r1;\nst.global.u32 [%rd0+1028], %r2;\n"
	flag    = ".global.u32 [%rd0+128], 1;\n"
)

// Message passing: with release and acquire the data are there; without either
// they may not be.
func TestMessagePassing(t *testing.T) {
	const seeds = 150
	for _, c := range []struct {
		name      string
		put, wait string
		broken    bool
	}{
		{"release and acquire", putData + "st.release.sys" + flag, await("acquire.sys"), false},
		{"fences", putData + "fence.acq_rel.sys;\nst.relaxed.sys" + flag, await("relaxed.sys") + "fence.acq_rel.sys;\n", false},
		{"fence.sc", putData + "fence.sc.sys;\nst.relaxed.sys" + flag, await("relaxed.sys") + "fence.sc.sys;\n", false},
		{"atomics", putData + "red.release.sys.global.add.u32 [%rd0+128], 1;\n", "WAIT: atom.acquire.sys.global.add.u32 %r9, [%rd0+128], 0;\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\n", false},
		{"membar", putData + "membar.sys;\nst.relaxed.sys" + flag, await("relaxed.sys") + "membar.sys;\n", false},
		{"relaxed store", putData + "st.relaxed.sys" + flag, await("acquire.sys"), true},
		{"weak store", putData + "st" + flag, await("acquire.sys"), true},
		{"relaxed store behind a release of another word", putData + "st.release.sys.global.u32 [%rd0+512], 1;\nst.relaxed.sys" + flag, await("acquire.sys"), true},
		{"relaxed store behind a release of the same word", putData + "st.release.sys.global.u32 [%rd0+128], 0;\nst.relaxed.sys" + flag, await("acquire.sys"), false},
		{"weak store behind it", putData + "st.release.sys.global.u32 [%rd0+128], 0;\nst" + flag, await("acquire.sys"), true},
		{"release at block scope", putData + "st.release.cta" + flag, await("acquire.sys"), true},
		{"release at GPU scope", putData + "st.release.gpu" + flag, await("acquire.sys"), true},
		{"relaxed load", putData + "st.release.sys" + flag, await("relaxed.sys"), true},
		{"acquire at GPU scope", putData + "st.release.sys" + flag, await("acquire.gpu"), true},
		{"proxy fence only", putData + "fence.proxy.alias;\nst.relaxed.sys" + flag, await("acquire.sys"), true},
		{"relaxed atomic", putData + "red.relaxed.sys.global.add.u32 [%rd0+128], 1;\n", await("acquire.sys"), true},
	} {
		got, races := litmus{programs: []string{c.put, c.wait + getData}}.outcomes(t, seeds, 0, 1)
		// A race is what was read before it was stored.
		if broken := got["1 1 "] < seeds*9/10; broken != c.broken || !c.broken && races > 0 {
			t.Errorf("%s: %v, %d races", c.name, got, races)
		}
	}
}

// What a whole block stored is released by one thread behind bar.sync, and what
// one thread acquired is seen by all behind bar.sync.
func TestBarrierCumulates(t *testing.T) {
	const seeds = 60
	put := "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 8;\nadd.s64 %rd1, %rd1, %rd0;\nst.global.u32 [%rd1+256], 1;\n"
	one := "setp.ne.u32 %p1, %r1, 7;\n"
	get := "mov.u32 %r1, %tid.x;\nxor.b32 %r2, %r1, 33;\nmul.wide.u32 %rd2, %r2, 8;\nadd.s64 %rd2, %rd2, %rd0;\n"
	load := "ld.global.u32 %r3, [%rd2+256];\nsub.u32 %r3, 1, %r3;\nred.relaxed.gpu.global.add.u32 [%rd0+1024], %r3;\n"
	wait := "@%p1 bra DONE;\n" + await("acquire.sys") + "DONE:\n"
	for _, c := range []struct {
		name     string
		put, get string
		broken   bool
	}{
		{"whole", put + one + "bar.sync 0;\n@!%p1 st.release.sys" + flag, get + one + wait + "bar.sync 0;\n" + load, false},
		{"no barrier before", put + one + "@!%p1 st.release.sys" + flag, get + one + wait + "bar.sync 0;\n" + load, true},
		{"no barrier behind", put + one + "bar.sync 0;\n@!%p1 st.release.sys" + flag, get + one + wait + load, true},
		{"relaxed before the barrier", put + one + "bar.sync 0;\n@!%p1 st.release.sys" + flag, get + one + "@%p1 bra DONE;\n" + await("relaxed.sys") + "DONE:\nbar.sync 0;\n" + load, true},
	} {
		got, races := litmus{threads: 64, programs: []string{c.put, c.get}}.outcomes(t, seeds, 0)
		if broken := got["0 "] < seeds; broken != c.broken || !c.broken && races > 0 {
			t.Errorf("%s: words missed, and how often: %v; %d races", c.name, got, races)
		}
	}
}

// Loads of one address never go back, and a thread sees its own stores.
func TestCoherence(t *testing.T) {
	got, _ := litmus{programs: []string{
		"st.relaxed.sys.global.u32 [%rd0], 1;\nst.relaxed.sys.global.u32 [%rd0], 2;\nst.relaxed.sys.global.u32 [%rd0], 3;\nld.global.u32 %r1, [%rd0];\nst.global.u32 [%rd0+1024], %r1;\n",
		`mov.u32 %r1, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
LOOP:
	ld.relaxed.sys.global.u32 %r2, [%rd0];
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 add.u32 %r3, %r3, 1;
	max.u32 %r1, %r1, %r2;
	setp.lt.u32 %p2, %r1, 3;
	@%p2 bra LOOP;
	st.global.u32 [%rd0+1028], %r3;`}}.outcomes(t, 150, 0, 1)
	if got["3 0 "] != 150 {
		t.Errorf("own value, steps back: %v", got)
	}
}

// A store where another rank may still be reading is found out, whether the
// reader forgot to release or the writer to acquire; an ordered one is not.
func TestStoreOverRead(t *testing.T) {
	const seeds = 60
	read := "ld.global.u32 %r1, [%rd0+64];\n"
	for _, c := range []struct {
		name        string
		read, store string
		race        bool
	}{
		{"ordered", read + "st.release.sys" + flag, await("acquire.sys") + putData, false},
		{"not released", read + "st.relaxed.sys" + flag, await("acquire.sys") + putData, true},
		{"not acquired", read + "st.release.sys" + flag, await("relaxed.sys") + putData, true},
		{"another byte", "ld.global.u8 %r1, [%rd0+69];\nst.relaxed.sys" + flag, await("relaxed.sys") + putData, false},
	} {
		_, races := litmus{programs: []string{c.read, c.store}}.outcomes(t, seeds)
		if c.race != (races > seeds/5) || !c.race && races > 0 {
			t.Errorf("%s: %d races of %d", c.name, races, seeds)
		}
	}
}

// What a rank has learnt of one rank says nothing of another: a release of the
// second, earlier in time than one that was acquired of the first, does not count.
// It does if the first had acquired it.
func TestSynchronisationIsOfRanks(t *testing.T) {
	const seeds = 60
	reader := "ld.global.u32 %r1, [%rd0+64];\nst.release.sys.global.u32 [%rd0+128], 1;\n"
	relay := func(load string) string {
		return "WAIT: ld." + load + ".global.u32 %r9, [%rd0+128];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\nst.release.sys.global.u32 [%rd0+256], 1;\n"
	}
	writer := "WAIT: ld.acquire.sys.global.u32 %r9, [%rd0+256];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\n" + putData
	for load, race := range map[string]bool{"acquire.sys": false, "relaxed.sys": true} {
		_, races := litmus{programs: []string{reader, relay(load), writer}}.outcomes(t, seeds)
		if race != (races > seeds/5) || !race && races > 0 {
			t.Errorf("relay by ld.%s: %d races of %d", load, races, seeds)
		}
	}
}

// Two flags in one word each tell of their own rank.
func TestFlagsInOneWord(t *testing.T) {
	const seeds = 60
	put := "ld.global.u32 %r1, [%rd0+64];\nst.release.sys.global.u32 [%rd0+128], 1;\n"
	other := "st.release.sys.global.u32 [%rd0+132], 1;\n"
	wait := func(first, second string) string {
		return "WAIT: ld." + first + ".sys.global.u32 %r9, [%rd0+128];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra WAIT;\n" +
			"ALSO: ld." + second + ".sys.global.u32 %r9, [%rd0+132];\nsetp.eq.u32 %p9, %r9, 0;\n@%p9 bra ALSO;\n" + putData
	}
	for _, c := range []struct {
		first, second string
		race          bool
	}{{"acquire", "acquire", false}, {"acquire", "relaxed", false}, {"relaxed", "acquire", true}} {
		_, races := litmus{programs: []string{put, other, wait(c.first, c.second)}}.outcomes(t, seeds)
		if c.race != (races > seeds/5) || !c.race && races > 0 {
			t.Errorf("%s of the reader's flag, %s of the other: %d races of %d", c.first, c.second, races, seeds)
		}
	}
}

// A block of many ranks makes many releases at each barrier; a race is found
// behind all of them.
func TestManyReleases(t *testing.T) {
	const seeds = 60
	read := "ld.global.u32 %r1, [%rd0+64];\n"
	for range 20 {
		read += "st.release.sys.global.u32 [%rd0+512], 1;\n"
	}
	_, races := litmus{programs: []string{read + "st.release.sys" + flag, await("relaxed.sys") + putData}}.outcomes(t, seeds)
	if races < seeds/5 {
		t.Errorf("%d races of %d", races, seeds)
	}
}

// The same seed does the same thing.
func TestSeedReproduces(t *testing.T) {
	l := litmus{threads: 64, programs: []string{putData + "st.relaxed.sys" + flag, await("acquire.sys") + getData}}
	kernels := l.compile(t)
	differ := false
	first := map[uint64]string{}
	for range 3 {
		for seed := range uint64(20) {
			m, _ := l.run(t, kernels, seed)
			s := fmt.Sprint(m.u32(256), m.u32(257))
			if first[seed] == "" {
				first[seed] = s
			}
			if first[seed] != s {
				t.Fatalf("seed %d gives %s and %s", seed, first[seed], s)
			}
			differ = differ || s != first[0]
		}
	}
	if !differ {
		t.Error("all seeds do the same")
	}
}

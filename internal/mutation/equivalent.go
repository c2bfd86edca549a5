package mutation

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// stageRingSlot is the stage of struct Status in control.cuh of a ring's wait for a slot.
const stageRingSlot = 7

// excuse is a reason for which mutants need not be found out. It is read from the
// text of the kernel, and fits none that was found out: a test compares.
type excuse struct {
	title, why string
	fits       func(*Mutant) bool
	// unreachable is why some of the lines are executed in no round, if there are such.
	unreachable string
}

// excuses are tried in order; the first that fits is given.
var excuses = []excuse{
	{title: "Two barriers of the block in a row",
		why: "Between the two stands nothing but the setting back of the block's flag for failed waits; the other one is still there. Equivalent.",
		fits: func(m *Mutant) bool {
			return isBar(m) && (m.beside(1) || m.beside(-1))
		}},
	{title: "Barrier behind a wait whose other threads do nothing more",
		why:  "It makes the block agree on whether a wait has failed. As long as none fails, nothing but the block's counter is stored behind it, and the kernel ends when all threads have. Not equivalent where a wait runs into its deadline: then the counter might be stored, of a group that is unusable from then on.",
		fits: func(m *Mutant) bool { return isBar(m) && m.afterWait() && !m.passes(m.Line-1, anyAccess, nil) }},
	{title: "Barrier that sets back the block's flag for failed waits",
		why:  "It keeps a thread from setting the flag before thread 0 has cleared it. Only a block in which a wait has failed at once could tell, and the wait's own failure is reported in any case.",
		fits: func(m *Mutant) bool { return isBar(m) && m.clearsFlag() }},
	{title: "Ring: wait for a slot before the first message of a round",
		why: "A rank that begins a round has received every chunk of the round before, finished. Each of these has gone through the slots of the next rank, so that rank has read all that was sent to it. The wait is never needed, nor is what it orders: the data themselves have come around. Equivalent.",
		fits: func(m *Mutant) bool {
			// A flag that is seen must be one of the system, even if nothing depends on it.
			return m.Family == kernels.Ring && (m.Kind != "acquire at GPU scope" || m.looksAgain()) && m.beforeFirstMessage()
		},
		unreachable: "The first look at the counter always finds it, for the same reason; the loop that looks again is never entered."},
	{title: "Ring: credit for the last slot of a round",
		why: "Whoever waits for it is a round further and has all chunks of this one, among them that which this rank finished behind its read of the slot: that the slot has been read comes with it. That the credit comes has to be known, and a mutant that announces too little or too much is found out. Equivalent.",
		fits: func(m *Mutant) bool {
			return m.Family == kernels.Ring && m.Kind == "release to relaxed" && strings.Contains(m.lines[m.Line-2], "st.release.sys") && !m.waitsNextFor(stageRingSlot)
		}},
	{title: "Bulk push: fence of proxies before the first wait",
		why: "It orders bulk copies behind what the block has acquired, and no path leads here from a wait. What was before the kernel its start has ordered, for every proxy. Equivalent.",
		fits: func(m *Mutant) bool {
			if m.Kind != proxyFence || !globalProxyFence.MatchString(m.Old) {
				return false
			}
			for i, l := range m.lines {
				if strings.Contains(l, "ld.acquire") && m.behind(i, nil)[m.Line-1] {
					return false
				}
			}
			return true
		}},
	{title: "Bulk push: fence of proxies before inputs are sent",
		why: "It orders the copies behind the peers' reading of the slots that they go to. That is known from the announcement of the peers' input of the round before last, and between its acquire and these copies stand the fence with which the block began to send results of that round, and barriers of the block. One fence on the path is enough (PTX ISA, proxy-preserved base causality order). Equivalent.",
		fits: func(m *Mutant) bool {
			return m.Kind == proxyFence && globalProxyFence.MatchString(m.Old) && !m.passes(m.Line-1, storePack, isBarrier)
		}},
	{title: "Barrier behind a wait, with another one behind it",
		why: "Before the next barrier the block touches nothing that others see; only thread 0 may wait once more, and what it has acquired the next barrier passes on to all. As long as no wait fails, equivalent.",
		fits: func(m *Mutant) bool {
			return isBar(m) && m.afterWait() && !m.passes(m.Line-1, otherAccess, isBarrier)
		}},
	{title: "Bulk push: wait for copies behind a wait that has failed",
		why: "Behind it the kernel ends, without an announcement and without keeping its count: the block has given up. It keeps the block from ending while copies read its shared memory, for which a wait for the reading is enough; a mutant that does not wait is found out, in rounds in which waits fail. Equivalent.",
		fits: func(m *Mutant) bool {
			return m.Kind == "bulk copies waited for until read only" && !m.passes(m.Line-1, anyAccess, nil) && !m.passes(m.Line-1, keptCount, nil)
		}},
	{title: "Rank barrier: look at the own status",
		why: "The status is in this GPU's memory and a kernel before on the same stream has stored it, whose end the start of this one is behind. Nobody else stores to it. Equivalent, at any scope.",
		fits: func(m *Mutant) bool {
			return m.Family == kernels.RankBarrier && (m.Kind == "acquire to relaxed" || m.Kind == "acquire at GPU scope") && m.ofParameter()
		}},
	{title: "Copy engines: a slot for the first time in a call",
		why: "The plan lets a copy into a slot wait for a meeting of the ranks even where no chunk of this call was in the slot before. What was there in the call before, all ranks had left before this one began. Equivalent.",
		fits: func(m *Mutant) bool {
			return m.edge == edge{scattered, scatterCopy, 1}
		}},
}

const proxyFence = "fence between the proxies removed"

func isBar(m *Mutant) bool  { return m.Kind == "block barrier removed" }
func isLoop(m *Mutant) bool { return m.Kind == "loop ends after one round" }

// Killed reports whether the mutant was found out.
func (o Outcome) Killed() bool { return o.Ranks != 0 }

// Why says why a mutant that was not found out need not be; "" if nothing does, or if
// it was never executed and nothing says why.
func (o Outcome) Why() string {
	e := o.excuse()
	switch {
	case e == nil || o.Tried == 0 && e.unreachable == "":
		return ""
	case o.Tried == 0:
		return e.why + " " + e.unreachable
	}
	return e.why
}

// excuse is the first that fits.
func (m *Mutant) excuse() *excuse {
	for i := range excuses {
		if excuses[i].fits(m) {
			return &excuses[i]
		}
	}
	return nil
}

var reports = regexp.MustCompile(`atom\.acq_rel\.gpu\.global\.cas\.b32 %r\d+, \[%rd\d+\], 0, (%r\d+);`)

// Stage finds which wait follows the line, or has it inside: by the number that
// the kernel reports when the wait fails. 0 if none follows.
func (m *Mutant) Stage() kernels.Stage {
	for i := m.Line - 1; i < len(m.lines); i++ {
		if r := reports.FindStringSubmatch(m.lines[i]); r != nil {
			k := &kernel{lines: m.lines}
			if set := k.near(i, i, line(`mov\.b32\s+`+r[1]+`, (\d+);`)); set != nil {
				n, _ := strconv.Atoi(set[1])
				return kernels.Stage(n)
			}
			return 0
		}
	}
	return 0
}

// beside tells whether a neighbour of the line is a barrier too.
func (m *Mutant) beside(by int) bool {
	i := m.Line - 1 + by
	return i >= 0 && i < len(m.lines) && strings.Contains(m.lines[i], "bar.sync")
}

var clears = regexp.MustCompile(`mov\.b32\s+(%r\d+), 0;\n\s*st\.volatile\.shared\.u32\s+\[blockFailed\], (%r\d+);`)

// clearsFlag tells whether thread 0 clears the flag just before the line.
func (m *Mutant) clearsFlag() bool {
	text := strings.Join(m.lines[max(0, m.Line-8):m.Line-1], "\n")
	c := clears.FindStringSubmatch(text)
	return c != nil && c[1] == c[2] && !strings.Contains(text, "bar.sync")
}

var storePack = regexp.MustCompile(`st\.global\.v4`)

var globalProxyFence = regexp.MustCompile(`fence\.proxy\.async\.global`)

// keptCount is the store of a block's counter at the end.
var keptCount = regexp.MustCompile(`st\.global\.u32\s+\[%rd\d+\+(?:256|1280|2304|3328)\]`)

var acquired = regexp.MustCompile(`ld\.acquire\.sys\.global\.b32 %r\d+, \[(%rd\d+)\];`)

// beforeFirstMessage tells whether the line is part of a ring's wait for a free
// slot, or the barrier behind it, and the block waits for nothing else between
// the barriers around it.
func (m *Mutant) beforeFirstMessage() bool {
	at := m.Line - 1
	if isBar(m) {
		at--
	}
	first, last := at, at
	for first > 0 && !strings.Contains(m.lines[first], "bar.sync") {
		first--
	}
	for last < len(m.lines) && !strings.Contains(m.lines[last], "bar.sync") {
		last++
	}
	if isLoop(m) { // the jump back must lie there too, or it is another loop's
		to := jump.FindStringSubmatch(m.lines[at])
		inside := false
		for _, l := range m.lines[first:last] {
			inside = inside || to != nil && strings.HasPrefix(l, to[2]+":")
		}
		if !inside {
			return false
		}
	}
	address, slot := "", false
	for i, l := range m.lines[first:last] {
		if a := acquired.FindStringSubmatch(l); a != nil {
			if address != "" && address != a[1] {
				return false
			}
			address = a[1]
		}
		if reports.MatchString(l) {
			wait := *m
			wait.Line = first + i + 1
			slot = wait.Stage() == stageRingSlot
		}
	}
	return address != "" && slot
}

// looksAgain tells whether the line is in a wait's loop, behind its first look.
func (m *Mutant) looksAgain() bool {
	at := m.Line - 1
	begin := at
	for begin > 0 && !isBarrier(m.lines[begin]) && !strings.Contains(m.lines[begin], ".pragma \"nounroll\"") {
		begin--
	}
	if begin == 0 || isBarrier(m.lines[begin]) {
		return false
	}
	for _, l := range m.lines[at:] {
		if to := jump.FindStringSubmatch(l); to != nil && strings.HasPrefix(m.lines[begin-1], to[2]+":") {
			return true
		} else if isBarrier(l) {
			break
		}
	}
	return false
}

// waitsNextFor tells whether the first wait behind the line, on some path, is of a
// stage, alone or among others.
func (m *Mutant) waitsNextFor(stage kernels.Stage) bool {
	waits := 0
	for i := range m.behind(m.Line-1, func(l string) bool { return isBarrier(l) || reports.MatchString(l) }) {
		if reports.MatchString(m.lines[i]) {
			wait := *m
			wait.Line = i + 1
			if wait.Stage() == stage {
				return true
			}
			waits++
		}
	}
	return waits == 0
}

// afterWait tells whether the line is the barrier behind which a block asks whether
// a wait has failed.
func (m *Mutant) afterWait() bool {
	return m.Line < len(m.lines) && strings.Contains(m.lines[m.Line], "ld.volatile.shared.u32") && strings.Contains(m.lines[m.Line], "[blockFailed]")
}

var (
	pointer = line(`ld\.acquire\.sys\.global\.b32 %r\d+, \[(%rd\d+)\];`)
	given   = line(`ld\.param\.u64\s+(%rd\d+), \[\w+_param_0\];`)
)

// ofParameter tells whether the load at the line is of what the kernel's first
// parameter points to.
func (m *Mutant) ofParameter() bool {
	p := pointer.FindStringSubmatch(m.lines[m.Line-1])
	for _, l := range m.lines {
		if g := given.FindStringSubmatch(l); g != nil && p != nil {
			return g[1] == p[1]
		}
	}
	return false
}

package mutation

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Stages of struct Status in control.cuh, by what a kernel waits for.
const (
	stageEnd      = 2
	stageRingData = 6
	stageRingSlot = 7
	stageDone     = 10
)

// excuse is a reason for which mutants need not be found out.
type excuse struct {
	title, why string
	fits       func(*Mutant) bool
}

// excuses are tried in order; the first that fits is given.
var excuses = []excuse{
	{"Waits at the end",
		"Behind this wait the kernel touches no memory that others write, and what follows on the stream begins behind the kernel's end. That the peers have arrived has to be known, and a mutant that does not wait is found out; that what they stored is visible to this thread need not. Equivalent.",
		func(m *Mutant) bool {
			return isAcquire(m) && (m.Stage() == stageEnd || m.Stage() == stageDone) && !m.passes(m.Line-1, dataAccess, nil)
		}},
	{"Two barriers of the block in a row",
		"Between the two stands nothing but the setting back of the block's flag for failed waits; the other one is still there. Equivalent.",
		func(m *Mutant) bool {
			return isBar(m) && (m.beside(1) || m.beside(-1))
		}},
	{"Barrier behind a wait whose other threads do nothing more",
		"It makes the block agree on whether a wait has failed. As long as none fails, nothing but the block's counter is stored behind it, and the kernel ends when all threads have. Not equivalent where a wait runs into its deadline: then the counter might be stored, of a group that is unusable from then on.",
		func(m *Mutant) bool { return isBar(m) && m.afterWait() && !m.passes(m.Line-1, anyAccess, nil) }},
	{"Barrier that sets back the block's flag for failed waits",
		"It keeps a thread from setting the flag before thread 0 has cleared it. Only a block in which a wait has failed at once could tell, and the wait's own failure is reported in any case.",
		func(m *Mutant) bool { return isBar(m) && m.clearsFlag() }},
	{"Loop before the loop for the rest",
		"What an unrolled loop leaves, the loop behind it does, and what a loop over whole packs leaves, the loop over elements: from the same place on, slower, with the same result. Equivalent.",
		func(m *Mutant) bool { return isLoop(m) && m.restFollows() }},
	{"Ring: wait for the last message of a round",
		"What it waits for is a finished chunk in the receive buffer, which this kernel reads no more. That it has come has to be known, and a mutant that does not wait is found out. Slots that are used again are waited for on their own. Equivalent.",
		func(m *Mutant) bool {
			return m.Family == kernels.Ring && isAcquire(m) && m.Stage() == stageRingData && !m.readsBehind()
		}},
	{"Ring: wait for a slot before the first message of a round",
		"A rank that begins a round has received every chunk of the round before, finished. Each of these has gone through the slots of the next rank, so that rank has read all that was sent to it. The wait is never needed, nor is what it orders: the data themselves have come around. Equivalent.",
		func(m *Mutant) bool { return m.Family == kernels.Ring && m.beforeFirstMessage() }},
	{"Ring: credit for the last slot of a round",
		"Whoever waits for it is a round further and has all chunks of this one, among them that which this rank finished behind its read of the slot: that the slot has been read comes with it. That the credit comes has to be known, and a mutant that announces too little or too much is found out. Equivalent.",
		func(m *Mutant) bool {
			return m.Family == kernels.Ring && isRelease(m) && strings.Contains(m.lines[m.Line-2], "st.release.sys") && !m.waitsNextFor(stageRingSlot)
		}},
	{"Bulk push: fence of proxies before the first wait",
		"It orders bulk copies behind what the block has acquired, and no path leads here from a wait. What was before the kernel its start has ordered, for every proxy. Equivalent.",
		func(m *Mutant) bool {
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
	{"Bulk push: fence of proxies before inputs are sent",
		"It orders the copies behind the peers' reading of the slots that they go to. That is known from the announcement of the peers' input of the round before last, and between its acquire and these copies stand the fence with which the block began to send results of that round, and barriers of the block. One fence on the path is enough (PTX ISA, proxy-preserved base causality order). Equivalent.",
		func(m *Mutant) bool {
			return m.Kind == proxyFence && globalProxyFence.MatchString(m.Old) && !m.passes(m.Line-1, storePack, isBarrier)
		}},
	{"Barrier behind a wait, with another one behind it",
		"Before the next barrier the block touches nothing that others see; only thread 0 may wait once more, and what it has acquired the next barrier passes on to all. As long as no wait fails, equivalent.",
		func(m *Mutant) bool {
			return isBar(m) && m.afterWait() && !m.passes(m.Line-1, otherAccess, isBarrier)
		}},
	{"Bulk push: wait for copies behind a wait that has failed",
		"It keeps the block, which gives up, from ending while copies read its shared memory. No wait fails in the workload: nothing is claimed.",
		func(m *Mutant) bool { return m.unreached && strings.HasPrefix(m.Kind, "bulk copies ") }},
	{"Rest of a loop that is not unrolled",
		"The loop before it has gone on for as long as this one would: dead code.",
		func(m *Mutant) bool { return m.unreached && m.afterSameLoop() }},
}

func isRelease(m *Mutant) bool {
	return m.Kind == "release to relaxed" || m.Kind == "release at GPU scope"
}

func isAcquire(m *Mutant) bool {
	return m.Kind == "acquire to relaxed" || m.Kind == "acquire at GPU scope"
}

const proxyFence = "fence between the proxies removed"

func isBar(m *Mutant) bool  { return m.Kind == "block barrier removed" }
func isLoop(m *Mutant) bool { return m.Kind == "loop ends after one round" }

// Killed reports whether the mutant was found out.
func (o Outcome) Killed() bool { return o.Ranks != 0 }

// Why says why a mutant that was not found out need not be; "" if nothing does.
func (o Outcome) Why() string {
	m := *o.Mutant
	m.unreached = o.Tried == 0
	for _, e := range excuses {
		if e.fits(&m) {
			return e.why
		}
	}
	return ""
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

// readsBehind tells whether the block loads data between the barrier that ends the
// wait at the line and the next one.
func (m *Mutant) readsBehind() bool {
	barriers := 0
	for _, l := range m.lines[m.Line:] {
		switch {
		case strings.Contains(l, "bar.sync"):
			barriers++
		case barriers == 1 && dataLoad.MatchString(l):
			return true
		}
		if barriers == 2 {
			break
		}
	}
	return false
}

var storePack = regexp.MustCompile(`st\.global\.v4`)

var globalProxyFence = regexp.MustCompile(`fence\.proxy\.async\.global`)

var dataLoad = regexp.MustCompile(`ld\.global\.v4|ld\.volatile\.[ubf]\d`)

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

// afterSameLoop tells whether the line stands in a loop right behind one that
// ends when the same condition does.
func (m *Mutant) afterSameLoop() bool {
	i := m.Line - 1
	for i > 0 && !(label.MatchString(m.lines[i]) && strings.Contains(m.lines[i+1], ".pragma \"nounroll\"")) {
		i--
	}
	// The test before it, and what stands before that.
	var end []string
	for i--; i > 2 && !label.MatchString(m.lines[i]); i-- {
		if e := beyond.FindStringSubmatch(m.lines[i]); e != nil {
			end = e
		}
	}
	if i <= 2 || end == nil || !jump.MatchString(m.lines[i-1]) {
		return false
	}
	before := within.FindStringSubmatch(m.lines[i-2])
	return before != nil && end[1] == before[1] && end[2] == before[2]
}

// afterWait tells whether the line is the barrier behind which a block asks whether
// a wait has failed.
func (m *Mutant) afterWait() bool {
	return m.Line < len(m.lines) && strings.Contains(m.lines[m.Line], "ld.volatile.shared.u32") && strings.Contains(m.lines[m.Line], "[blockFailed]")
}

var (
	within = line(`setp\.lt\.u(?:32|64)\s+%p\d+, (%rd?\d+), (%rd?\d+);`)
	beyond = line(`setp\.ge\.u(?:32|64)\s+%p\d+, (%rd?\d+), (%rd?\d+);`)
)

// restFollows tells whether the place that the loop that ends here has come to is
// looked at once more right behind it, for another loop.
func (m *Mutant) restFollows() bool {
	k := &kernel{lines: m.lines}
	in := k.near(m.Line-1, 3, within)
	for i := m.Line; in != nil && i < len(m.lines) && !strings.Contains(m.lines[i], "bra"); i++ {
		if out := beyond.FindStringSubmatch(m.lines[i]); out != nil {
			return out[1] == in[1] && out[2] != in[2] || out[2] == in[2] && m.loopBegins(i+2)
		}
	}
	return false
}

// loopBegins tells whether a loop is what comes next at a line.
func (m *Mutant) loopBegins(at int) bool {
	for i := at; i+1 < len(m.lines) && !jump.MatchString(m.lines[i]); i++ {
		if label.MatchString(m.lines[i]) {
			return strings.Contains(m.lines[i+1], ".pragma \"nounroll\"")
		}
	}
	return false
}

package mutation

import (
	"regexp"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// excuse is a reason for which mutants need not be found out. It is read from the
// text of the kernel, and fits none that was found out: a test compares.
type excuse struct {
	title, why string
	fits       func(*Mutant) bool
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

func isBar(m *Mutant) bool { return m.Kind == "block barrier removed" }

// Killed reports whether the mutant was found out.
func (o Outcome) Killed() bool { return o.Ranks != 0 }

// Why says why a mutant that was not found out need not be; "" if nothing does, or if
// it was never executed and nothing says why.
func (o Outcome) Why() string {
	if e := o.excuse(); e != nil && o.Tried > 0 {
		return e.why
	}
	return ""
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
var keptCount = regexp.MustCompile(`st\.global\.u32\s+\[%rd\d+\+(?:256|1280|2304)\]`)

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

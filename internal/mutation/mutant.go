package mutation

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// Mutant is a kernel with one place broken.
type Mutant struct {
	Family  kernels.Family
	Entry   string // the kernel: "ring_sum"
	Element string // "float"
	Kind    string // what is broken: "release to relaxed"
	Line    int    // of the module that holds this kernel alone, from 1
	Old     string // the line as it ships
	New     string // what stands there instead

	lines []string
	flow  *flow
	edge  edge // of a graph, in place of a line
}

func (m *Mutant) String() string {
	if m.edge != (edge{}) {
		return fmt.Sprintf("%s, %s: %s", m.module(), m.Kind, m.Old)
	}
	return fmt.Sprintf("%s, line %d, %s: %s", m.module(), m.Line, m.Kind, m.Old)
}

// module names what is broken: "ring_sum of float".
func (m *Mutant) module() string {
	if m.Family == kernels.RankBarrier || m.Family == CopyEngine {
		return m.Entry
	}
	return m.Entry + " of " + m.Element
}

// Text is the whole module.
func (m *Mutant) Text() string {
	lines := append([]string(nil), m.lines...)
	lines[m.Line-1] = m.New
	return strings.Join(lines, "\n")
}

// rewrite gives the mutant's module in place of its own.
func (m *Mutant) rewrite(ptx string) string {
	if m.lines != nil && strings.Contains(ptx, ".entry "+m.Entry+"(") {
		return m.Text()
	}
	return ptx
}

// rule makes mutants of the lines that it fits. change gets the kernel and the
// line's submatches and gives the new line, "" for none.
type rule struct {
	kind   string
	line   *regexp.Regexp
	change func(k *kernel, at int, m []string) string
}

// kernel is the text that rules look at.
type kernel struct {
	family kernels.Family
	lines  []string
}

// swap is a change of one text on the line by another.
func swap(old, by string) func(*kernel, int, []string) string {
	return func(_ *kernel, _ int, m []string) string { return strings.Replace(m[0], old, by, 1) }
}

// removed makes a comment of the line.
func removed(_ *kernel, _ int, m []string) string { return "\t// " + strings.TrimSpace(m[0]) }

const (
	number = `(-?\d+)`
	reg32  = `(%r\d+)`
	reg64  = `(%rd\d+)`
	vector = `(\{[^}]*\})`
)

var rules = []rule{
	{"release to relaxed", line(`st\.release\.sys\..*`), swap(".release", ".relaxed")},
	{"release at GPU scope", line(`st\.release\.sys\..*`), swap(".sys", ".gpu")},
	{"acquire to relaxed", line(`ld\.acquire\.sys\..*`), swap(".acquire", ".relaxed")},
	{"acquire at GPU scope", line(`ld\.acquire\.sys\..*`), swap(".sys", ".gpu")},
	{"fence removed", line(`(?:fence\.(?:sc|acq_rel)|membar)\..*;`), removed}, // no kernel has one yet
	{"block barrier removed", line(`bar\.sync\s+0;`), removed},
	{"wait that does not wait", line(`setp\.gt\.s32\s+(%p\d+), ` + reg32 + `, -1;`), swap(", -1;", ", -2147483648;")},
	{"packet not awaited", line(`setp\.eq\.s32\s+(%p\d+), ` + reg32 + `, ` + reg32 + `;`), packetWait},
	{"one arrival too many announced", line(`(st\.release\.sys\.global\.b32 \[%rd\d+\]), ` + reg32 + `;`), announce(1)},
	{"one arrival too few announced", line(`(st\.release\.sys\.global\.b32 \[%rd\d+\]), ` + reg32 + `;`), announce(-1)},
	{"loop ends after one round", line(`(@%p\d+ )bra(?:\.uni)?\s+(\$L__BB\w+);`), onceOnly},
	{"one packet slot for two", line(`and\.b32\s+` + reg32 + `, ` + reg32 + `, 1;`), swap(", 1;", ", 0;")},
	{"store at a wrong offset", line(`((?:multimem\.st\.relaxed\.sys\.global|st\.global)\.v4\.\w+)\s+\[` + reg64 + `(?:\+` + number + `)?\](.*)`), shifted},
	{"load at a wrong offset", line(`((?:multimem\.ld_reduce\.\S+|ld\.global\.v4\.\w+))\s+` + vector + `, \[` + reg64 + `(?:\+` + number + `)?\](.*)`), shiftedLoad},
	{"element at a wrong offset", line(`((?:st|ld)\.volatile\.(?:global\.)?(?:u|b|f)\w+)\s+(.*)\[` + reg64 + `(?:\+` + number + `)?\](.*)`), shiftedElement},
	{"packet at a wrong offset", line(`(st\.relaxed\.sys\.global\.v2\.b64)\s+\[` + reg64 + `\](.*)`), shiftedPacket},
	{"multimem.st to the own copy only", line(`multimem\.st\.relaxed\.sys\.global\.v4\.f32\s+\[` + reg64 + `\], ` + vector + `;`), ownStore},
	{"multimem.ld_reduce of the own copy only", line(`multimem\.ld_reduce\.relaxed\.sys\.global\.add\S*\.v4\.(f32|f16x2|bf16x2)\s+` + vector + `, \[` + reg64 + `\];`), ownLoad},
	{"sum in the element's precision", line(`multimem\.ld_reduce\..*\.acc::f32\..*`), swap(".acc::f32", "")},
	{"packet stored flag first", line(`st\.relaxed\.sys\.global\.v2\.b64\s+\[` + reg64 + `\], \{(%rd\d+),(%rd\d+)\};`), flagFirst},
	{"packet loaded flag last", line(`ld\.relaxed\.sys\.global\.v2\.b64\s+\{(%rd\d+),(%rd\d+)\}, \[` + reg64 + `\];`), flagLast},
	{"bulk copies waited for until read only", line(`cp\.async\.bulk\.wait_group\s+0;`), swap("wait_group", "wait_group.read")},
	{"bulk copies not waited for", line(`cp\.async\.bulk\.wait_group\s+0;`), removed},
	{"bulk copies of no group", line(`cp\.async\.bulk\.commit_group;`), removed},
	{"stage not waited for", line(`cp\.async\.bulk\.wait_group\.read\s+\d+;`), removed},
	{"stage waited for one copy too early", line(`cp\.async\.bulk\.wait_group\.read\s+2;`), swap("2;", "3;")},
	{"fence between the proxies removed", line(`fence\.proxy\.async\S*;`), removed},
	{"bulk copy to a wrong place", line(`(cp\.async\.bulk\.global\S+ \[%rd\d+)\](.*)`), bulkShifted},
	{"bulk copy from a wrong place", line(`(cp\.async\.bulk\.global\S+ \[%rd\d+\], \[%r\d+)\](.*)`), bulkShifted},
	{"stage filled at a wrong offset", line(`(st\.shared\.v4\.b32)\s+\[` + reg32 + `\](.*)`), shiftedPacket},
	{"count not kept for the next launch", line(keptCount.String() + `, %r\d+;`), removed},
}

func line(pattern string) *regexp.Regexp { return regexp.MustCompile(`^\s*` + pattern + `$`) }

// Mutants lists all mutants of a family's kernel, the sum where there are several;
// of CopyEngine, those of its graph.
func Mutants(f kernels.Family, element string) (out []*Mutant, err error) {
	entries := []string{kernels.Entry(f, "sum")}
	switch f {
	case CopyEngine:
		return edges(element), nil
	case kernels.RankBarrier:
		entries = []string{kernels.Entry(f, kernels.Scattered), kernels.Entry(f, kernels.Gathered)}
	}
	module, err := kernels.Module(element, f)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := kernels.Cut(module, e)
		if err != nil {
			return nil, err
		}
		k, next := &kernel{f, strings.Split(text, "\n")}, &flow{}
		for _, r := range rules {
			for i, l := range k.lines {
				if m := r.line.FindStringSubmatch(l); m != nil {
					if by := r.change(k, i, m); by != "" {
						out = append(out, &Mutant{Family: f, Entry: e, Element: element, Kind: r.kind, Line: i + 1, Old: strings.TrimSpace(strings.ReplaceAll(l, "\t", " ")), New: by, lines: k.lines, flow: next})
					}
				}
			}
		}
	}
	return out, nil
}

// near finds the last line before at, at most n lines back, that fits.
func (k *kernel) near(at, n int, pattern *regexp.Regexp) []string {
	for i := at - 1; i >= 0 && i >= at-n; i-- {
		if m := pattern.FindStringSubmatch(k.lines[i]); m != nil {
			return m
		}
	}
	return nil
}

var packetFlag = line(`\{ \.reg \.b32 tmp; mov\.b64 \{tmp, (%r\d+)\}, %rd\d+; \}`)

// packetWait takes a packet's flag for what is awaited.
func packetWait(k *kernel, at int, m []string) string {
	flag := k.near(at, 1, packetFlag)
	if flag == nil || flag[1] != m[3] {
		return ""
	}
	return fmt.Sprintf("\tsetp.eq.s32 \t%s, %s, %s;", m[1], m[3], m[3])
}

// announce changes the count that a release store announces.
func announce(by int) func(*kernel, int, []string) string {
	return func(_ *kernel, _ int, m []string) string {
		return fmt.Sprintf("\t{ .reg .b32 %%count; add.s32 %%count, %s, %d; %s, %%count; }", m[2], by, m[1])
	}
}

// onceOnly removes the jump back of a loop. The compiler marks loops.
func onceOnly(k *kernel, at int, m []string) string {
	for i, l := range k.lines[:at] {
		if strings.HasPrefix(l, m[2]+":") && strings.Contains(k.lines[i+1], ".pragma \"nounroll\"") {
			return "\t// " + strings.TrimSpace(m[0])
		}
	}
	return ""
}

func bulkShifted(_ *kernel, _ int, m []string) string { return "\t" + m[1] + "+16]" + m[2] }

func shifted(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t%s [%s+%d]%s", m[1], m[2], integer(m[3])+16, m[4])
}

func shiftedLoad(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t%s %s, [%s+%d]%s", m[1], m[2], m[3], integer(m[4])+16, m[5])
}

var widths = regexp.MustCompile(`\d+$`)

func shiftedElement(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t%s %s[%s+%d]%s", m[1], m[2], m[3], integer(m[4])+integer(widths.FindString(m[1]))/8, m[5])
}

func shiftedPacket(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t%s [%s+16]%s", m[1], m[2], m[3])
}

func integer(s string) (n int) {
	fmt.Sscan(s, &n)
	return n
}

// Offsets in the parameters, struct Args of control.cuh.
const (
	outAt         = 144
	multicastAt   = 152
	multicastOut  = 160
	scratchAt     = 216
	inAt          = 136
	ownedRegister = "%own"
)

// own gives instructions that turn a multicast address into that of the rank's
// own memory.
func (k *kernel) own(address string, store bool) string {
	base, to := multicastAt, scratchAt
	if k.family == kernels.NVLSZeroCopy {
		to = inAt
		if store {
			base, to = multicastOut, outAt
		}
	}
	p := kernels.Entry(k.family, "sum") + "_param_0"
	return fmt.Sprintf("\t{ .reg .b64 %%own; .reg .b64 %%part; ld.param.u64 %%own, [%s+%d]; sub.s64 %%own, %s, %%own; ld.param.u64 %%part, [%s+%d]; add.s64 %%own, %%own, %%part; ",
		p, base, address, p, to)
}

func ownStore(k *kernel, _ int, m []string) string {
	return k.own(m[1], true) + fmt.Sprintf("st.global.v4.b32 [%s], %s; }", ownedRegister, m[2])
}

func ownLoad(k *kernel, _ int, m []string) string {
	return k.own(m[3], false) + fmt.Sprintf("ld.global.v4.b32 %s, [%s]; }", m[2], ownedRegister)
}

// flagFirst stores a packet's flags before its data: four accesses of 32 bits
// instead of two of 64.
func flagFirst(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t{ .reg .b32 %%d0; .reg .b32 %%f0; .reg .b32 %%d1; .reg .b32 %%f1; mov.b64 {%%d0,%%f0}, %[2]s; mov.b64 {%%d1,%%f1}, %[3]s; "+
		"st.relaxed.sys.global.b32 [%[1]s+4], %%f0; st.relaxed.sys.global.b32 [%[1]s+12], %%f1; st.relaxed.sys.global.b32 [%[1]s], %%d0; st.relaxed.sys.global.b32 [%[1]s+8], %%d1; }",
		m[1], m[2], m[3])
}

// flagLast loads a packet's data before its flags, in as many accesses.
func flagLast(_ *kernel, _ int, m []string) string {
	return fmt.Sprintf("\t{ .reg .b32 %%d0; .reg .b32 %%f0; .reg .b32 %%d1; .reg .b32 %%f1; "+
		"ld.relaxed.sys.global.b32 %%d0, [%[3]s]; ld.relaxed.sys.global.b32 %%d1, [%[3]s+8]; ld.relaxed.sys.global.b32 %%f0, [%[3]s+4]; ld.relaxed.sys.global.b32 %%f1, [%[3]s+12]; "+
		"mov.b64 %[1]s, {%%d0,%%f0}; mov.b64 %[2]s, {%%d1,%%f1}; }",
		m[1], m[2], m[3])
}

package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

const sample = `// a comment
.version 8.3
.target sm_90, texmode_independent
.address_size 64
.extern .func (.param .b32 r) helper (.param .b64 a);
.visible .func plain() { { ret; } }
.extern .shared .align 16 .b8 dyn[];
.global .align 4 .u32 table[3] = {1, 2, 3}, other = 7;
.visible .entry first(
	.param .align 8 .b8 first_param_0[104],
	.param .u64 .ptr .global .align 16 first_param_1,
	.param .u32 first_param_2
)
.maxntid 512, 1, 1
.minnctapersm 2
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<11>, extra;
	.shared .align 4 .u32 flag;
	.local .align 16 .b8 	__local_depot0[64];
	/* two
	   lines */
$L__BB0_2:  // a label
	@!%p1 bra 	$L__BB0_2;
	ld.global.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd37+-16];
	mov.u32 %r1, %tid.x;
	{
	.reg .b64 t;
	setp.lt.and.s32 %p1|%p2, %r1, -5, !%p2;
	}
	mov.b32 %r2, 0f3F800000; mov.u64 %rd1, table+8;
	brx.idx %r1, $L_brx_0;
$L_brx_0: .branchtargets $L__BB0_2, $L__BB0_2;
	st.shared.u32 [flag], 0x1F;
	call (r0), helper, (p0, p1);
	ret;
}
`

func TestParse(t *testing.T) {
	m, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	id := func(n string) Operand { return Operand{Kind: Ident, Name: n} }
	want := &Module{
		Version: "8.3", Target: "sm_90, texmode_independent", AddressSize: 64,
		Funcs: []string{"helper", "plain"},
		Vars: []*Var{
			{Name: "dyn", Line: 7, Space: "shared", Type: "b8", Align: 16, Extern: true},
			{Name: "table", Line: 8, Space: "global", Type: "u32", Bytes: 12, Align: 4, Init: true},
			{Name: "other", Line: 8, Space: "global", Type: "u32", Bytes: 4, Align: 4, Init: true},
		},
		Entries: []*Entry{{
			Name: "first", Line: 9,
			Params: []*Var{
				{Name: "first_param_0", Line: 10, Space: "param", Type: "b8", Bytes: 104, Align: 8},
				{Name: "first_param_1", Line: 11, Space: "param", Type: "u64", Bytes: 8, Align: 8},
				{Name: "first_param_2", Line: 12, Space: "param", Type: "u32", Bytes: 4, Align: 4},
			},
			Directives: map[string][]int{"maxntid": {512, 1, 1}, "minnctapersm": {2}},
			Body: &Scope{Line: 16, Items: []Item{
				{Reg: &Reg{Name: "%p", Type: "pred", Count: 3, Line: 17}},
				{Reg: &Reg{Name: "%r", Type: "b32", Count: 11, Line: 18}},
				{Reg: &Reg{Name: "extra", Type: "b32", Line: 18}},
				{Var: &Var{Name: "flag", Line: 19, Space: "shared", Type: "u32", Bytes: 4, Align: 4}},
				{Var: &Var{Name: "__local_depot0", Line: 20, Space: "local", Type: "b8", Bytes: 64, Align: 16}},
				{Label: &Label{Name: "$L__BB0_2", Line: 23}},
				{Instr: &Instr{Line: 24, Text: "@!%p1 bra $L__BB0_2", Guard: "%p1", Not: true, Op: "bra", Args: []Operand{id("$L__BB0_2")}}},
				{Instr: &Instr{Line: 25, Text: "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd37+-16]", Op: "ld", Mods: []string{"global", "v4", "f32"},
					Args: []Operand{
						{Kind: Vector, List: []Operand{id("%f1"), id("%f2"), id("%f3"), id("%f4")}},
						{Kind: Addr, List: []Operand{id("%rd37")}, Offset: -16}}}},
				{Instr: &Instr{Line: 26, Text: "mov.u32 %r1, %tid.x", Op: "mov", Mods: []string{"u32"}, Args: []Operand{id("%r1"), id("%tid.x")}}},
				{Scope: &Scope{Line: 27, Items: []Item{
					{Reg: &Reg{Name: "t", Type: "b64", Line: 28}},
					{Instr: &Instr{Line: 29, Text: "setp.lt.and.s32 %p1|%p2, %r1, -5, !%p2", Op: "setp", Mods: []string{"lt", "and", "s32"},
						Args: []Operand{{Kind: Pair, List: []Operand{id("%p1"), id("%p2")}}, id("%r1"), {Kind: Int, Bits: 1<<64 - 5}, {Kind: Ident, Name: "%p2", Not: true}}}},
				}}},
				{Instr: &Instr{Line: 31, Text: "mov.b32 %r2, 0f3F800000", Op: "mov", Mods: []string{"b32"}, Args: []Operand{id("%r2"), {Kind: Float, Bits: 0x3f800000, Width: 32}}}},
				{Instr: &Instr{Line: 31, Text: "mov.u64 %rd1, table+8", Op: "mov", Mods: []string{"u64"}, Args: []Operand{id("%rd1"), {Kind: Sum, List: []Operand{id("table")}, Offset: 8}}}},
				{Instr: &Instr{Line: 32, Text: "brx.idx %r1, $L_brx_0", Op: "brx", Mods: []string{"idx"}, Args: []Operand{id("%r1"), id("$L_brx_0")}}},
				{Label: &Label{Name: "$L_brx_0", Line: 33, Targets: []string{"$L__BB0_2", "$L__BB0_2"}}},
				{Instr: &Instr{Line: 34, Text: "st.shared.u32 [flag], 0x1F", Op: "st", Mods: []string{"shared", "u32"}, Args: []Operand{{Kind: Addr, List: []Operand{id("flag")}}, {Kind: Int, Bits: 31}}}},
				{Instr: &Instr{Line: 35, Text: "call (r0), helper, (p0, p1)", Op: "call", Args: []Operand{
					{Kind: Vector, Name: "()", List: []Operand{id("r0")}}, id("helper"), {Kind: Vector, Name: "()", List: []Operand{id("p0"), id("p1")}}}}},
				{Instr: &Instr{Line: 36, Text: "ret", Op: "ret"}},
			}},
		}},
	}
	if d := cmp.Diff(want, m); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
	if m.Entry("first") != m.Entries[0] || m.Entry("second") != nil {
		t.Error("Entry finds the wrong kernel")
	}
	if n := m.Entries[0].Body.Items[7].Instr.Name(); n != "ld.global.v4.f32" {
		t.Errorf("name %q", n)
	}
}

func TestSyntaxErrors(t *testing.T) {
	const head = ".version 8.3\n.target sm_90\n"
	in := func(body string) string { return head + ".entry k() {\n" + body + "\n}" }
	for _, c := range []struct {
		src  string
		line int
		word string
	}{
		{"", 1, ".version"},
		{".version 8.3\n", 2, ".target"},
		{head + "mov.u32 %r1, %r2;", 3, "directive"},
		{head + ".nosuch", 3, ".nosuch"},
		{head + ".entry k(", 3, ".param"},
		{head + ".entry k(.param .u128 x) {}", 3, "u128"},
		{head + ".entry k(.param .u64 x .param .u64 y) {}", 3, "expected ,"},
		{head + ".entry k() {\nret;\n", 5, "expected }"},
		{head + ".entry k() {\n/* never closed\n", 4, "comment"},
		{in("mov.u32 %r1"), 5, "expected ;"},
		{in("mov.u32 %r1, ;"), 4, "operand"},
		{in("mov.u32 %r1, {{{%r2}}};"), 4, "deep"},
		{in("ld.u32 %r1, [%r2;"), 4, "expected ]"},
		{in("ld.u32 %r1, [{%r2}];"), 4, "address"},
		{in("mov.b32 %r1, 0f3F80;"), 4, "constant"},
		{in("mov.b32 %r1, 99999999999999999999;"), 4, "constant"},
		{in(".reg .nosuch %r<4>;"), 4, "register type"},
		{in(".reg .b32 %r<99999999>;"), 4, "out of range"},
		{in(".shared .align 3 .b8 x[4];"), 4, "power of two"},
		{in(".shared .b8 x[1024][1024][1024][1024];"), 4, "too large"},
		{in("mov.u32 %r1, \"text"), 4, "string"},
		{in("mov.u32 %r1, #;"), 4, "character"},
		{in(strings.Repeat("{", 100)), 4, "too deep"},
		{in("@5 bra X;"), 4, "a predicate"},
	} {
		_, err := Parse(c.src)
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if se.Line != c.line || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%q: %v (line %d, word %q expected)", c.src, err, c.line, c.word)
		}
	}
}

// FuzzParse looks for panics and for time that grows faster than the text.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	for _, pattern := range []string{"../../../kernels/ptx/nvls_float.ptx", "../exec/testdata/*.ptx"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(b))
		}
	}
	f.Add(".version 8.3\n.target sm_90\n.entry k() { @!p mov.b32 {a,_}, [x+-1], p|q, 0d0000000000000000; }")
	f.Fuzz(func(t *testing.T, src string) {
		begin := time.Now()
		m, err := Parse(src)
		if d := time.Since(begin); d > programtest.Within(time.Second+time.Duration(len(src))*10*time.Microsecond) {
			t.Errorf("%v for %d bytes", d, len(src))
		}
		var se *SyntaxError
		switch {
		case err == nil && (m == nil || m.Version == "" || m.Target == ""):
			t.Error("a module without version or target")
		case err != nil && !errors.As(err, &se):
			t.Errorf("error is a %T", err)
		case se != nil && (se.Line < 1 || se.Line > 1+strings.Count(src, "\n")):
			t.Errorf("line %d of %d", se.Line, 1+strings.Count(src, "\n"))
		}
	})
}

package exec

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// base is where the tests' address spaces start.
const base = 0x7000_0000_0000

// machine is a space with one mapped page and what a launch needs.
type machine struct {
	t     testing.TB
	space *Space
	mem   []byte // at base
	cfg   Config
	stats Stats
}

// pageBytes makes zeroed memory, aligned as Map wants it.
func pageBytes(pages int) []byte { return alignedBytes(pages * PageSize) }

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, space: NewSpace(base, 64*PageSize), mem: pageBytes(1)}
	m.cfg = Config{SMs: 2, BlocksPerSM: 2, Stats: &m.stats}
	if err := m.space.Map(base, m.mem); err != nil {
		t.Fatal(err)
	}
	return m
}

// multicast maps a team of n devices at page 8 and gives their memories.
func (m *machine) multicast(n int) (addr uint64, devices [][]byte) {
	addr = base + 8*PageSize
	for range n {
		devices = append(devices, pageBytes(1))
	}
	err := m.space.MapMulticast(addr, PageSize, func(off uint64) ([][]byte, error) { return devices, nil })
	if err != nil {
		m.t.Fatal(err)
	}
	return addr, devices
}

// header begins every module of the tests.
const header = ".version 8.3\n.target sm_90\n.address_size 64\n"

// kernelText wraps a body into a kernel with the parameter block p (64 bytes)
// and plenty of registers. %rd0 holds the first parameter.
func kernelText(body string) string {
	return header + ".visible .entry k(.param .align 8 .b8 p[64])\n{\n" +
		".reg .pred %p<16>;\n.reg .b16 %rs<16>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<32>;\n.reg .f32 %f<16>;\n.reg .f64 %fd<16>;\n" +
		"ld.param.u64 %rd0, [p];\n" + body + "\nret;\n}\n"
}

func compileText(t testing.TB, text string) (*Kernel, error) {
	t.Helper()
	mod, err := ptx.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return Compile(mod.Entries[0], mod)
}

func mustCompile(t testing.TB, text string) *Kernel {
	t.Helper()
	k, err := compileText(t, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return k
}

// args packs 64-bit parameters into n bytes.
func args(n int, vals ...uint64) []byte {
	b := make([]byte, n+8*len(vals)) // the last parameter may be narrower
	for i, v := range vals {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	return b[:n]
}

// launch runs a kernel with a deadline.
func (m *machine) launch(k *Kernel, grid, block uint32, vals ...uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return k.Run(ctx, m.space, &m.cfg, Launch{Grid: grid, Block: block, Args: args(k.ParamBytes, vals...)})
}

// body compiles and runs a body with base as its parameter and fails the test
// if anything goes wrong.
func (m *machine) body(text string, grid, block uint32, vals ...uint64) {
	m.t.Helper()
	k := mustCompile(m.t, kernelText(text))
	if err := m.launch(k, grid, block, append([]uint64{base}, vals...)...); err != nil {
		m.t.Fatalf("%v\n%s", err, text)
	}
}

func (m *machine) u32(i int) uint32 { return binary.LittleEndian.Uint32(m.mem[4*i:]) }
func (m *machine) u64(i int) uint64 { return binary.LittleEndian.Uint64(m.mem[8*i:]) }

// words views bytes as 32-bit words.
func words(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// lines joins instructions.
func lines(s ...string) string { return strings.Join(s, "\n") }

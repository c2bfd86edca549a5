package sim_test

import (
	"encoding/binary"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// storePTX is a module with a kernel that stores a word at an address, a kernel
// that adds a word over a multicast address, and an instruction that does not
// exist; target goes into the head.
func storePTX(target string) string {
	return `
.version 8.3
.target ` + target + `
.address_size 64
.visible .entry store(.param .align 8 .b8 store_param_0[16])
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [store_param_0];
	ld.param.u32 %r1, [store_param_0+8];
	st.global.u32 [%rd1], %r1;
	ret;
}
.visible .entry add(.param .align 8 .b8 add_param_0[16])
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [add_param_0];
	ld.param.u32 %r1, [add_param_0+8];
	multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];
	ret;
}
.visible .entry strange(.param .align 8 .b8 strange_param_0[16])
{
	.reg .b32 %r<2>;
	frobnicate.u32 %r1, %r1;
	ret;
}
`
}

func storeArgs(at device.Ptr, value uint32) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(at))
	b = binary.NativeEndian.AppendUint32(b, value)
	return binary.NativeEndian.AppendUint32(b, 0)
}

// bench is one opened device with the test's module and a stream.
type bench struct {
	device.Device
	t      *testing.T
	module device.Module
	stream device.Stream
}

func newBench(t *testing.T, d device.Device) *bench {
	t.Helper()
	m, err := d.LoadModule(storePTX("sm_90"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Device: d, t: t, module: m, stream: s}
}

func (b *bench) function(name string) device.Function {
	b.t.Helper()
	f, err := b.module.Function(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) alloc(bytes uint64) (device.Memory, device.Ptr) {
	b.t.Helper()
	m, err := b.Alloc(bytes)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := m.Map()
	if err != nil {
		b.t.Fatal(err)
	}
	return m, p
}

// fault launches a kernel that must fail, and gives the error.
func (b *bench) fault(kernel string, at device.Ptr) error {
	b.t.Helper()
	if err := b.stream.Launch(b.function(kernel), 1, 1, 0, storeArgs(at, 1)); err != nil {
		b.t.Fatal(err)
	}
	err := waited(b.t, b.stream)
	if err == nil {
		b.t.Fatalf("kernel %s at %#x did not fail", kernel, at)
	}
	return err
}

package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/ptx"
)

// module is parsed PTX. It implements device.Module. A kernel is compiled when
// it is asked for: a module holds many, a run uses few.
type module struct {
	d      *gpu
	tree   *ptx.Module
	closed atomic.Bool

	mu        sync.Mutex
	functions map[string]*function
}

// function is a compiled kernel. It implements device.Function.
type function struct {
	m      *module
	name   string
	kernel *exec.Kernel
	attr   device.FunctionAttributes
}

func (d *gpu) LoadModule(text string) (device.Module, error) {
	m := &module{d: d, functions: map[string]*function{}}
	err := d.do("cuModuleLoadData", fmt.Sprintf("PTX of %d bytes", len(text)), func() error {
		tree, err := ptx.Parse(text)
		if err != nil {
			return refuse(device.InvalidPTX, "%v", err)
		}
		if err := d.runs(tree.Target); err != nil {
			return err
		}
		m.tree = tree
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// runs checks a .target line against the device. PTX for sm_XY runs on XY and
// everything newer; with a suffix (sm_90a) on exactly that.
func (d *gpu) runs(target string) error {
	name, _, _ := strings.Cut(target, ",")
	digits, found := strings.CutPrefix(strings.TrimSpace(name), "sm_")
	number := strings.TrimRight(digits, "af")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		return refuse(device.InvalidPTX, "target %q is no sm_XY", target)
	}
	major, minor := n/10, n%10
	exact := number != digits
	if !d.info.AtLeast(major, minor) || exact && (major != d.info.Major || minor != d.info.Minor) {
		return refuse(device.NoBinaryForGPU, "the PTX is for %s, the device has compute capability %s", name, d.info.ComputeCapability())
	}
	return nil
}

func (m *module) Function(name string) (device.Function, error) {
	var f *function
	err := m.d.do("cuModuleGetFunction", name, func() error {
		if m.closed.Load() {
			return refuse(device.InvalidHandle, "the module was closed")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if f = m.functions[name]; f != nil {
			return nil
		}
		entry := m.tree.Entry(name)
		if entry == nil {
			return refuse(device.NotFound, "the module has no kernel of this name")
		}
		compile := exec.Compile
		if m.d.s.Weak() {
			compile = exec.CompileWeak
		}
		k, err := compile(entry, m.tree)
		if err != nil {
			var unknown *exec.UnknownInstructionError
			if errors.As(err, &unknown) {
				return refuse(device.InvalidPTX, "%v", unknown)
			}
			return refuse(device.InvalidPTX, "kernel %s: %v", name, err)
		}
		f = &function{m: m, name: name, kernel: k, attr: attributes(entry, k)}
		m.functions[name] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// attributes are what the kernel says of itself; .maxntid and .reqntid bound
// the block.
func attributes(e *ptx.Entry, k *exec.Kernel) device.FunctionAttributes {
	a := device.FunctionAttributes{
		Registers:          k.Registers,
		SharedBytes:        k.SharedBytes,
		LocalBytes:         k.LocalBytes,
		MaxThreadsPerBlock: exec.MaxThreadsPerBlock,
	}
	for _, d := range []string{"maxntid", "reqntid"} {
		threads := 1
		for _, n := range e.Directives[d] {
			threads *= n
		}
		if len(e.Directives[d]) != 0 {
			a.MaxThreadsPerBlock = min(a.MaxThreadsPerBlock, threads)
		}
	}
	return a
}

func (m *module) Close() error {
	return m.d.do("cuModuleUnload", "", func() error {
		m.closed.Store(true)
		return nil
	})
}

func (f *function) Name() string                          { return f.name }
func (f *function) Attributes() device.FunctionAttributes { return f.attr }

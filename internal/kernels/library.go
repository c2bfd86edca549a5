package kernels

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Library loads kernels onto one device, each once.
type Library struct {
	// Rewrite, when set, changes PTX before it is loaded. Tests use it to see that
	// a broken kernel is found out.
	Rewrite func(ptx string) string

	dev       device.Device
	modules   []device.Module
	functions map[string]device.Function
}

// NewLibrary makes an empty library for dev.
func NewLibrary(dev device.Device) *Library {
	return &Library{dev: dev, functions: map[string]device.Function{}}
}

// Function returns the kernel of a family for an element type and an operation
// (sum, prod, min, max), loading it on first use; of RankBarrier, for "" and what
// is waited for.
func (l *Library) Function(f Family, element, op string) (device.Function, error) {
	key := element + " " + Entry(f, op)
	if fn, ok := l.functions[key]; ok {
		return fn, nil
	}
	ptx, err := Module(element, f)
	if err != nil {
		return nil, err
	}
	if ptx, err = Cut(ptx, Entry(f, op)); err != nil {
		return nil, err
	}
	if l.Rewrite != nil {
		ptx = l.Rewrite(ptx)
	}
	m, err := l.dev.LoadModule(ptx)
	if err != nil {
		return nil, fmt.Errorf("loading kernel %s for %s: %w", Entry(f, op), element, err)
	}
	l.modules = append(l.modules, m)
	fn, err := m.Function(Entry(f, op))
	if err != nil {
		return nil, fmt.Errorf("loading kernel %s for %s: %w", Entry(f, op), element, err)
	}
	l.functions[key] = fn
	return fn, nil
}

// Close unloads every module. Function loads them anew.
func (l *Library) Close() error {
	var errs []error
	for _, m := range l.modules {
		errs = append(errs, m.Close())
	}
	l.modules, l.functions = nil, map[string]device.Function{}
	return errors.Join(errs...)
}

//go:build !faultinject

package bench

import (
	"io"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// Faults are injected only into binaries built for tests; see fault_inject.go.

func (b *bench) injectFaults() {}

func (b *bench) corruptInput(device.Stream, collective.Call) error { return nil }

func (b *bench) callFault() func(call string) { return nil }

func stageFault(io.Writer) func(rank int, stage string) { return nil }

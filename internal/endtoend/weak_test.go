//go:build linux

package endtoend

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
)

// TestWeakMemory runs every mode on the software device's weak memory model, among
// real processes: one after the other in the same buffers, as a job does it, with
// hosts that wait in between and graphs that follow each other.
func TestWeakMemory(t *testing.T) {
	sweep(t, openMPI, 2, modes(configs.ModeAuto), []collective.DType{collective.Float}, []collective.Op{collective.Sum}, sizes{999, 1000, 2},
		"[timing]\nwarmup = 0\niters = 2\nper_iteration = false\ngraph = 2\n[sim]\nseed = 5\n")
}

//go:build linux

package endtoend

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// The binaries under test.
var (
	program string // as users build it
	faulty  string // with the faults of internal/bench/fault_inject.go
)

func TestMain(m *testing.M) { programtest.Main(m, &program, &faulty) }

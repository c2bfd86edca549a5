package exec

import "sync/atomic"

// Stats counts what kernels executed.
type Stats struct {
	Instructions atomic.Uint64 // thread instructions: one instruction in one thread counts 1
	Issues       atomic.Uint64 // warp instructions: one for all threads that execute it together
	Blocks       atomic.Uint64
	Yields       atomic.Uint64 // times a warp gave way because it spun
	Sleeps       atomic.Uint64 // times the launch gave the CPU to other processes
}

package bench

import (
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// simFaults makes what sim.faults says about this rank into the hook of the
// software device, nil when it says nothing.
func (b *bench) simFaults() func(call string, n int) device.Code {
	faults, rank := b.cfg.Sim.ParsedFaults(), b.world.Rank()
	told := b.callFault()
	if len(faults) == 0 && told == nil {
		return nil
	}
	return func(call string, n int) device.Code {
		if told != nil {
			told(call)
		}
		for _, f := range faults {
			switch {
			case !f.Hits(rank, call, n):
			case f.Do == configs.FaultHang:
				select {} // as a driver that waits for a fabric that is not there
			default:
				return device.Code(f.Code)
			}
		}
		return 0
	}
}

// tellFaults records that faults were asked for: nothing that such a run shows
// may be taken for the program's own failure.
func (b *bench) tellFaults() {
	for _, text := range b.cfg.Sim.Faults {
		b.record.note("The software device has an injected fault: sim.faults has %s", text)
	}
}

// trapKernels makes this rank's all-reduce kernels execute trap, if sim.faults
// says so, where they first wait for a peer: by then peers may wait for them.
func (b *bench) trapKernels() {
	for _, f := range b.cfg.Sim.ParsedFaults() {
		if f.Do == configs.FaultTrap && f.Hits(b.world.Rank(), configs.FaultKernel, f.First) {
			b.group.Library().Rewrite = trapping
		}
	}
}

// waitMarks are instructions with which a wait for a peer begins.
var waitMarks = []string{"\tld.acquire.sys", "\tld.relaxed.sys.global.v2"}

// trapping puts a trap before the first wait. Kernels that wait for nobody, those
// that fill and check, stay as they are.
func trapping(ptx string) string {
	at := -1
	for _, mark := range waitMarks {
		if i := strings.Index(ptx, mark); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return ptx
	}
	return fmt.Sprintf("%s\ttrap;\n%s", ptx[:at], ptx[at:])
}

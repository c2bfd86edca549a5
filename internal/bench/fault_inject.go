//go:build faultinject

package bench

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// A binary built with the tag faultinject breaks what it is told to break, so
// that tests see verification fail. NVLS_ALLREDUCE_FAULT is one of
//
//	flip:RANK:ELEMENT  flips bits of one element (of 4 bytes) of a rank's input
//	drop:RANK          a rank contributes zeros
//	nocheck:RANK       the kernel that verifies a rank's results ends at once
//	nowait             kernels no longer wait for their peers
//	nowait:STAGE       they do but in one stage, by its number in control.cuh
//
//	at:RANK:ACTION:N:STAGE  what fault_stage.go does, when the rank enters a stage for
//	                   the Nth time; a stage is also each driver call, by its name
//	stages:RANK        prints every stage and driver call that a rank enters
//
// With nowait, rank 1 is late.
const faultVariable = "NVLS_ALLREDUCE_FAULT"

func fault() (kind string, args []string) {
	parts := strings.Split(os.Getenv(faultVariable), ":")
	return parts[0], parts[1:]
}

// waits finds where a kernel decides that a peer's counter has come far enough
// (groups: address, bound), or that a packet has its flag (groups: address, and
// twice flag wanted, flag found).
var waits = regexp.MustCompile(
	`ld\.acquire\.sys\.global\.b32 %r\d+, (\[%rd\d+\]);\n(?:.*\n)*?\s*sub\.s32 \s*%r\d+, %r\d+, %r\d+;\n\s*setp\.gt\.s32 \s*%p\d+, %r\d+, (-1);` +
		`|ld\.relaxed\.sys\.global\.v2\.b64 \{%rd\d+,%rd\d+\}, (\[%rd\d+\]);\n(?:.*\n){0,4}?\s*setp\.eq\.s32 \s*%p\d+, (%r\d+), (%r\d+);\n.*\n\s*setp\.eq\.s32 \s*%p\d+, (%r\d+), (%r\d+);`)

// reports finds where a wait that gave up stores its stage, from a register.
var reports = regexp.MustCompile(`atom\.\S*\.cas\.b32 %r\d+, \[%rd\d+\], 0, (%r\d+);`)

func (b *bench) injectFaults() {
	kind, args := fault()
	if kind == "nocheck" && strconv.Itoa(b.group.Rank()) == args[0] {
		b.group.Library().Rewrite = func(ptx string) string {
			if strings.Contains(ptx, ".entry "+string(kernels.Check)+"_") {
				ptx = strings.Replace(ptx, "\tmov.", "\tret;\n\tmov.", 1)
			}
			return ptx
		}
	}
	if kind != "nowait" {
		return
	}
	stage := ""
	if len(args) > 0 {
		stage = args[0]
	}
	b.group.Library().Rewrite = func(ptx string) string { return withoutWaits(ptx, stage) }
}

// withoutWaits makes a kernel's waits of one stage succeed at once, or all if
// the stage is "".
func withoutWaits(ptx, stage string) string {
	if !strings.Contains(ptx, "ld.acquire") && !strings.Contains(ptx, "ld.relaxed.sys.global.v2") {
		return ptx // fills or checks
	}
	found := waits.FindAllStringSubmatchIndex(ptx, -1)
	group := func(m []int, g int) string {
		if m[2*g] < 0 {
			return ""
		}
		return ptx[m[2*g]:m[2*g+1]]
	}
	address := func(m []int) string { return group(m, 1) + group(m, 3) }
	// A wait looks once, then in a loop, at one address; its report follows.
	stages := make([]string, len(found))
	for _, r := range reports.FindAllStringSubmatchIndex(ptx, -1) {
		set := ptx[:r[0]]
		set = set[strings.LastIndex(set, "\t"+group(r, 1)+", ")+1:]
		_, number, _ := strings.Cut(set, ", ")
		number, _, _ = strings.Cut(number, ";")
		before := len(found)
		for before > 0 && found[before-1][0] > r[0] {
			before--
		}
		for i := range before {
			if stages[i] == "" && address(found[i]) == address(found[before-1]) {
				stages[i] = number
			}
		}
	}
	var out strings.Builder
	end := 0
	replace := func(m []int, g int, by string) {
		out.WriteString(ptx[end:m[2*g]] + by)
		end = m[2*g+1]
	}
	for i, m := range found {
		switch {
		case stage != "" && stages[i] != stage:
		case group(m, 2) != "":
			replace(m, 2, "-2147483648")
		default: // the flag is what it is
			replace(m, 5, group(m, 4))
			replace(m, 7, group(m, 6))
		}
	}
	if end == 0 && strings.Contains(ptx, ".entry "+string(kernels.RankBarrier)+"_") {
		return ptx // a kernel for each stage
	}
	if end == 0 {
		panic(fmt.Sprintf("fault injection found no wait of stage %q in the kernel", stage))
	}
	return out.String() + ptx[end:]
}

func (b *bench) corruptInput(s device.Stream, c collective.Call) error {
	kind, args := fault()
	switch kind {
	case "nowait":
		if b.group.Rank() == 1 {
			time.Sleep(20 * time.Millisecond)
		}
	case "flip":
		if strconv.Itoa(b.group.Rank()) == args[0] {
			i, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil || c.DType.Size() != 4 || i >= c.Count {
				return fmt.Errorf("fault flip: element %q of %d of %s", args[1], c.Count, c.DType)
			}
			return s.Set32(c.Send.Local()+device.Ptr(4*i), 0x3fc00000, 1)
		}
	case "drop":
		if strconv.Itoa(b.group.Rank()) == args[0] {
			return s.Set32(c.Send.Local(), 0, c.Bytes()/4)
		}
	}
	return nil
}

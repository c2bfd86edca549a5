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
)

// A binary built with the tag faultinject breaks what it is told to break, so
// that tests see verification fail. NVLS_ALLREDUCE_FAULT is one of
//
//	flip:RANK:ELEMENT  flips bits of one element (of 4 bytes) of a rank's input
//	drop:RANK          a rank contributes zeros
//	nowait             kernels no longer wait for their peers
//	nowait:N           they do but for the N-th wait in the kernel, from 0
//
// With the latter two, rank 1 is late.
const faultVariable = "NVLS_ALLREDUCE_FAULT"

func fault() (kind string, args []string) {
	parts := strings.Split(os.Getenv(faultVariable), ":")
	return parts[0], parts[1:]
}

// waits finds the comparisons by which a kernel decides that a peer's counter
// has come far enough, or that a packet has its flag. A wait is two of them at
// one address: a first look, and a loop.
var waits = regexp.MustCompile(
	`ld\.acquire\.sys\.global\.b32 %r\d+, (\[%rd\d+\]);\n(?:.*\n)*?\s*sub\.s32 \s*%r\d+, %r\d+, %r\d+;\n\s*setp\.gt\.s32 \s*%p\d+, %r\d+, (-1);` +
		`|ld\.relaxed\.sys\.global\.v4\.b32 \{%r\d+,(%r\d+),%r\d+,(%r\d+)\}, (\[%rd\d+\]);\n\s*setp\.eq\.s32 \s*%p\d+, %r\d+, (%r\d+);\n\s*setp\.eq\.s32 \s*%p\d+, %r\d+, (%r\d+);`)

func (b *bench) injectFaults() {
	kind, args := fault()
	if kind != "nowait" {
		return
	}
	only := -1
	if len(args) > 0 {
		only, _ = strconv.Atoi(args[0])
	}
	b.group.Library().Rewrite = func(ptx string) string { return withoutWaits(ptx, only) }
}

// withoutWaits makes the only-th wait of a kernel succeed at once, or all if
// only is -1.
func withoutWaits(ptx string, only int) string {
	if !strings.Contains(ptx, "ld.acquire") && !strings.Contains(ptx, "ld.relaxed.sys.global.v4") {
		return ptx // fills or checks
	}
	var out strings.Builder
	end, number, address := 0, -1, ""
	replace := func(from, to int, by string) {
		out.WriteString(ptx[end:from] + by)
		end = to
	}
	broken := false
	for _, m := range waits.FindAllStringSubmatchIndex(ptx, -1) {
		text := func(group int) string {
			if m[2*group] < 0 {
				return ""
			}
			return ptx[m[2*group]:m[2*group+1]]
		}
		if at := text(1) + text(5); at != address {
			number, address = number+1, at
		}
		if only >= 0 && number != only {
			continue
		}
		broken = true
		if text(2) != "" {
			replace(m[4], m[5], "-2147483648")
		} else { // the flag is what it is
			replace(m[12], m[13], text(3))
			replace(m[14], m[15], text(4))
		}
	}
	if !broken {
		panic(fmt.Sprintf("fault injection found no wait %d in the kernel", only))
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

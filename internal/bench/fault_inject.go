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
//	nowait             kernels no longer wait at their barriers, and rank 1 is late
const faultVariable = "NVLS_ALLREDUCE_FAULT"

func fault() (kind string, args []string) {
	parts := strings.Split(os.Getenv(faultVariable), ":")
	return parts[0], parts[1:]
}

// waits finds the comparison with which a kernel decides that a peer's counter
// has come far enough.
var waits = regexp.MustCompile(`(ld\.acquire\.sys\.global\.b32 (%r\d+), \[%rd\d+\];\n(?:.*\n)*?\s*sub\.s32 \s*(%r\d+), %r\d+, %r\d+;\n\s*setp\.gt\.s32 \s*%p\d+, %r\d+), -1;`)

func (b *bench) injectFaults() {
	if kind, _ := fault(); kind == "nowait" {
		b.group.Library().Rewrite = func(ptx string) string {
			broken := waits.ReplaceAllString(ptx, "$1, -2147483648;")
			if broken == ptx && strings.Contains(ptx, "ld.acquire") {
				panic("fault injection found no wait in the kernel")
			}
			return broken
		}
	}
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

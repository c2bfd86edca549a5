package nvls

import (
	"context"
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Supports says why the switch cannot do an operation on a type, nil when it
// can. Source: the type and operation table of multimem.ld_reduce in the PTX ISA
// for sm_90. An average is a sum and a division afterwards.
func Supports(d collective.DType, op collective.Op) error {
	why := ""
	switch {
	case d.Size() == 1:
		why = "the switch has no 8-bit integer arithmetic"
	case op == collective.Prod:
		why = "the switch cannot multiply"
	case (op == collective.Min || op == collective.Max) && (d == collective.Float || d == collective.Double):
		why = fmt.Sprintf("the switch has no minimum or maximum of %s", d)
	}
	if why == "" {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("NVLS cannot do %s of %s", op, d), Why: why,
		Do: "use --mode ring or p2p, which do every operation, or --fallback allow", By: failure.User}
}

// Available says whether NVLS can be set up in a group, as far as that can be
// known without touching the multicast interface of the driver; nil when nothing
// speaks against it. It is collective: all ranks get the same answer.
func Available(ctx context.Context, g *collective.Group) error {
	err := judge(g.Devices(), g.SharesGPU(), g.Rank())
	return g.Node().Vote(ctx, "ask for multicast", err)
}

// judge looks for the reason why one rank's device has no NVLS.
func judge(devices []device.Info, shared bool, rank int) error {
	d := devices[rank]
	reasons := Reasons(d, shared)
	if len(reasons) == 0 {
		return nil
	}
	// No rank and no UUID in the text: the vote names the ranks, and says what is
	// the same on all of them once.
	return reasons[0].failure("NVLS cannot run", d.Name, nil)
}

// Instructions names the multimem form that serves a type and operation, for
// the record; "" when there is none.
func Instructions(d collective.DType, op collective.Op) string {
	if Supports(d, op) != nil {
		return ""
	}
	name := op.String()
	if op == collective.Sum || op == collective.Avg {
		name = "add"
	}
	form := map[collective.DType]string{
		collective.Float: "v4.f32", collective.Double: "f64", collective.Half: "v4.f16x2", collective.BFloat16: "v4.bf16x2",
		collective.Int32: "s32", collective.Uint32: "u32", collective.Int64: "s64", collective.Uint64: "u64",
	}[d]
	if name == "add" {
		form = strings.Replace(form, "s64", "u64", 1) // the sum of s64 is that of u64
		if d == collective.Half || d == collective.BFloat16 {
			form = "acc::f32." + form
		}
	}
	return "multimem.ld_reduce." + name + "." + form
}

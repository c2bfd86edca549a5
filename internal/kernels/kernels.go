// Package kernels holds the GPU code of this project: CUDA C++ in src, the PTX
// made from it in ptx (committed and embedded), and the Go view of the kernels'
// arguments and of the memory that ranks share.
//
// Rules:
//
//   - The PTX is compiled by build.sh (make kernels) with plain clang and without
//     NVIDIA's toolkit. CI rebuilds it and fails on a difference.
//   - Three modules an element type: portable for sm_80 and up, nvls and bulk for
//     sm_90 and up, because the driver refuses a whole module for one instruction
//     that it does not know.
//   - Kernels are named FAMILY_OP: two_shot_sum, nvls_zero_copy_max. An average
//     is the sum kernel with a divisor.
//   - A kernel's parameters are one struct, Args or DataArgs.
package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:generate ./build.sh ptx

//go:embed ptx/*.ptx
var files embed.FS

// Family is a kind of kernel.
type Family string

const (
	OneShot      Family = "one_shot"       // every rank reads every rank's message
	TwoShot      Family = "two_shot"       // reduce a slice, store it to all, over peers' mappings
	Packet       Family = "packet"         // one-shot with flags inside the data
	Push         Family = "push"           // store slices to their owners, reduce, store results to all
	PushBulk     Family = "push_bulk"      // push by bulk copies from shared memory
	Ring         Family = "ring"           // reduce-scatter and all-gather around a ring
	CopyIn       Family = "copy_in"        // two-shot on a staging buffer, over peers' mappings
	LocalReduce  Family = "local_reduce"   // reduce what copy engines brought, into own memory
	RankBarrier  Family = "rank_barrier"   // orders what streams of several ranks do; of no element type
	NVLSZeroCopy Family = "nvls_zero_copy" // two-shot over a multicast object
	NVLSCopyIn   Family = "nvls_copy_in"   // copy-in over a multicast object
	Fill         Family = "fill"           // writes a rank's input
	Check        Family = "check"          // counts wrong elements of a result
)

// NeedsMulticast reports whether the family is in the nvls module.
func (f Family) NeedsMulticast() bool { return f == NVLSZeroCopy || f == NVLSCopyIn }

// module is the kind of module that the family is in.
func (f Family) module() string {
	switch {
	case f.NeedsMulticast():
		return "nvls"
	case f == PushBulk:
		return "bulk"
	case f == RankBarrier:
		return "rank_barrier"
	}
	return "portable"
}

// Capability is the least compute capability that the family's instructions need.
func (f Family) Capability() (major, minor int) {
	if f == PushBulk || f.NeedsMulticast() {
		return 9, 0
	}
	return 8, 0
}

// SharedBytes is the dynamic shared memory that a launch gives each block.
func (f Family) SharedBytes() uint32 {
	if f == PushBulk {
		return BulkSharedBytes
	}
	return 0
}

// MaxThreads is the block size that the kernels are compiled for.
const MaxThreads = 512

// Of a RankBarrier, what stands for the operation says what is waited for.
const (
	Scattered = "scattered" // the peers' copies into scratch memory
	Gathered  = "gathered"  // the peers' copies of their results
)

// Entry is the name of the kernel of a family for an operation, one of sum,
// prod, min and max; of a RankBarrier, for Scattered or Gathered.
func Entry(f Family, op string) string { return string(f) + "_" + op }

// Module returns the whole PTX text of the module that a family is in: element is
// a data type's name ("float", "bfloat16", …), of no matter for a RankBarrier.
func Module(element string, f Family) (string, error) {
	name := f.module()
	if f != RankBarrier {
		name += "_" + element
	}
	b, err := files.ReadFile("ptx/" + name + ".ptx")
	if err != nil {
		return "", fmt.Errorf("no kernels %s are built", name)
	}
	return string(b), nil
}

// LinkModule returns the PTX of the kernels that measure links, link_store and
// link_load. Their parameter is LinkArgs.
func LinkModule() (string, error) {
	b, err := files.ReadFile("ptx/link.ptx")
	return string(b), err
}

// LinkBulkModule returns the PTX of link_bulk_store, which is link_store by bulk
// copies, for GPUs that PushBulk runs on. A launch gives it BulkSharedBytes of
// dynamic shared memory.
func LinkBulkModule() (string, error) {
	b, err := files.ReadFile("ptx/link_bulk.ptx")
	return string(b), err
}

// entryMark starts each kernel in the PTX text.
const entryMark = "\n.visible .entry "

// Cut returns the PTX text with the entries named and no others. A module has
// dozens of kernels and a run needs a few: the driver compiles what it is given,
// so a cut module loads in milliseconds. Kernels share nothing but the
// declarations before the first one.
func Cut(ptx string, entries ...string) (string, error) {
	parts := strings.Split(ptx, entryMark)
	var b strings.Builder
	b.WriteString(parts[0])
	for _, e := range entries {
		found := false
		for _, p := range parts[1:] {
			if strings.HasPrefix(p, e+"(") {
				b.WriteString(entryMark)
				b.WriteString(p)
				found = true
			}
		}
		if !found {
			return "", fmt.Errorf("no kernel %s in the module", e)
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

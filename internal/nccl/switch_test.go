package nccl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// TestSiteSwitch proves the safety property: with a switch on, NCCL sees
// NCCL_NVLS_ENABLE=0 and no plugin for its environment, from the moment at which
// it is loaded and in every call.
func TestSiteSwitch(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		off  string // as the mode tells it; "": no switch
	}{
		{"configuration", []string{envSwitch + "=multicast = off"}, "multicast = off"},
		{"configuration against the environment", []string{envSwitch + "=multicast = off", "NCCL_NVLS_ENABLE=1", "NCCL_ENV_PLUGIN=site"}, "multicast = off"},
		{"own variable", []string{"NVLS_ALLREDUCE_MULTICAST=off", "NCCL_NVLS_ENABLE=2"}, "NVLS_ALLREDUCE_MULTICAST=off in the environment"},
		{"NCCL", []string{"NCCL_NVLS_ENABLE=0"}, "NCCL_NVLS_ENABLE=0 in the environment"},
		// NCCL reads these as permissions: a negative number is not 0, and what is
		// no number is ignored.
		{"NCCL, negative", []string{"NCCL_NVLS_ENABLE=-1"}, "NCCL_NVLS_ENABLE=-1 in the environment"},
		{"NCCL, a word", []string{"NCCL_NVLS_ENABLE=off"}, "NCCL_NVLS_ENABLE=off in the environment"},
		{"PyTorch", []string{"TORCH_SYMM_MEM_DISABLE_MULTICAST=1"}, "TORCH_SYMM_MEM_DISABLE_MULTICAST=1 in the environment"},
		{"NVSHMEM", []string{"NVSHMEM_DISABLE_NVLS=1"}, "NVSHMEM_DISABLE_NVLS=1 in the environment"},
		// The controls: without a switch the environment stays as it was.
		{"none", nil, ""},
		{"none, permitted", []string{"NCCL_NVLS_ENABLE=1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := child(t, "symmetric", tt.env...)
			if !o.done {
				t.Fatal(o.output)
			}
			if !strings.Contains(o.output, fmt.Sprintf("off %q", tt.off)) {
				t.Errorf("the mode does not name the switch:\n%s", o.output)
			}
			if c := o.calls(); len(c) < 5 || c[0] != "load" || !slices.Contains(c, "ncclCommInitRank") {
				t.Fatalf("the log is not whole: %v", o.log)
			}
			for _, l := range o.log {
				if forbidden := strings.Contains(l, " NVLS=0 PLUGIN=none"); forbidden != (tt.off != "") {
					t.Errorf("NVLS forbidden: %v, in: %s", forbidden, l)
				}
			}
		})
	}
}

// twice opens NCCL, and again after a switch was set.
func twice(ctx context.Context, r *rank) error {
	if err := openAndClose(ctx, r); err != nil {
		return err
	}
	if _, err := openLibrary("", ""); err != nil {
		return fmt.Errorf("a second time: %w", err)
	}
	if _, err := openLibrary("libnccl.so.3", ""); failure.CodeOf(err) != failure.Unavailable {
		return fmt.Errorf("another library: %v", err)
	}
	_, err := openLibrary("", "a switch")
	return err
}

// TestSwitchNotEnsured: where NCCL could use NVLS in spite of a switch, it is not
// used at all.
func TestSwitchNotEnsured(t *testing.T) {
	preload := "LD_PRELOAD=" + fakeNCCL(t, "")
	off := envSwitch + "=multicast = off"
	for _, tt := range []struct {
		name, part string
		env        []string
		words      []string
	}{
		{"NCCL in the process before", "open", []string{preload, off}, []string{"in this process before", "set NCCL_NVLS_ENABLE=0 before the program starts"}},
		{"NCCL in the process before, permitted", "open", []string{preload, off, "NCCL_NVLS_ENABLE=2"}, []string{"in this process before"}},
		{"the library changes it when loaded", "open", []string{off, "FAKENCCL_MEDDLE=load"}, []string{"did not reach NCCL's environment", `it is "1"`}},
		{"something changes it later", "open", []string{off, "FAKENCCL_MEDDLE=ncclGetUniqueId"}, []string{"did not reach NCCL's environment", `it is "1"`}},
		{"opened before without it", "twice", nil, []string{"NCCL was opened before without knowing it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := child(t, tt.part, tt.env...)
			o.failedWith(t, failure.Unavailable, append(tt.words, "forbids NVLS")...)
			if tt.part == "open" && slices.Contains(o.calls(), "ncclCommInitRank") {
				t.Errorf("a communicator was made: %v", o.log)
			}
		})
	}
	// In the process before, but with the switch that NCCL cannot have missed.
	if o := child(t, "open", preload, "NCCL_NVLS_ENABLE=0"); !o.done {
		t.Error(o.output)
	}
}

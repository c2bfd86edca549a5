package exec

import (
	"strings"
	"testing"
)

// TestRefused lists what Compile must not accept, with the word that its
// message has to contain.
func TestRefused(t *testing.T) {
	for text, word := range map[string]string{
		"frobnicate.b32 %r0, %r1;":                                      "frobnicate.b32",
		"add.ftz.f32 %f0, %f1, %f2;":                                    "ftz",
		"add.rz.f32 %f0, %f1, %f2;":                                     "rz",
		"add.s32 %r0, %r1;":                                             "2 operands",
		"add.s32 %rd0, %r1, %r2;":                                       "64 bits",
		"add.s32 %r0, %r1, %nosuch;":                                    "%nosuch",
		"add.s32 %r0, %r1, %p1;":                                        "predicate",
		"ld.global.b128 %rd0, [%rd1];":                                  "b128",
		"ld.acquire.global.u32 %r0, [%rd1];":                            "scope",
		"ld.weak.sys.global.u32 %r0, [%rd1];":                           "scope",
		"ld.global.v4.u64 {%rd1,%rd2,%rd3,%rd4}, [%rd1];":               "type",
		"ld.volatile.sys.global.u32 %r0, [%rd1];":                       "scope",
		"ld.mmio.relaxed.gpu.global.u32 %r0, [%rd1];":                   "mmio",
		"ld.relaxed.acquire.sys.global.u32 %r0, [%rd1];":                "acquire",
		"ld.shared.nc.u32 %r0, [%rd1];":                                 "nc",
		"st.acquire.sys.global.u32 [%rd1], %r0;":                        "acquire",
		"multimem.ld_reduce.relaxed.sys.global.add.e4m3x4 %r0, [%rd1];": "e4m3x4",
		"multimem.ld_reduce.relaxed.sys.global.min.f32 %f0, [%rd1];":    "min",
		"multimem.ld_reduce.relaxed.sys.global.add.s64 %rd1, [%rd1];":   "s64",
		"multimem.ld_reduce.global.add.v2.u32 {%r0, %r1}, [%rd1];":      "u32",
		"multimem.ld_reduce.global.add.acc::f32.f32 %f0, [%rd1];":       "acc::f32",
		"multimem.ld_reduce.relaxed.global.add.f32 %f0, [%rd1];":        "scope",
		"multimem.ld_reduce.shared.add.f32 %f0, [%rd1];":                "state space",
		"multimem.red.relaxed.sys.global.min.f16x2 [%rd1], %r1;":        "min",
		"multimem.red.acquire.sys.global.add.u32 [%rd1], %r1;":          "acquire",
		"atom.global.add.s64 %rd1, [%rd1], %rd2;":                       "s64",
		"atom.global.add.u16 %rs1, [%rd1], %rs2;":                       "u16",
		"bra NOWHERE;":                      "NOWHERE",
		"call foo;":                         "call",
		"shfl.down.b32 %r0, %r1, %r2, %r3;": "operands",
		"@%r1 mov.u32 %r0, %r1;":            "%r1",
		"mov.u32 %r0, %tid.w;":              "%tid.w",
		"mov.u32 %r0, %globaltimer;":        "32",
		"cvt.f16.f32 %rs0, %f1;":            "rounding",
		"cvt.rn.f32.f16 %f0, %rs1;":         "rounding",
		"cvt.s32.f32 %r0, %f1;":             "rounding",
		"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%rd1, {%f0,%f1}];":                       "tex",
		"wgmma.fence.sync.aligned;":                                                     "wgmma",
		"fence.proxy.tensormap::generic.release.gpu;":                                   "fence.proxy.tensormap",
		"fence.proxy.async.shared::cluster;":                                            "shared::cluster",
		"membar.proxy.alias;":                                                           "proxy",
		"barrier.cluster.arrive;":                                                       "cluster",
		"cp.async.ca.shared.global [%r0], [%rd1], 16;":                                  "cp.async.bulk",
		"cp.async.commit_group;":                                                        "cp.async.bulk",
		"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r0], 16;": "bulk_group",
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd1], 16, [%r1];": "bulk_group",
		"cp.async.bulk.shared::cta.global.bulk_group [%r0], [%rd1], 16;":                              "bulk_group",
		"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [%r0], 16, %rd2;":         "bulk_group",
		"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0];":                                  "2 operands",
		"cp.async.bulk.global.shared::cta.bulk_group %rd1, [%r0], 16;":                                "no address",
		"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], %rd2;":                            "64 bits",
		"cp.async.bulk.wait_group %r0;":                                                               "constant",
		"cp.async.bulk.wait_group.read;":                                                              "0 operands",
		"cp.async.bulk.wait_group.write 0;":                                                           "write",
		"cp.async.bulk.commit_group.read;":                                                            "read",
		"cp.async.bulk.prefetch.L2.global [%rd1], 16;":                                                "bulk_group",
	} {
		_, err := compileText(t, kernelText(text))
		u, ok := err.(*UnknownInstructionError)
		if !ok || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", text, err)
		} else if u.Line != 13 {
			t.Errorf("%s: line %d instead of 13", text, u.Line)
		}
	}
}

// TestTargets: what the module's target lacks is refused, and named.
func TestTargets(t *testing.T) {
	multimem := "multimem.st.relaxed.sys.global.f32 [%rd0], %f1;"
	wide := "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.bf16x2 %r1, [%rd0];"
	bf16 := "add.rn.bf16 %rs0, %rs1, %rs2;"
	for _, c := range []struct {
		version, target, body string
		ok                    bool
	}{
		{"8.3", "sm_90", multimem, true}, {"8.3", "sm_90a", multimem, true}, {"8.3", "sm_100", multimem, true},
		{"8.3", "sm_80", multimem, false}, {"8.0", "sm_90", multimem, false},
		{"8.1", "sm_90", wide, false}, {"8.2", "sm_90", wide, true},
		{"8.0", "sm_90", "cp.async.bulk.commit_group;", true}, {"8.3", "sm_80", "cp.async.bulk.commit_group;", false},
		{"7.8", "sm_90", "fence.proxy.async;", false}, {"8.0", "sm_90", "fence.proxy.async.global;", true},
		{"8.3", "sm_80", bf16, false}, {"8.3", "sm_90", bf16, true},
		{"8.3", "sm_80", "fma.rn.bf16 %rs0, %rs1, %rs2, %rs3;", true},
		{"8.3", "sm_75", "cvt.rn.bf16.f32 %rs0, %f1;", false}, {"8.3", "sm_80", "cvt.rn.bf16.f32 %rs0, %f1;", true},
		{"8.3", "sm_80", "cvt.rn.bf16.s32 %rs0, %r1;", false}, {"8.3", "sm_80", "cvt.f32.bf16 %f1, %rs0;", true},
	} {
		text := strings.NewReplacer(".version 8.3", ".version "+c.version, ".target sm_90", ".target "+c.target).Replace(kernelText(c.body))
		_, err := compileText(t, text)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.target) {
			t.Errorf("%s, %s, %s: %v", c.version, c.target, c.body, err)
		}
	}
}

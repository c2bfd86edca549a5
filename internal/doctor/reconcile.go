//go:build linux

package doctor

import "slices"

// reconcile takes back what looked like a cause and was none: what worked, works.
// A finding that foretold a failure stays as a warning that costs nothing. And
// the kernels of the peer probe have answered whether PTX compiles.
func reconcile(findings []Finding) {
	for _, proof := range []struct {
		id, said string
		over     []string
	}{
		{"gpu.driver", "CUDA starts all the same", []string{"gpu.nodes", "gpu.kernel-driver"}},
		{askPeers, "memory is shared between the GPUs all the same", []string{"gpu.mig"}},
		{askMulticast, "multicast works all the same", []string{"gpu.fabric", "gpu.cuda-version", "gpu.mig"}},
	} {
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == proof.id && f.Outcome == Yes }) {
			continue
		}
		for i := range findings {
			if f := &findings[i]; slices.Contains(proof.over, f.ID) && f.Severity == Failed {
				f.Severity, f.Cost = Warning, nil
				f.Evidence = append(slices.Clone(f.Evidence), Evidence{proof.said, "the finding " + proof.id})
			}
		}
	}
	if slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == askPeers && f.Outcome == Yes }) {
		for i := range findings {
			if f := &findings[i]; f.ID == "gpu.ptx-compiler" && f.Outcome == Unknown {
				f.Severity, f.Outcome, f.What, f.Do, f.By = OK, Yes, "the driver compiles PTX", "", ""
				f.Evidence = append(slices.Clone(f.Evidence), Evidence{"kernels were compiled and ran", "the finding " + askPeers})
			}
		}
	}
}

//go:build linux

package doctor

import (
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// The modes that the doctor judges. Those of the configuration map onto them:
// the kinds of p2p need the same as p2p.
var (
	nvlsModes = []string{configs.ModeZeroCopy, configs.ModeCopyIn}
	peerModes = []string{configs.ModeRing, configs.ModeP2P}
	allModes  = slices.Concat(nvlsModes, peerModes)
)

// judged maps a configured mode to the ones of which one must run.
func judged(mode string) []string {
	if mode == configs.ModeAuto {
		return allModes
	}
	return []string{mode}
}

// judgedModes are those that a verdict is given on: the four, and what is wanted
// beside them.
func judgedModes(wanted []string) []string {
	out := slices.Clone(allModes)
	for _, m := range wanted {
		if m != configs.ModeAuto && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// includes says whether a list of modes of a finding speaks of a mode. The kinds of
// p2p need what p2p needs; and what costs all four modes costs every mode, NCCL's
// too, for each run needs a group of ranks that share memory.
func includes(list []string, mode string) bool {
	return slices.Contains(list, mode) || isP2P(mode) && slices.Contains(list, configs.ModeP2P) ||
		!slices.ContainsFunc(allModes, func(m string) bool { return !slices.Contains(list, m) })
}

// isP2P says whether a mode is p2p or one of its kinds.
func isP2P(mode string) bool {
	return mode == configs.ModeP2P || strings.HasPrefix(mode, configs.ModeP2P+"-")
}

// ModeVerdict says whether one mode will run here.
type ModeVerdict struct {
	Mode string  `json:"mode"`
	Runs Outcome `json:"runs"`
	// Because lists the ids of the findings that decide: those that cost the mode,
	// or the probe in which it worked, or those that left it open.
	Because []string `json:"because"`
	Why     string   `json:"why,omitempty"` // the first of them in words; "" with a plain yes
	// Partly is set where a mode runs, but not for all that is asked; Why says what
	// is missing.
	Partly bool `json:"partly,omitempty"`
}

// proof names the probe in which a mode works before it is said to.
func proof(mode string) string {
	switch mode {
	case configs.ModeZeroCopy, configs.ModeCopyIn:
		return askMulticast
	case configs.ModeNCCL, configs.ModeNCCLSymmetric:
		return mode // askNCCL, askNCCLSymmetric
	}
	return askPeers
}

// ncclModes are those of the wanted modes that NCCL runs. They are judged, and
// probed, only then.
func ncclModes(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(m string) bool { return m != configs.ModeNCCL && m != configs.ModeNCCLSymmetric })
}

// judge gives the verdict on every mode. A mode runs when its probe worked and
// nothing costs it; it does not when something does; otherwise it is open.
func judge(findings []Finding, modes []string) []ModeVerdict {
	var out []ModeVerdict
	findings = libraryFirst(findings)
	early := slices.IndexFunc(findings, func(f Finding) bool { return f.ID == "ranks" && f.Outcome == Unknown })
	for _, mode := range modes {
		v := ModeVerdict{Mode: mode, Runs: Unknown}
		asked, proven, open := false, true, ""
		var partly *Finding
		for i, f := range findings {
			if partly == nil && includes(f.Partly, mode) {
				partly = &findings[i]
			}
			if includes(f.Cost, mode) {
				if v.Runs != No {
					v.Why = f.What
				}
				v.Runs = No
				if !slices.Contains(v.Because, f.ID) {
					v.Because = append(v.Because, f.ID)
				}
			}
			if f.ID == proof(mode) {
				// Every rank has to have seen it work.
				asked = true
				if f.Outcome != Yes {
					proven, open = false, f.What
				}
			}
		}
		switch {
		case v.Runs == No:
		case asked && proven:
			v.Runs, v.Because = Yes, []string{proof(mode)}
			if partly != nil {
				v.Partly, v.Why, v.Because = true, partly.What, append(v.Because, partly.ID)
			}
		case open != "":
			v.Because, v.Why = []string{proof(mode)}, open
		case early >= 0:
			v.Because, v.Why = []string{"ranks"}, findings[early].What
		default:
			v.Because, v.Why = []string{proof(mode)}, "the probe that would show it was not made"
		}
		out = append(out, v)
	}
	return out
}

// libraryFirst puts what keeps libcuda from starting before what it would need: a
// run meets the library's failure, and without a library no device node helps. Only
// where libcuda starts and finds no device, the nodes say why.
func libraryFirst(findings []Finding) []Finding {
	needs := func(f Finding) bool { return f.ID == "gpu.nodes" || f.ID == "gpu.kernel-driver" }
	noDevice := func(e Evidence) bool { return codeIn(e.Value) == device.NoDevice }
	first := slices.IndexFunc(findings, needs)
	library := slices.IndexFunc(findings, func(f Finding) bool {
		return f.ID == "gpu.driver" && f.Severity == Failed && !slices.ContainsFunc(f.Evidence, noDevice)
	})
	if first < 0 || library < first {
		return findings
	}
	out := slices.Delete(slices.Clone(findings), library, library+1)
	return slices.Insert(out, first, findings[library])
}

// fails lists the wanted modes that will not run for sure, for all that is asked.
func fails(wanted []string, verdicts []ModeVerdict) []string {
	runs := map[string]bool{}
	for _, v := range verdicts {
		runs[v.Mode] = v.Runs == Yes && !v.Partly
	}
	var out []string
	for _, mode := range wanted {
		if !slices.ContainsFunc(judged(mode), func(m string) bool { return runs[m] }) {
			out = append(out, mode)
		}
	}
	return out
}

// exitCode foretells the code with which a run ends. It walks through the findings
// in their order, which is that of a run: what ends a run comes before what only
// costs one of several modes. What could not be told counts as a mode that is not
// available.
func exitCode(findings []Finding, wanted []string, verdicts []ModeVerdict, fallback bool) failure.Code {
	tried := slices.Clone(wanted) // auto tries them all
	if slices.Contains(wanted, configs.ModeAuto) {
		tried = append(tried, allModes...)
	}
	lost := map[string]bool{}
	wrong := false
	driver := slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == "gpu.driver" })
	for _, f := range findings {
		if driver && (f.ID == "gpu.nodes" || f.ID == "gpu.kernel-driver") {
			continue // they explain; what a run meets is that CUDA does not start
		}
		hit := false
		for _, m := range append(slices.Clone(tried), configs.ModeRing) {
			if includes(f.Cost, m) {
				lost[m] = lost[m] || f.Exit != failure.WrongData
				hit = hit || slices.Contains(tried, m)
			}
		}
		switch {
		case !hit:
			continue
		case f.Exit == failure.WrongData:
			wrong = true // a run comes to that when all is set up
			continue
		}
		// Only a mode that is not available can be refused or replaced.
		if f.Exit != failure.OK && f.Exit != failure.Unavailable {
			return f.Exit
		}
		if !slices.ContainsFunc(wanted, func(m string) bool {
			return slices.ContainsFunc(judged(m), func(m string) bool { return !lost[m] }) || fallback && !lost[configs.ModeRing]
		}) {
			return failure.Unavailable
		}
	}
	if wrong {
		return failure.WrongData
	}
	failing := fails(wanted, verdicts)
	if fallback && len(fails([]string{configs.ModeRing}, verdicts)) == 0 {
		failing = nil
	}
	if len(failing) > 0 {
		return failure.Unavailable
	}
	return failure.OK
}

//go:build linux

package doctor

import (
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
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
	switch {
	case mode == configs.ModeAuto:
		return allModes
	case strings.HasPrefix(mode, configs.ModeP2P):
		return []string{configs.ModeP2P}
	}
	return []string{mode}
}

// ModeVerdict says whether one mode will run here.
type ModeVerdict struct {
	Mode string  `json:"mode"`
	Runs Outcome `json:"runs"`
	// Because lists the ids of the findings that decide: those that cost the mode,
	// or the probe in which it worked, or those that left it open.
	Because []string `json:"because"`
	Why     string   `json:"why,omitempty"` // the first of them in words; "" with yes
}

// proofs are the probes in which a mode works before it is said to.
var proofs = map[string]string{
	configs.ModeZeroCopy: "multicast", configs.ModeCopyIn: "multicast",
	configs.ModeRing: "peers", configs.ModeP2P: "peers",
	configs.ModeNCCL: askNCCL, configs.ModeNCCLSymmetric: askNCCLSymmetric,
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
	for _, mode := range modes {
		v := ModeVerdict{Mode: mode, Runs: Unknown}
		asked, proven, open := false, true, ""
		for _, f := range findings {
			if slices.Contains(f.Cost, mode) {
				if v.Runs != No {
					v.Why = f.What
				}
				v.Runs = No
				if !slices.Contains(v.Because, f.ID) {
					v.Because = append(v.Because, f.ID)
				}
			}
			if f.ID == proofs[mode] {
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
			v.Runs, v.Because = Yes, []string{proofs[mode]}
		case open != "":
			v.Because, v.Why = []string{proofs[mode]}, open
		default:
			v.Because, v.Why = []string{proofs[mode]}, "the probe that would show it was not made"
		}
		out = append(out, v)
	}
	return out
}

// fails lists the wanted modes that will not run for sure.
func fails(wanted []string, verdicts []ModeVerdict) []string {
	runs := map[string]bool{}
	for _, v := range verdicts {
		runs[v.Mode] = v.Runs == Yes
	}
	var out []string
	for _, mode := range wanted {
		if !slices.ContainsFunc(judged(mode), func(m string) bool { return runs[m] }) {
			out = append(out, mode)
		}
	}
	return out
}

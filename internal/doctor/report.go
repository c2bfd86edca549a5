//go:build linux

package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Schema names the JSON format of a report; docs/doctor.md describes it. Fields
// may be added under the same name.
const Schema = "nvls-allreduce/doctor/1"

// Report is what the doctor found, for all ranks.
type Report struct {
	Schema    string    `json:"schema"`
	Version   string    `json:"version"`
	Host      string    `json:"host"`
	Ranks     int       `json:"ranks"`
	Device    string    `json:"device"`
	Simulated bool      `json:"simulated"`
	Verdict   Verdict   `json:"verdict"`
	Findings  []Finding `json:"findings"`
}

// Verdict says what will run here.
type Verdict struct {
	Text     string        `json:"text"`
	Modes    []ModeVerdict `json:"modes"`
	Wanted   []string      `json:"wanted"`
	Fallback bool          `json:"fallback"` // a wanted mode may be replaced by ring
	ExitCode failure.Code  `json:"exit_code"`
}

func (d *doctor) report(findings []Finding) *Report {
	r := &Report{Schema: Schema, Version: d.Version, Ranks: d.size, Device: configs.DeviceCUDA, Simulated: d.simulated(), Findings: findings}
	r.Host, _ = os.Hostname()
	if d.world != nil {
		r.Ranks = d.world.Size()
	}
	if r.Simulated {
		r.Device = configs.DeviceSim
	}
	explainNotOffered(findings)
	v := &r.Verdict
	v.Wanted = d.Config.Modes()
	v.Modes = judge(findings, judgedModes(v.Wanted))
	v.Fallback = d.Config.Run.Fallback == configs.FallbackAllow
	v.ExitCode = exitCode(findings, v.Wanted, v.Modes, v.Fallback)
	v.Text = sentence(v.Modes, r.Simulated)
	return r
}

// explainNotOffered says which of the other findings may be why the driver
// offers no multicast.
func explainNotOffered(findings []Finding) {
	for i := range findings {
		if findings[i].ID != "nvls.not-offered" {
			continue
		}
		value := notOffered(findings)
		looked := slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == "gpu.fabric" })
		switch {
		case value == "" && looked:
			value = "none of gpu.mig, gpu.confidential, gpu.virtual and gpu.fabric shows a cause"
		case value == "":
			value = "MIG, confidential computing, virtualisation and fabric state could not be looked at"
		default:
			value = "see " + value
		}
		findings[i].Evidence = append(slices.Clone(findings[i].Evidence), Evidence{value, "the other findings"})
	}
}

// sentence is the verdict in words: what works, what does not and why, what is
// open and why.
func sentence(modes []ModeVerdict, simulated bool) string {
	const partly Outcome = "partly"
	var parts []string
	group := func(runs Outcome, text func(names string, why string, because []string) string) {
		var order []string
		names := map[string][]string{}
		first := map[string]ModeVerdict{}
		for _, v := range modes {
			if v.Partly && runs != partly || !v.Partly && v.Runs != runs {
				continue
			}
			if names[v.Why] == nil {
				order = append(order, v.Why)
				first[v.Why] = v
			}
			names[v.Why] = append(names[v.Why], v.Mode)
		}
		for _, why := range order {
			parts = append(parts, text(list(names[why]), why, first[why].Because))
		}
	}
	group(Yes, func(names, _ string, _ []string) string { return names + " will work here" })
	group(partly, func(names, why string, because []string) string {
		return fmt.Sprintf("%s will work here, but not for all that is asked: %s [%s]", names, why, because[len(because)-1])
	})
	group(No, func(names, why string, because []string) string {
		return fmt.Sprintf("%s will not work here: %s [%s]", names, why, because[0])
	})
	group(Unknown, func(names, why string, because []string) string {
		return fmt.Sprintf("whether %s will work could not be told: %s [%s]", names, why, because[0])
	})
	s := strings.Join(parts, "; ")
	if simulated {
		s = "SIMULATED, on the software device: " + s
	}
	return s
}

// print writes the report and gives the code to exit with. A report that cannot be
// written is a failure, whatever is in it: whoever asked does not know the answer.
func (d *doctor) print(r *Report) failure.Code {
	text, err := d.render(r)
	if err == nil {
		err = CheckOutput(d.Stdout)
	}
	if err == nil {
		if _, e := d.Stdout.Write(text); e != nil {
			err = unwritten(e)
		}
	}
	if err != nil {
		fmt.Fprintf(d.Stderr, "nvls-allreduce: %v\nnvls-allreduce: verdict: %s\n", err, r.Verdict.Text)
		return failure.CodeOf(err)
	}
	return r.Verdict.ExitCode
}

// render writes the report in the form that was asked for.
func (d *doctor) render(r *Report) ([]byte, error) {
	var b bytes.Buffer
	if !d.JSON {
		err := r.write(&b)
		return b.Bytes(), err
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// write prints the report for people: the verdict, then every finding. What is
// well takes one line.
func (r *Report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict: %s\n", r.Verdict.Text)
	asked := list(r.Verdict.Wanted)
	if r.Verdict.Fallback {
		asked += ", with fallback"
	}
	fmt.Fprintf(&b, "# %s %s on %s, %s, device %s; asked for %s: exit code %d\n", "nvls-allreduce doctor", r.Version, r.Host, count(r.Ranks, "rank"), r.Device, asked, r.Verdict.ExitCode)
	for _, f := range r.Findings {
		ranks := ""
		if r.Ranks > 1 && len(f.Ranks) < r.Ranks {
			ranks = " (" + rankList(f.Ranks) + ")"
		}
		unsure := ""
		if f.Outcome == Unknown && f.Severity != Skipped {
			unsure = "could not tell: "
		}
		fmt.Fprintf(&b, "%-8s %s: %s%s%s\n", f.Severity, f.ID, unsure, f.What, ranks)
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "         %s (%s)\n", strings.Join(strings.Fields(e.Value), " "), e.From)
		}
		if len(f.Cost) > 0 {
			fmt.Fprintf(&b, "         costs: %s\n", list(f.Cost))
		}
		if len(f.Partly) > 0 {
			fmt.Fprintf(&b, "         costs a part of: %s\n", list(f.Partly))
		}
		if f.Do != "" {
			fmt.Fprintf(&b, "         to do (%s): %s\n", f.By, f.Do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

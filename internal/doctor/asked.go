//go:build linux

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/bench"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
)

// beforehand judges what a run would refuse before it opens a device: by the run's
// own code (package bench). goOn is false where the ranks were asked for different
// things, so that they cannot be examined together.
func (d *doctor) beforehand(ctx context.Context) (goOn bool, err error) {
	foresight := bench.Foresee(d.Config, d.world)
	switch err := foresight.CompareConfigs(ctx); {
	case failure.CodeOf(err) == failure.Usage:
		d.add(fromError("asked.alike", "the ranks were given different configurations", err, allModes, "comparing configurations"))
		return false, nil
	case err != nil:
		return false, err
	}
	if err := foresight.TryOutputs(); err != nil {
		d.add(fromError("asked.outputs", "a file of the results cannot be written", err, allModes, "trying to write"))
	}
	d.tuning, err = foresight.ReadTuning(ctx)
	switch {
	case failure.CodeOf(err) == failure.Usage:
		d.add(fromError("asked.tuning", "the tuning file cannot be used", err, allModes, "reading "+d.Config.Run.Tuning))
	case err != nil:
		return false, err
	}
	if err := collective.CheckRanks(d.world.Node().Size()); err != nil {
		d.add(fromError("asked.ranks", "too many ranks", err, allModes, "the ranks that met"))
	}
	return true, nil
}

// asked judges what the flags ask of each mode in a group of so many ranks, and
// whether the tuning file was made for one like it. chosen are the devices of the
// ranks, nil when they have none.
func (d *doctor) asked(chosen []device.Info, ranks int) {
	if d.tuning != nil && len(chosen) > 0 {
		d.add(fits(d.tuning, ranks, chosen[0].Name))
	}
	d.add(refusals(d.Config, judgedModes(d.Config.Modes()), ranks)...)
}

// fits compares a tuning file with the group.
func fits(f *tuning.File, ranks int, name string) Finding {
	const id = "asked.tuning"
	if err := f.Check(ranks, name); err != nil {
		return fromError(id, "the tuning file does not fit", err, allModes, "the tuning file")
	}
	return Finding{ID: id, Severity: OK, Outcome: Yes, What: "the tuning file is for this group", Evidence: evidence(fmt.Sprintf("%d ranks on %s", f.Ranks, f.Device), "the tuning file")}
}

// refusals are the findings on types, operations and sizes: what a mode cannot do on
// any machine. Modes that refuse the same are told in one finding.
func refusals(cfg *configs.Config, modes []string, ranks int) []Finding {
	replaced := cfg.Run.Fallback == configs.FallbackAllow
	var out []Finding
	add := func(id, mode, instead, from string, whole bool, errs []error) {
		if len(errs) == 0 {
			return
		}
		what, do := reasons(errs)
		f := Finding{ID: id, Severity: Failed, Outcome: No, What: what, Evidence: evidence(from, "configuration"), Do: do, By: failure.User}
		switch {
		case replaced:
			f.Severity, f.What, f.Do, f.By = Info, instead+", as fallback allows: "+what, "", ""
		case whole:
			f.Cost = []string{mode}
		default:
			f.Partly = []string{mode}
		}
		same := slices.IndexFunc(out, func(o Finding) bool { return o.ID == id && o.What == f.What && (len(o.Cost) > 0) == (len(f.Cost) > 0) })
		if same < 0 {
			out = append(out, f)
			return
		}
		out[same].Cost, out[same].Partly = append(out[same].Cost, f.Cost...), append(out[same].Partly, f.Partly...)
	}
	for _, r := range bench.Refusals(cfg, modes, ranks) {
		whole := r.Whole
		add("asked.operation", r.Mode, "ring takes its place", fmt.Sprintf("datatype %s, op %s", join(cfg.DTypes()), join(cfg.Ops())), whole, r.Operations)
		add("asked.size", r.Mode, "left out", fmt.Sprintf("sizes from %v to %v, %s", cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes, count(ranks, "rank")), whole, r.Sizes)
	}
	if len(out) == 0 {
		out = append(out, Finding{ID: "asked.operation", Severity: OK, Outcome: Yes, What: "every mode can do what is asked of it",
			Evidence: evidence(fmt.Sprintf("datatype %s, op %s, sizes from %v to %v", join(cfg.DTypes()), join(cfg.Ops()), cfg.Sweep.MinBytes, cfg.Sweep.MaxBytes), "configuration")})
	}
	return out
}

// most is how many refusals are told one by one.
const most = 3

// reasons puts the errors of a mode in a sentence, and gives the first one's remedy.
func reasons(errs []error) (what, do string) {
	var parts []string
	for _, err := range errs[:min(most, len(errs))] {
		f := fromError("", err.Error(), err, nil, "")
		parts = append(parts, f.What)
		if do == "" {
			do = f.Do
		}
	}
	what = strings.Join(parts, "; ")
	if n := len(errs) - most; n > 0 {
		what += fmt.Sprintf("; and %d more", n)
	}
	return what, do
}

func join[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, x := range all {
		words[i] = x.String()
	}
	return strings.Join(words, ",")
}

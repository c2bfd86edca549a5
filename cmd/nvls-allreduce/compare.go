package main

import (
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/compare"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// compareCommand sets two results side by side.
type compareCommand struct {
	Format    string   `enum:"text,brief,markdown,json,benchfmt" default:"text" placeholder:"FORMAT" help:"text, brief (narrow, time ratios), markdown, json; or benchfmt, for benchstat, of one result or two."`
	FailBelow float64  `name:"fail-below" placeholder:"RATIO" takes:"a ratio from 0 up, where 1 is as fast" example:"0.95" help:"Exit with 7 when a row of B has less than this part of A's speed, is wrong, or is missing."`
	Goal      []string `placeholder:"SIZES=PART" help:"Exit with 7 when a row of B takes more than this part of A's time: 64K:16M=0.80 from 64K to 16M, 1G=0.91 at 1G. May be repeated."`
	Modes     string   `placeholder:"A,B" help:"Compare mode A of the first result with mode B of the second; A and B may be the same file. Of several modes of a side, 'nccl|nccl-symmetric,auto', the fastest counts at each size."`
	Types     string   `placeholder:"A,B" help:"Compare data type A of the first result with data type B of the second, at the same bytes."`
	Placement string   `placeholder:"PLACEMENT" help:"Only out-of-place, or only in-place rows."`
	Averages  bool     `help:"Compare the averages of cycles, as nccl-tests takes times, where there are single iterations too."`
	A         string   `arg:"" name:"A" help:"Result that the other is measured by."`
	B         string   `arg:"" name:"B" optional:"" help:"Result that is judged."`
}

// Run writes the comparison, then judges it.
func (c *compareCommand) Run(e *environment, code *failure.Code) error {
	benchfmt := c.Format == "benchfmt"
	switch {
	case c.B == "" && !benchfmt:
		f := failure.New(failure.Usage, "compare needs two results")
		f.Why, f.Do, f.By = "only --format benchfmt takes one", "give A and B", failure.User
		return f
	case !(c.FailBelow >= 0 && c.FailBelow < 1e6):
		f := failure.New(failure.Usage, "--fail-below %g is not possible", c.FailBelow)
		f.Do, f.By = "give a ratio from 0 up, where 1 is as fast; for example --fail-below 0.95", failure.User
		return f
	case benchfmt && (c.FailBelow > 0 || len(c.Goal) > 0 || c.Modes != "" || c.Types != "" || c.Placement != "" || c.Averages):
		return failure.New(failure.Usage, "--format benchfmt takes no other flag: it writes all rows and judges none")
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	a, err := result.ReadFile(c.A)
	if err != nil {
		return err
	}
	results := []compare.Named{{Name: c.A, Run: a}}
	if c.B != "" {
		b, err := result.ReadFile(c.B)
		if err != nil {
			return err
		}
		results = append(results, compare.Named{Name: c.B, Run: b})
	}
	names := compare.Names{A: c.A, B: c.B}
	if benchfmt {
		for _, n := range results {
			if len(n.Run.Rows) == 0 {
				f := failure.New(failure.Usage, "there is nothing to write of %s", n.Name)
				f.Why = "the result has no rows"
				return f
			}
		}
		return written(compare.WriteBenchfmt(e.stdout, results...))
	}
	x, err := compare.Compare(results[0].Run, results[1].Run, o)
	if err != nil {
		return err
	}
	var below []string
	if c.FailBelow > 0 {
		below = x.Below(c.FailBelow)
	}
	missed := x.Missed()
	switch c.Format {
	case "json":
		err = x.WriteJSON(e.stdout, names, c.FailBelow, slices.Concat(below, missed))
	case "markdown":
		err = x.WriteMarkdown(e.stdout, names)
	case "brief":
		err = x.WriteBrief(e.stdout, names)
	default:
		err = x.WriteText(e.stdout, names)
	}
	if err := written(err); err != nil {
		return err
	}
	for _, f := range below {
		fmt.Fprintf(e.stderr, "%s: below %g: %s\n", program, c.FailBelow, f)
		*code = failure.WrongData
	}
	for _, f := range missed {
		fmt.Fprintf(e.stderr, "%s: goal missed: %s\n", program, f)
		*code = failure.WrongData
	}
	return nil
}

// options reads the flags that choose rows and set goals.
func (c *compareCommand) options() (o compare.Options, err error) {
	o.Averages = c.Averages
	if c.Modes != "" {
		if o.ModesA, o.ModesB, err = compare.ParseModes(c.Modes); err != nil {
			return o, err
		}
	}
	if c.Types != "" {
		if o.TypeA, o.TypeB, err = compare.ParseTypes(c.Types); err != nil {
			return o, err
		}
	}
	if c.Placement != "" {
		if o.Placement, err = oneOf("placement", c.Placement, []result.Placement{result.OutOfPlace, result.InPlace}); err != nil {
			return o, err
		}
	}
	for _, text := range c.Goal {
		g, err := compare.ParseGoal(text)
		if err != nil {
			return o, err
		}
		o.Goals = append(o.Goals, g)
	}
	return o, nil
}

func written(err error) error {
	if err != nil {
		return failure.Wrap(failure.Internal, err, "cannot write the comparison")
	}
	return nil
}

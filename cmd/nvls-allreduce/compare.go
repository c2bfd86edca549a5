package main

import (
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/compare"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// compareCommand sets two results side by side.
type compareCommand struct {
	Format    string  `enum:"text,markdown,json,benchfmt" default:"text" placeholder:"FORMAT" help:"text, markdown, json; or benchfmt, for benchstat, of one result or two."`
	FailBelow float64 `name:"fail-below" placeholder:"RATIO" help:"Exit with 7 when a row of B has less than this part of A's speed, is wrong, or is missing."`
	Modes     string  `placeholder:"A,B" help:"Compare mode A of the first result with mode B of the second; A and B may be the same file."`
	A         string  `arg:"" name:"A" help:"Result that the other is measured by."`
	B         string  `arg:"" name:"B" optional:"" help:"Result that is judged."`
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
		return failure.New(failure.Usage, "--fail-below %g is not possible", c.FailBelow)
	case benchfmt && c.FailBelow > 0:
		return failure.New(failure.Usage, "--fail-below and --format benchfmt exclude each other")
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
	if c.Modes != "" {
		a, b, ok := strings.Cut(c.Modes, ",")
		if !ok || benchfmt {
			return failure.New(failure.Usage, "--modes %q is not possible: give two modes and two results", c.Modes)
		}
		for i, mode := range []string{a, b} {
			if results[i].Run, err = results[i].Run.Only(mode); err != nil {
				return err
			}
		}
		names = compare.Names{A: c.A + " " + a, B: c.B + " " + b}
	}
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
	x, err := compare.Compare(results[0].Run, results[1].Run)
	if err != nil {
		return err
	}
	var failures []string
	if c.FailBelow > 0 {
		failures = x.Below(c.FailBelow)
	}
	switch c.Format {
	case "json":
		err = x.WriteJSON(e.stdout, names, c.FailBelow, failures)
	case "markdown":
		err = x.WriteMarkdown(e.stdout, names)
	default:
		err = x.WriteText(e.stdout, names)
	}
	if err := written(err); err != nil {
		return err
	}
	if len(failures) > 0 {
		for _, f := range failures {
			fmt.Fprintf(e.stderr, "%s: below %g: %s\n", program, c.FailBelow, f)
		}
		*code = failure.WrongData
	}
	return nil
}

func written(err error) error {
	if err != nil {
		return failure.Wrap(failure.Internal, err, "cannot write the comparison")
	}
	return nil
}

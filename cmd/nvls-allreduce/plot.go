package main

import (
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// plotCommand draws results that are files.
type plotCommand struct {
	results `embed:""`
	Output  string   `short:"o" required:"" help:"File to write: .png, .svg or .pdf." placeholder:"FILE"`
	Kind    []string `default:"busbw,time" help:"Panels from the top: busbw, time, speedup over a baseline, spread of iterations, link share. [busbw,time]" placeholder:"KIND,..."`
	Theme   string   `default:"light" help:"light, dark, or print: greys that differ in dash and marker. [light]" placeholder:"THEME"`
	Size    string   `help:"Size on paper: 8.5cmx7cm for a column; also mm, in, pt. [9in wide]" placeholder:"WxH"`
	YLim    []string `name:"ylim" help:"Range of the vertical axis: 0:500, or busbw=0:500 of one of several kinds." placeholder:"LO:HI"`
}

// Run draws all or, on any fault, nothing.
func (c *plotCommand) Run(e *environment) error {
	format, err := plots.FormatOf(c.Output)
	if err != nil {
		return err
	}
	if err := c.spare(c.Output); err != nil {
		return err
	}
	runs, o, err := c.read()
	if err != nil {
		return err
	}
	for _, k := range c.Kind {
		kind, err := oneOf("kind of chart", k, plots.Kinds())
		if err != nil {
			return err
		}
		o.Kinds = append(o.Kinds, kind)
	}
	if c.Baseline != "" && !slices.Contains(o.Kinds, plots.SpeedUp) {
		f := failure.New(failure.Usage, "--baseline %q is not possible", c.Baseline)
		f.Why, f.Do, f.By = "no kind of chart here compares with it", "add --kind speedup, or leave it out", failure.User
		return f
	}
	if o.Theme, err = oneOf("theme", c.Theme, plots.Themes()); err != nil {
		return err
	}
	if c.Size != "" {
		if o.Size, err = plots.ParseSize(c.Size); err != nil {
			return err
		}
	}
	if o.Limits, err = plots.ParseLimits(c.YLim, o.Kinds); err != nil {
		return err
	}
	if err := plots.WriteFile(c.Output, runs, o); err != nil {
		return err
	}
	return e.tell("wrote %s (%s)\n", c.Output, format)
}

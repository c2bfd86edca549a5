package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// program is the name in messages.
const program = "nvls-allreduce"

// cli is the command line.
type cli struct {
	Run     runCommand     `cmd:"" default:"withargs" help:"Measure all-reduce (the default command)."`
	Import  importCommand  `cmd:"" help:"Make a result of logs of other programs: nccl-tests, MSCCL++, OSU, PyTorch."`
	Compare compareCommand `cmd:"" help:"Set two results side by side and tell differences from noise."`
	Config  configCommand  `cmd:"" help:"Print the configuration that the flags make, and where each value is from."`
	Plot    plotCommand    `cmd:"" help:"Draw results: bandwidth, time, speed-up, spread, link share."`
	Doctor  doctorCommand  `cmd:"" help:"Say which modes will work here, and why the others will not."`
	Report  reportCommand  `cmd:"" help:"Write results as a page, HTML and Markdown, with charts, tables and environment."`
	Version versionCommand `cmd:"" help:"Print version, commit and compiler."`

	VersionFlag versionFlag `name:"version" help:"Print version, commit and compiler."`

	DoctorProbe doctorProbeCommand `cmd:"" name:"doctor-probe" hidden:""`
}

// environment is what a command works with.
type environment struct {
	ctx            context.Context
	args           []string
	environ        []string
	stdout, stderr io.Writer
	given          []*kong.Flag // flags on the command line
}

// run executes one command line and gives the exit code. It is all of the
// program but the process.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	var c cli
	helped := false
	stdoutErr := &firstError{w: stdout}
	parser, err := kong.New(&c,
		kong.Name(program),
		kong.Description("All-reduce between the GPUs of a node, with and without NVLink multicast, measured side by side."),
		kong.Writers(stdoutErr, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
		kong.ValueFormatter(explain),
		kong.Vars{
			"presets": strings.Join(configs.Presets(), ", "),
			"modes":   strings.Join(configs.ModeNames(), ", "),
			"dtypes":  join(collective.DTypes()),
			"ops":     join(collective.Ops()),
			"maxNP":   fmt.Sprint(maxNP),
		})
	if err != nil {
		return report(stderr, failure.Wrap(failure.Internal, err, "flags"))
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped && stdoutErr.err == nil:
		return int(failure.OK)
	case stdoutErr.err != nil:
		return report(stderr, unwritable(stdoutErr.err))
	case err != nil:
		return report(stderr, usage(err, parser.Model, args))
	}
	e := &environment{ctx: ctx, args: args, environ: environ, stdout: stdout, stderr: stderr}
	for _, p := range parsed.Path {
		if p.Flag != nil {
			e.given = append(e.given, p.Flag)
		}
	}
	code := failure.OK
	if err := parsed.Run(e, &code); err != nil {
		return report(stderr, err)
	}
	return int(code)
}

// tell prints what a command did. That it cannot is an error, though the command's
// files are written.
func (e *environment) tell(format string, args ...any) error {
	if _, err := fmt.Fprintf(e.stdout, format, args...); err != nil {
		return unwritable(err)
	}
	return nil
}

func unwritable(err error) error {
	return failure.Wrap(failure.Internal, err, "cannot write to standard output")
}

// firstError keeps the first error of a writer.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

// report prints every failure of err on its own line and gives the exit code.
func report(stderr io.Writer, err error) int {
	for _, e := range flatten(err) {
		fmt.Fprintf(stderr, "%s: %v\n", program, e)
	}
	return int(failure.CodeOf(err))
}

// flatten takes errors.Join apart.
func flatten(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range several.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

func join[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = x.String()
	}
	return strings.Join(words, ", ")
}

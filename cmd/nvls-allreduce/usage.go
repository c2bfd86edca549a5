package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// elsewhere answers for flags of nccl-tests that mean nothing here.
var elsewhere = map[string]string{
	"-g": oneRank, "--ngpus": oneRank, "-t": oneRank, "--nthreads": oneRank,
	"-r": "all-reduce has no root", "--root": "all-reduce has no root",
	"-I": perIteration, "--per_iter_timing": perIteration,
	"-R": register, "--local_register": register,
}

const (
	oneRank      = "one rank drives one GPU here: start as many ranks, with mpirun, srun or --np N"
	perIteration = "it is on by default; per_iteration of section [timing] is its switch"
	register     = "the mode says which buffers are registered: nvls-zero-copy or nvls-copy-in"
)

// usage makes the parser's error one of wrong usage, with the nearest valid
// flag or command.
func usage(err error, app *kong.Application, args []string) error {
	f := &failure.Error{Code: failure.Usage, What: err.Error(), Do: "see " + program + " --help", By: failure.User}
	what, _, _ := strings.Cut(err.Error(), ", did you mean")
	kind, name, _ := strings.Cut(what, " flag ")
	if flag, _, ends := strings.Cut(what, ": expected "); ends && strings.Contains(what, "<EOL>") {
		f.What = flag + " needs a value"
	}
	if kind == "unknown" {
		f.What = "unknown flag " + name
		f.Why = aboutFlag(name, flagNames(commandOf(app.Node, args)), args)
	} else if name, ok := strings.CutPrefix(what, "unexpected argument "); ok {
		f.What = what
		f.Why = fmt.Sprintf("the nearest command is %q", collective.Nearest(name, commandNames(app.Node)))
	}
	return f
}

func aboutFlag(name string, valid, args []string) string {
	if why := elsewhere[name]; why != "" {
		return why
	}
	// -minbytes is read as letters, -m first.
	for _, a := range args {
		long, _, _ := strings.Cut("-"+a, "=")
		if strings.HasPrefix(a, name) && !strings.HasPrefix(a, "--") && slices.Contains(valid, long) {
			return fmt.Sprintf("long flags have two dashes: %s", long)
		}
	}
	near := collective.Nearest(name, valid)
	if len(name) == 2 && !strings.EqualFold(near, name) {
		short := slices.DeleteFunc(valid, func(s string) bool { return len(s) != 2 })
		return "the flags of one letter are " + strings.Join(short, " ")
	}
	return "the nearest is " + near
}

// commandOf is the command that the arguments name, or the default one.
func commandOf(app *kong.Node, args []string) *kong.Node {
	for _, c := range app.Children {
		if len(args) > 0 && c.Name == args[0] {
			return c
		}
	}
	for _, c := range app.Children {
		if c == app.DefaultCmd {
			return c
		}
	}
	return app
}

// flagNames lists every spelling of every flag.
func flagNames(n *kong.Node) []string {
	var out []string
	for _, f := range n.Flags {
		out = append(out, "--"+f.Name)
		if f.Short != 0 {
			out = append(out, "-"+string(f.Short))
		}
		for _, a := range f.Aliases {
			out = append(out, "--"+a)
		}
	}
	for _, c := range n.Children {
		for _, name := range flagNames(c) {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func commandNames(n *kong.Node) []string {
	var out []string
	for _, c := range n.Children {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
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

// usage makes the parser's error one of wrong usage: what is wrong, what is valid,
// and an example, or the nearest valid flag or command.
func usage(err error, app *kong.Application, args []string) error {
	command := commandOf(app.Node, args)
	f := &failure.Error{Code: failure.Usage, What: err.Error(), Do: "see " + program + " --help", By: failure.User}
	if command != app.DefaultCmd && command != app.Node {
		f.Do = "see " + program + " " + command.Name + " --help"
	}
	what, _, _ := strings.Cut(err.Error(), ", did you mean")
	kind, name, _ := strings.Cut(what, " flag ")
	name, problem, _ := strings.Cut(name, ": ")
	switch flag, fault, _ := strings.Cut(what, ": "); {
	case kind == "unknown" && problem == "":
		f.What = "unknown flag " + name
		f.Why = aboutFlag(name, flagNames(command), args)
	case strings.HasPrefix(what, "unexpected argument "):
		name := strings.TrimPrefix(what, "unexpected argument ")
		f.What = fmt.Sprintf("unexpected argument %q", name)
		if f.Why = fmt.Sprintf("%s takes no more arguments", command.Name); command == app.DefaultCmd || command == app.Node {
			f.Why = fmt.Sprintf("the nearest command is %q", collective.Nearest(name, commandNames(app.Node)))
		}
	case strings.HasPrefix(what, "missing flags: "):
		f.What = strings.TrimPrefix(what, "missing flags: ") + " is missing"
	case strings.HasPrefix(what, `expected "<`):
		name, _, _ := strings.Cut(strings.TrimPrefix(what, `expected "<`), ">")
		f.What = fmt.Sprintf("%s needs an argument: <%s>", command.Name, name)
	case oneOfForm.MatchString(what):
		m := oneOfForm.FindStringSubmatch(what)
		badValue(f, flagNamed(command, m[1]), m[3])
		f.Do = "give one of " + strings.ReplaceAll(strings.ReplaceAll(m[2], `"`, ""), ",", ", ")
	default:
		if x := flagNamed(command, flag); x != nil {
			badFlag(f, x, fault)
		}
	}
	return f
}

// The parser's forms of an error about a value.
var (
	oneOfForm = regexp.MustCompile(`^(--\S+) must be one of (\S+) but got "(.*)"$`)
	gotForm   = regexp.MustCompile(`(?s) but got (".*?[^\\]"|"")(?: \((.*?)\))?`)
)

// badFlag explains a fault of a flag's value in the parser's words.
func badFlag(f *failure.Error, flag *kong.Flag, fault string) {
	words, example := takes(flag)
	m := gotForm.FindStringSubmatch(fault)
	if strings.Contains(fault, "<EOL>") || strings.HasPrefix(fault, "missing value") {
		f.What = spelling(flag) + " needs a value"
		f.Do = give(flag, words, example)
		return
	}
	if m == nil {
		f.What = spelling(flag) + ": " + fault
		return
	}
	got, err := strconv.Unquote(m[1])
	if err != nil {
		got = m[1]
	}
	badValue(f, flag, got)
	isFlag := m[2] == "short flag" || m[2] == "long flag"
	switch _, number := strconv.ParseFloat(got, 64); {
	case flag.IsBool():
		f.Do = fmt.Sprintf("give it without a value, or as --%s=false", flag.Name)
	case isFlag && (words == "" || number != nil):
		f.What = spelling(flag) + " needs a value"
		f.Why = fmt.Sprintf("%q after it reads as a flag", got)
		f.Do = fmt.Sprintf("give the value after the flag, or as --%s=%s if that is it", flag.Name, got)
	default:
		f.Do = give(flag, words, example)
	}
}

func badValue(f *failure.Error, flag *kong.Flag, got string) {
	f.What = fmt.Sprintf("%s %s is not possible", spelling(flag), word(got))
}

// word is a value as it stands on a command line, in quotes where it is not one
// word.
func word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' }) {
		return strconv.Quote(s)
	}
	return s
}

// give says what a flag takes.
func give(flag *kong.Flag, words, example string) string {
	if words == "" {
		return fmt.Sprintf("give it as --%s %s", flag.Name, flag.PlaceHolder)
	}
	return fmt.Sprintf("give %s; for example --%s %s", words, flag.Name, example)
}

// takes says what values a flag has, in words and by an example: by its tags, or
// by its key.
func takes(flag *kong.Flag) (words, example string) {
	if flag.Name == "np" {
		return npTakes, "4"
	}
	if words = flag.Tag.Get("takes"); words != "" {
		return words, flag.Tag.Get("example")
	}
	return configs.Takes(flag.Tag.Get("key"))
}

// flagNamed finds a flag of a command by its long form, nil for none.
func flagNamed(command *kong.Node, name string) *kong.Flag {
	for _, f := range command.Flags {
		if "--"+f.Name == name {
			return f
		}
	}
	return nil
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

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// results are the flags of commands that show results.
type results struct {
	Results  []string `arg:"" name:"result" help:"Results as JSON, of run -J or of import."`
	Title    string   `help:"Heading." placeholder:"TEXT"`
	Label    []string `sep:"none" help:"Call a result so in the legend; may be repeated." placeholder:"FILE=NAME"`
	Baseline string   `help:"What speed-up compares with: a name of the legend, a file, or a mode. [nccl, else ring, else the first line]" placeholder:"NAME"`
}

// read reads every file, telling all faults at once, and makes what the flags
// say of a chart.
func (c *results) read() ([]*result.Run, plots.Options, error) {
	o := plots.Options{Title: c.Title, Baseline: c.Baseline, Names: make([]string, len(c.Results))}
	var errs []error
	var runs []*result.Run
	for _, path := range c.Results {
		r, err := result.ReadFile(path)
		runs, errs = append(runs, r), append(errs, err)
	}
	o.Files = shortNames(c.Results)
	for _, l := range c.Label {
		errs = append(errs, c.label(l, o.Names))
	}
	return runs, o, errors.Join(errs...)
}

// spare refuses an output that is one of the results, under whatever name.
func (c *results) spare(output string) error {
	for _, path := range c.Results {
		if userfile.Same(path, output) {
			f := failure.New(failure.Usage, "--output %s is the result %s", output, path)
			f.Why, f.Do, f.By = "it would be replaced", "give another name", failure.User
			return f
		}
	}
	return nil
}

// shortNames are the ends of paths, without the suffix, as long as it takes to
// tell them apart: results/17/result.json and results/18/result.json are
// 17/result and 18/result.
func shortNames(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		rest, base := filepath.Split(filepath.Clean(path))
		names[i] = strings.TrimSuffix(base, filepath.Ext(base))
		for clash(paths, i, names[i]) && strings.Trim(rest, "/") != "" {
			var folder string
			rest, folder = filepath.Split(strings.TrimRight(rest, "/"))
			names[i] = folder + "/" + names[i]
		}
	}
	return names
}

// clash reports whether another path ends in name too.
func clash(paths []string, i int, name string) bool {
	for j, path := range paths {
		path = filepath.Clean(path)
		end := strings.TrimSuffix(path, filepath.Ext(path))
		if j != i && path != filepath.Clean(paths[i]) && (end == name || strings.HasSuffix(end, "/"+name)) {
			return true
		}
	}
	return false
}

// label stores the name of FILE=NAME at the places of the file. A file name may
// have an equals sign, so the longest one that was given counts.
func (c *results) label(s string, names []string) error {
	file := ""
	for _, path := range c.Results {
		if strings.HasPrefix(s, path+"=") && len(path) > len(file) {
			file = path
		}
	}
	name := strings.TrimPrefix(s, file+"=")
	if file == "" || name == "" {
		given, _, _ := strings.Cut(s, "=")
		f := &failure.Error{Code: failure.Usage, What: fmt.Sprintf("--label %q is not possible", s),
			Do: "write FILE=NAME with one of the results and a name for the legend", By: failure.User}
		if !slices.Contains(c.Results, given) && given != "" {
			f.Why = fmt.Sprintf("%q is none of the results; the nearest is %q", given, collective.Nearest(given, c.Results))
		}
		return f
	}
	for i, path := range c.Results {
		if path == file {
			names[i] = name
		}
	}
	return nil
}

// oneOf finds a name among valid ones.
func oneOf[T ~string](kind, name string, valid []T) (T, error) {
	if slices.Contains(valid, T(name)) {
		return T(name), nil
	}
	words := make([]string, len(valid))
	for i, v := range valid {
		words[i] = string(v)
	}
	err := &collective.UnknownNameError{Kind: kind, Name: name, Nearest: collective.Nearest(name, words), Valid: words}
	return "", &failure.Error{Code: failure.Usage, What: err.Error(), By: failure.User}
}

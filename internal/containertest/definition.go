//go:build linux

package containertest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Definition is one stage of a Singularity definition file.
type Definition struct {
	Header   map[string]string // "Bootstrap", "From", "Stage"
	Sections map[string]string // text by what follows the per cent sign
}

var (
	bootstrap = regexp.MustCompile(`(?mi)^bootstrap:`)
	argument  = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
)

// sectionNames are all that Apptainer and Singularity know; they refuse others.
var sectionNames = []string{"help", "setup", "files", "labels", "environment", "pre", "post", "runscript", "test", "startscript", "arguments"}

// ReadDefinition reads a file with build arguments as Apptainer does: a stage
// begins at each "Bootstrap:", each stage has the defaults of its own
// %arguments, and an argument without a value is an error.
func ReadDefinition(path string, arguments map[string]string) ([]Definition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	at := bootstrap.FindAllIndex(text, -1)
	var stages []Definition
	for i, begin := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		stage := string(text[begin[0]:end])
		raw, err := parse(stage)
		if err != nil {
			return nil, fmt.Errorf("%s, stage %d: %w", path, i, err)
		}
		values := defaults(raw.Sections["arguments"])
		for k, v := range arguments {
			values[k] = v
		}
		stage, err = substitute(stage, values)
		if err != nil {
			return nil, fmt.Errorf("%s, stage %d: %w", path, i, err)
		}
		d, err := parse(stage)
		if err != nil {
			return nil, fmt.Errorf("%s, stage %d: %w", path, i, err)
		}
		stages = append(stages, d)
	}
	if len(stages) == 0 {
		return nil, fmt.Errorf("%s has no stage", path)
	}
	return stages, nil
}

// parse takes one stage apart.
func parse(stage string) (Definition, error) {
	d := Definition{Header: map[string]string{}, Sections: map[string]string{}}
	section := ""
	for line := range strings.Lines(stage) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "%"):
			section = strings.TrimPrefix(trimmed, "%")
			name, _, _ := strings.Cut(section, " ")
			if !slices.Contains(sectionNames, name) {
				return d, fmt.Errorf("no such section: %%%s", name)
			}
			d.Sections[section] += ""
		case section != "":
			d.Sections[section] += line
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		default:
			key, value, ok := strings.Cut(trimmed, ":")
			if !ok {
				return d, fmt.Errorf("header line %q has no value", trimmed)
			}
			d.Header[key] = strings.TrimSpace(value)
		}
	}
	return d, nil
}

// defaults reads an %arguments section.
func defaults(section string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if k, v, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			values[k] = v
		}
	}
	return values
}

// substitute puts values in the place of {{ NAME }}, but for comments.
func substitute(text string, values map[string]string) (string, error) {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			for _, m := range argument.FindAllStringSubmatch(line, -1) {
				value, ok := values[m[1]]
				if !ok {
					return "", fmt.Errorf("build argument %s has no value", m[1])
				}
				line = strings.ReplaceAll(line, m[0], value)
			}
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

// Files lists source and destination of a %files section.
func (d Definition) Files(section string) [][2]string {
	var files [][2]string
	for line := range strings.Lines(d.Sections[section]) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			files = append(files, [2]string{f[0], f[len(f)-1]})
		}
	}
	return files
}

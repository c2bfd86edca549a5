package configs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// maxFile bounds what is read from a configuration file, for a mistyped path
// may name a device or a checkpoint.
const maxFile = 1 << 20

// Load gives the defaults with a preset or a file laid over them. A name with
// a slash or ending in .toml is a file, the names in Presets are presets, and
// any other name is a file. "" is the defaults. Values are checked only by
// Validate, after flags.
func Load(nameOrPath string) (*Config, error) {
	isFile := strings.Contains(nameOrPath, "/") || strings.HasSuffix(nameOrPath, ".toml")
	if nameOrPath == "" {
		return Default(), nil
	}
	if !isFile && slices.Contains(Presets(), nameOrPath) {
		return Preset(nameOrPath)
	}
	text, err := userfile.Read(nameOrPath, maxFile)
	if err != nil {
		f := failure.Wrap(failure.Usage, err, "cannot read the configuration %q", nameOrPath)
		f.By = failure.User
		if errors.Is(err, os.ErrNotExist) {
			f.Do = "give a file, or a preset: " + strings.Join(Presets(), ", ")
			if !isFile {
				f.What = fmt.Sprintf("no preset and no file is named %q", nameOrPath)
				f.Why, f.Err = fmt.Sprintf("the nearest preset is %q", collective.Nearest(nameOrPath, Presets())), nil
			}
		}
		return nil, f
	}
	if err := userfile.CheckTOML(string(text)); err != nil {
		f := failure.Wrap(failure.Usage, err, "cannot read the configuration %q", nameOrPath)
		f.By = failure.User
		return nil, f
	}
	layer, err := parse(string(text), nameOrPath)
	if err != nil {
		return nil, err
	}
	c := Default()
	c.file = nameOrPath
	return c, c.Apply(layer)
}

// parse reads TOML into the settings of a layer, in the order of the text.
// The error names the first line that is wrong.
func parse(text, name string) ([]Setting, error) {
	var doc map[string]toml.Primitive
	md, err := toml.Decode(text, &doc)
	if err != nil {
		return nil, syntaxError(err, name)
	}
	type located struct {
		Setting
		line int
	}
	var found []located
	add := func(key toml.Key, v any, line int) {
		found = append(found, located{Setting{key.String(), v, place(name, line)}, line})
	}
	for section, p := range doc {
		table, line := read(&md, p)
		body := map[string]toml.Primitive{}
		_, isTable := table.(map[string]any)
		switch known := slices.Contains(sections(), section); {
		case isTable:
			if err := md.PrimitiveDecode(p, &body); err != nil {
				return nil, syntaxError(err, name)
			}
			if len(body) == 0 && !known {
				add(toml.Key{section}, table, line)
			}
		case known:
			return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("%s must be a section, not %s", section, describe(table)),
				Where: place(name, line), Do: fmt.Sprintf("write [%s] on a line of its own, then its keys", section), By: failure.User}
		default:
			add(toml.Key{section}, table, line)
		}
		for k, p := range body {
			v, line := read(&md, p)
			add(toml.Key{section, k}, v, line)
		}
	}
	slices.SortFunc(found, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Key, b.Key))
	})
	layer := make([]Setting, len(found))
	for i, f := range found {
		layer[i] = f.Setting
	}
	return layer, nil
}

// place names a line of a file. Line 0 is unknown: a table that a dotted key
// implies has none.
func place(name string, line int) string {
	if line == 0 {
		return name
	}
	return fmt.Sprintf("%s line %d", name, line)
}

// read gives a value and its line. The library tells a position only with an
// error, so reading ends in one on purpose.
func read(md *toml.MetaData, p toml.Primitive) (v any, line int) {
	err := md.PrimitiveDecode(p, reader(func(x any) error {
		v = x
		return errors.New("read")
	}))
	var pos toml.ParseError
	if errors.As(err, &pos) {
		line = pos.Position.Line
	}
	return v, line
}

type reader func(any) error

// UnmarshalTOML takes any value.
func (r reader) UnmarshalTOML(v any) error { return r(v) }

func syntaxError(err error, name string) error {
	f := &failure.Error{Code: failure.Usage, What: "not valid TOML", Where: name, By: failure.User, Err: err}
	var p toml.ParseError
	if errors.As(err, &p) {
		f.Where = fmt.Sprintf("%s line %d column %d", name, p.Position.Line, p.Position.Col)
		f.Why, f.Err = p.Message, nil
	}
	return f
}

package configs

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// key is one key of the configuration, found from the tags of Config.
type key struct {
	section, name string
	index         []int // of the field, from Config
	vote          bool  // must be equal on all ranks
}

func (k key) String() string { return k.section + "." + k.name }

func (k key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// keys lists every key in the order of the fields of Config.
var keys = func() []key {
	var out []key
	for _, s := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if !s.IsExported() {
			continue
		}
		for _, f := range reflect.VisibleFields(s.Type) {
			out = append(out, key{s.Tag.Get("toml"), f.Tag.Get("toml"),
				[]int{s.Index[0], f.Index[0]}, f.Tag.Get("vote") != "no"})
		}
	}
	return out
}()

func findKey(name string) (key, bool) {
	for _, k := range keys {
		if k.String() == name {
			return k, true
		}
	}
	return key{}, false
}

// Keys lists the names of all keys: "run.mode", …
func Keys() []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.String()
	}
	return out
}

// Get gives the value of key as it is written in TOML, and "" for no such key.
func (c *Config) Get(name string) string {
	k, ok := findKey(name)
	if !ok {
		return ""
	}
	return literal(k.field(c).Interface())
}

func (c *Config) set(s Setting) error {
	k, ok := findKey(s.Key)
	if !ok {
		return unknownKey(s.Key, s.Origin)
	}
	if err := assign(k.field(c), s.Value); err != nil {
		return &failure.Error{Code: failure.Usage, What: s.Key + ": " + err.Error(), Where: s.Origin, By: failure.User}
	}
	if c.origins == nil {
		c.origins = map[string]string{}
	}
	c.origins[s.Key] = s.Origin
	return nil
}

// unknownKey names the nearest valid key, or the section that has a key of
// that name.
func unknownKey(name, origin string) error {
	e := &failure.Error{Code: failure.Usage, What: fmt.Sprintf("unknown key %q", name), Where: origin, By: failure.User}
	section, bare, dotted := strings.Cut(name, ".")
	if !dotted {
		section, bare = "", name
	}
	var siblings, words []string
	for _, k := range keys {
		if k.name == bare {
			e.Do = fmt.Sprintf("move %s to section [%s]", bare, k.section)
			return e
		}
		if k.section == section {
			siblings = append(siblings, k.name)
		}
		words = append(words, k.name, k.section)
	}
	switch {
	case siblings != nil:
		e.Why = fmt.Sprintf("the nearest is %q", section+"."+collective.Nearest(bare, siblings))
		e.Do = fmt.Sprintf("use a key of [%s]: %s", section, strings.Join(siblings, ", "))
	case dotted:
		e.Why = fmt.Sprintf("the nearest is %q", collective.Nearest(name, Keys()))
		e.Do = "use a section of these: " + strings.Join(sections(), ", ")
	default:
		near := collective.Nearest(name, words)
		for _, k := range keys {
			if k.name == near {
				near = k.String()
			}
		}
		e.Why = fmt.Sprintf("the nearest is %q", near)
		e.Do = "write keys in a section of these: " + strings.Join(sections(), ", ")
	}
	return e
}

// sections lists the names of the sections in the order of Config.
func sections() []string {
	var out []string
	for _, k := range keys {
		if !slices.Contains(out, k.section) {
			out = append(out, k.section)
		}
	}
	return out
}

// assign stores v, of a TOML type or the field's own, in a field. Its error
// says in words what the field takes and what it was given.
func assign(field reflect.Value, v any) error {
	want := ""
	switch p := field.Addr().Interface().(type) {
	case *string:
		if s, ok := v.(string); ok {
			*p = s
			return nil
		}
		want = "a text"
	case *bool:
		if b, ok := v.(bool); ok {
			*p = b
			return nil
		}
		want = "true or false"
	case *int:
		switch n := v.(type) {
		case int:
			*p = n
			return nil
		case int64:
			if n < math.MinInt32 || n > math.MaxInt32 {
				return fmt.Errorf("%d is out of range", n)
			}
			*p = int(n)
			return nil
		}
		want = "a whole number"
	case *float64:
		switch n := v.(type) {
		case float64:
			*p = n
			return nil
		case int64:
			*p = float64(n)
			return nil
		}
		want = "a number"
	case *Size:
		switch n := v.(type) {
		case Size:
			*p = n
			return nil
		case int64:
			return p.UnmarshalText(fmt.Append(nil, n))
		case string:
			return p.UnmarshalText([]byte(n))
		}
		want = `a size, as "32M" or a number of bytes`
	case *time.Duration:
		switch d := v.(type) {
		case time.Duration:
			*p = d
			return nil
		case string:
			parsed, err := time.ParseDuration(d)
			if err != nil {
				return fmt.Errorf(`not a duration: %q; write a number with its unit: "30s", "2m"`, d)
			}
			*p = parsed
			return nil
		}
		want = `a duration in quotes, as "30s"`
	case *[]string:
		switch l := v.(type) {
		case string:
			*p = splitNames(l)
			return nil
		case []any:
			names := make([]string, 0, len(l))
			for _, x := range l {
				s, ok := x.(string)
				if !ok {
					return fmt.Errorf("must be a name or a list of names, but the list has %s", describe(x))
				}
				names = append(names, strings.TrimSpace(s))
			}
			*p = names
			return nil
		}
		want = "a name or a list of names"
	default:
		panic(fmt.Sprintf("configs: no rule for fields of type %s", field.Type()))
	}
	return fmt.Errorf("must be %s, not %s", want, describe(v))
}

// describe says in words what a TOML value is.
func describe(v any) string {
	switch x := v.(type) {
	case string:
		return fmt.Sprintf("the text %q", x)
	case int64:
		return fmt.Sprintf("the whole number %d", x)
	case float64:
		return fmt.Sprintf("the number %v", x)
	case bool:
		return fmt.Sprint(x)
	case time.Time:
		return "a date"
	case []any:
		return "a list"
	case []map[string]any:
		return "a list of tables"
	}
	return "a table"
}

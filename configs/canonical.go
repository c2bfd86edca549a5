package configs

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Canonical writes all that must be equal on all ranks as sorted lines
// "key = value". Files that only rank 0 writes, and paths that may differ
// between hosts, are left out.
func (c *Config) Canonical() string {
	var lines []string
	for _, k := range keys {
		if k.vote {
			lines = append(lines, fmt.Sprintf("%s = %s\n", k, literal(k.field(c).Interface())))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Hash is the SHA-256 of Canonical. Ranks compare it before they begin.
func (c *Config) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(c.Canonical())) }

// Difference is a key whose value differs between two ranks.
type Difference struct {
	Key  string
	A, B string // as written in TOML; empty where the key is missing
}

func (d Difference) String() string { return fmt.Sprintf("%s is %s and %s", d.Key, d.A, d.B) }

// Diff compares two results of Canonical, by key.
func Diff(a, b string) []Difference {
	left, right := values(a), values(b)
	var out []Difference
	for k, v := range left {
		if right[k] != v {
			out = append(out, Difference{k, v, right[k]})
		}
	}
	for k, v := range right {
		if _, ok := left[k]; !ok {
			out = append(out, Difference{k, "", v})
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(x.Key, y.Key) })
	return out
}

func values(canonical string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(canonical) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = "); ok {
			out[k] = v
		}
	}
	return out
}

// TOML writes the whole configuration with the comments of default.toml, and
// behind each value that is not a default where it came from. Load reads it
// back as an equal configuration.
func (c *Config) TOML() string {
	template, err := presets.ReadFile(defaultPreset + ".toml")
	if err != nil {
		panic(err) // embedded
	}
	var b strings.Builder
	section, defaults := "", Default()
	for line := range strings.Lines(string(template)) {
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]\n")
		}
		name, _, _ := strings.Cut(line, " = ")
		k, ok := findKey(section + "." + name)
		if !ok {
			b.WriteString(line)
			continue
		}
		if v := c.Get(k.String()); v == defaults.Get(k.String()) {
			b.WriteString(strings.TrimSuffix(line, "\n"))
		} else {
			fmt.Fprintf(&b, "%s = %s", name, v)
		}
		if from := c.Origin(k.String()); from != defaults.Origin(k.String()) && from != "" {
			fmt.Fprintf(&b, " # %q", from)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// literal writes a value in TOML. A list of one name is written as the name.
func literal(v any) string {
	if l, ok := v.([]string); ok {
		switch {
		case len(l) == 0:
			return "[]"
		case len(l) == 1 && !strings.Contains(l[0], ","):
			v = l[0]
		}
	}
	text, err := toml.Marshal(map[string]any{"v": v})
	if err != nil {
		panic(fmt.Sprintf("configs: cannot write %T as TOML: %v", v, err)) // no such field type
	}
	return strings.TrimSpace(strings.TrimPrefix(string(text), "v = "))
}

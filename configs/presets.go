package configs

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// presets holds default.toml, which has every key, and the files that differ
// from it by name.
//
//go:embed *.toml
var presets embed.FS

const defaultPreset = "default"

// Presets lists the names of the embedded configurations, sorted.
func Presets() []string {
	entries, err := presets.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".toml")
	}
	slices.Sort(names)
	return names
}

// Default gives the defaults: default.toml.
func Default() *Config {
	c := new(Config)
	layer, err := presetLayer(defaultPreset)
	if err == nil {
		err = c.Apply(layer)
	}
	if err != nil {
		panic(fmt.Sprintf("configs: embedded default.toml: %v", err)) // tested
	}
	return c
}

// Preset gives the defaults with the preset of that name laid over them.
func Preset(name string) (*Config, error) {
	if !slices.Contains(Presets(), name) {
		err := &collective.UnknownNameError{Kind: "preset", Name: name, Nearest: collective.Nearest(name, Presets()), Valid: Presets()}
		return nil, &failure.Error{Code: failure.Usage, What: err.Error(), By: failure.User}
	}
	c := Default()
	if name == defaultPreset {
		return c, nil
	}
	layer, err := presetLayer(name)
	if err != nil {
		return nil, err
	}
	return c, c.Apply(layer)
}

func presetLayer(name string) ([]Setting, error) {
	text, err := presets.ReadFile(name + ".toml")
	if err != nil {
		return nil, err
	}
	return parse(string(text), name+".toml")
}

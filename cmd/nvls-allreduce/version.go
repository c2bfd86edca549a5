package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

type versionCommand struct{}

// Run prints what the linker recorded.
func (versionCommand) Run(e *environment) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return failure.New(failure.Internal, "this binary carries no build information")
	}
	if err := writeVersion(e.stdout, info); err != nil {
		return failure.Wrap(failure.Internal, err, "cannot write the version")
	}
	return nil
}

// versionFlag is --version, which many programs have and users try first. Like
// --help it ends the program before other flags are looked at.
type versionFlag bool

// BeforeReset is called by the parser.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return failure.New(failure.Internal, "this binary carries no build information")
	}
	// An error of the writer is kept by it.
	if err := writeVersion(app.Stdout, info); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

// writeVersion prints one fact a line. What the build did not record is
// "unknown", as in a build without version control.
func writeVersion(w io.Writer, info *debug.BuildInfo) error {
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	get := func(key string) string {
		if v := recorded[key]; v != "" {
			return v
		}
		return "unknown"
	}
	commit := get("vcs.revision")
	if recorded["vcs.modified"] == "true" {
		commit += " with uncommitted changes"
	}
	_, err := fmt.Fprintf(w, "%s %s\ncommit: %s\ncommit time: %s\ngo: %s %s/%s\n",
		program, info.Main.Version, commit, get("vcs.time"), info.GoVersion, runtime.GOOS, runtime.GOARCH)
	return err
}

// moduleVersion is the version that results carry.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// Package tuning is what mode auto learned on a host: the fastest mode and launch
// geometry by size, as a TOML file that can be saved and given back.
//
// Rules:
//
//   - Every line comes from a measurement on the host named in the file.
//   - A file is for one number of ranks and one kind of GPU; others are refused.
package tuning

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// Schema names the format.
const Schema = "nvls-allreduce-tuning/1"

// File is a tuning result.
type File struct {
	Schema  string    `toml:"schema"`
	Ranks   int       `toml:"ranks"`
	Device  string    `toml:"device"` // name of every rank's GPU
	Driver  string    `toml:"driver"`
	Host    string    `toml:"host"`
	Time    time.Time `toml:"time"`
	Version string    `toml:"version"` // of the program
	Graph   bool      `toml:"graph"`   // whether times are of calls in CUDA graphs
	Choices []Choice  `toml:"choice"`  // ascending by MaxBytes within a type and operation
}

// Choice is the fastest way for messages up to MaxBytes, and above the largest
// MaxBytes too.
type Choice struct {
	DataType string  `toml:"datatype"`
	Op       string  `toml:"op"`
	MaxBytes uint64  `toml:"max_bytes"`
	Mode     string  `toml:"mode"`
	Blocks   uint32  `toml:"blocks"`         // 0: automatic
	Threads  uint32  `toml:"threads"`        // 0: automatic
	Chunk    uint64  `toml:"chunk,omitzero"` // bytes of a copy of p2p-copy-engine; 0: automatic
	Slots    uint32  `toml:"slots,omitzero"` // 0: automatic
	TimeUS   float64 `toml:"time_us"`        // measured at MaxBytes; 0 where none was
}

// Add records the fastest way at a size.
func (f *File) Add(c Choice) { f.Choices = append(f.Choices, c) }

// Lookup finds the choice for a message: of its type and operation, or where the
// file has none of those, of the first type and operation in the file: the best
// way depends on bytes far more than on their type. ok is false for an empty file.
func (f *File) Lookup(datatype, op string, bytes uint64) (c Choice, ok bool) {
	if len(f.Choices) == 0 {
		return Choice{}, false
	}
	of := func(c Choice) bool { return c.DataType == datatype && c.Op == op }
	if !slices.ContainsFunc(f.Choices, of) {
		datatype, op = f.Choices[0].DataType, f.Choices[0].Op
	}
	for _, x := range f.Choices {
		if !of(x) || ok && c.MaxBytes >= bytes {
			continue
		}
		c, ok = x, true
	}
	return c, ok
}

// Check refuses a file that was made for another world.
func (f *File) Check(ranks int, device string) error {
	if f.Ranks == ranks && f.Device == device {
		return nil
	}
	return &failure.Error{Code: failure.Usage, What: "the tuning file does not fit",
		Why: fmt.Sprintf("it is for %d ranks on %s, this run has %d ranks on %s", f.Ranks, f.Device, ranks, device),
		Do:  "make one here: --mode auto --save-tuning FILE", By: failure.User}
}

// Parse reads a file's text. name is for errors.
func Parse(name, text string) (*File, error) {
	if err := userfile.CheckTOML(text); err != nil {
		return nil, bad(name, err.Error())
	}
	var f File
	md, err := toml.Decode(text, &f)
	var syntax toml.ParseError
	switch {
	case errors.As(err, &syntax):
		return nil, bad(name, fmt.Sprintf("line %d: %s", syntax.Position.Line, syntax.Message))
	case err != nil:
		return nil, bad(name, err.Error())
	case f.Schema != Schema:
		return nil, bad(name, fmt.Sprintf("its schema is %q, not %q", f.Schema, Schema))
	case len(md.Undecoded()) > 0:
		return nil, bad(name, fmt.Sprintf("unknown key %s", md.Undecoded()[0]))
	case len(f.Choices) == 0:
		return nil, bad(name, "it has no choices")
	}
	for i, c := range f.Choices {
		if err := c.check(); err != nil {
			return nil, bad(name, fmt.Sprintf("choice %d: %v", i+1, err))
		}
	}
	slices.SortStableFunc(f.Choices, func(a, b Choice) int {
		return int(min(max(int64(a.MaxBytes)-int64(b.MaxBytes), -1), 1))
	})
	return &f, nil
}

// check refuses what no run can have measured. Modes are looked up later: a file
// may name one that this host has not.
func (c Choice) check() error {
	if _, err := collective.ParseDType(c.DataType); err != nil {
		return err
	}
	if _, err := collective.ParseOp(c.Op); err != nil {
		return err
	}
	switch {
	case c.MaxBytes > math.MaxInt64:
		return fmt.Errorf("max_bytes = %d", int64(c.MaxBytes))
	case !modeName.MatchString(c.Mode):
		return fmt.Errorf("mode = %q", c.Mode)
	case c.Blocks > kernels.MaxBlocks:
		return fmt.Errorf("blocks = %d, at most %d are possible", c.Blocks, kernels.MaxBlocks)
	case c.Threads > kernels.MaxThreads || c.Threads%32 != 0:
		return fmt.Errorf("threads = %d, give a multiple of 32 up to %d", c.Threads, kernels.MaxThreads)
	case c.Chunk > math.MaxInt64:
		return fmt.Errorf("chunk = %d", int64(c.Chunk))
	case c.Slots > maxSlots:
		return fmt.Errorf("slots = %d, at most %d are possible", c.Slots, maxSlots)
	case !(c.TimeUS >= 0) || math.IsInf(c.TimeUS, 0):
		return fmt.Errorf("time_us = %g", c.TimeUS)
	}
	return nil
}

var modeName = regexp.MustCompile(`^[a-z0-9-]+$`)

func bad(name, why string) error {
	return &failure.Error{Code: failure.Usage, What: "cannot use the tuning file " + name, Why: why, Do: "make one with --mode auto --save-tuning FILE", By: failure.User}
}

// Read returns the text of a file, for Parse.
func Read(path string) (string, error) {
	b, err := userfile.Read(path, maxFile)
	if err != nil {
		return "", bad(path, err.Error())
	}
	return string(b), nil
}

// maxSlots is what p2p-copy-engine has events for.
const maxSlots = 8

// maxFile is far more than a line for each size, type and operation takes.
const maxFile = 4 << 20

// WriteFile writes f to path, replacing the file whole.
func WriteFile(path string, f *File) error {
	return result.Replace(path, func(w io.Writer) error {
		fmt.Fprintf(w, "# What mode auto measured as fastest, by size. Give it back with --tuning.\n")
		return toml.NewEncoder(w).Encode(f)
	})
}

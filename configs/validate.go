package configs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// Bounds of values. They are far outside what is useful, and keep a mistyped
// number from reaching a device.
const (
	maxCount   = 1_000_000                        // iterations, graph launches, cycles, checks
	maxBlocks  = 256                              // more than any GPU has multiprocessors
	maxThreads = 512                              // what the kernels are compiled for (kernels.MaxThreads)
	warp       = 32                               // threads
	minStaging = Size(collective.MinScratchBytes) // a few chunks of each of 8 ranks
	maxStaging = Size(8 << 30)
	maxDevices = 16 // software devices
	maxTimeout = 24 * time.Hour
)

// Validate checks every value before any device is touched. It reports all
// that is wrong, each as a usage failure that names the key, its value, where
// that came from, and what is valid.
func (c *Config) Validate() error {
	v := &validator{c: c}
	v.names("run.mode", c.Run.Mode, "mode", ModeNames())
	v.names("run.datatype", c.Run.DataType, "data type", names(collective.DTypes()))
	v.names("run.op", c.Run.Op, "operation", names(collective.Ops()))
	for _, k := range keys {
		if valid, ok := choices[k.String()]; ok {
			v.name(k.String(), k.field(c).String(), k.name, valid)
		}
	}
	v.sweep()
	v.counts()
	v.timeout("timing.timeout", c.Timing.Timeout)
	v.timeout("bootstrap.timeout", c.Bootstrap.Timeout)
	if s := c.NVLS.Staging; s < minStaging || s > maxStaging {
		v.wants("nvls.staging")
	}
	if s := c.NVLS.Scratch; s < minStaging || s > maxStaging {
		v.wants("nvls.scratch")
	}
	if t := c.NVLS.Threads; t < 0 || t > maxThreads || t%warp != 0 {
		v.wants("nvls.threads")
	}
	if d := c.Bootstrap.SocketDir; d != "" && !isDir(d) {
		v.fail("bootstrap.socket_dir", "name an existing folder, or \"\" for abstract sockets")
	}
	if l := c.Bootstrap.MPILibrary; strings.Contains(l, "/") && !exists(l) {
		v.fail("bootstrap.mpi_library", "name an existing library file, a bare name as \"libmpi.so.40\", or \"\" to search")
	}
	if l := c.NCCL.Library; strings.Contains(l, "/") && !exists(l) {
		v.fail("nccl.library", "name an existing library file, a bare name as \"libnccl.so.2\", or \"\" to search")
	}
	v.file("output.json", c.Output.JSON, ".json")
	v.file("output.csv", c.Output.CSV, ".csv")
	v.file("output.tuning", c.Output.Tuning, ".toml")
	if t := c.Output.Tuning; t != "" && !slices.Contains(c.Modes(), ModeAuto) {
		v.fail("output.tuning", "add mode auto, whose choices it saves")
	}
	if c.Output.Tuning != "" && c.Run.Tuning != "" {
		v.fail("output.tuning", "leave it or run.tuning out: what follows a tuning file learns nothing to save")
	}
	if t := c.Run.Tuning; t != "" && !slices.Contains(c.Modes(), ModeAuto) {
		v.fail("run.tuning", "add mode auto, which follows it; no other mode does")
	}
	v.file("output.plot", c.Output.Plot, ".png", ".svg", ".pdf")
	v.folder("output.report", c.Output.Report)
	v.oneFileEach()
	if b := c.Output.MinBusBW; !(b >= 0) || math.IsInf(b, 0) {
		v.wants("output.min_busbw")
	}
	v.faults()
	return errors.Join(v.errs...)
}

type validator struct {
	c    *Config
	errs []error
}

// fail reports the value of key.
func (v *validator) fail(key, do string) {
	v.add(key, fmt.Sprintf("%s = %s is not possible", key, v.c.Get(key)), do)
}

// wants reports the value of key, and what it takes instead.
func (v *validator) wants(key string) {
	words, _ := Takes(key)
	v.fail(key, "give "+words)
}

func (v *validator) add(key, what, do string) {
	v.errs = append(v.errs, &failure.Error{Code: failure.Usage, What: what, Where: v.c.Origin(key), Do: do, By: failure.User})
}

func (v *validator) name(key, name, kind string, valid []string) {
	if !slices.Contains(valid, name) {
		v.add(key, key+": "+(&collective.UnknownNameError{Kind: kind, Name: name, Nearest: collective.Nearest(name, valid), Valid: valid}).Error(), "")
	}
}

// names checks a list: at least one name, each once, "all" alone.
func (v *validator) names(key string, list []string, kind string, valid []string) {
	if isAll(list) {
		return
	}
	if len(list) == 0 {
		v.fail(key, fmt.Sprintf("name at least one %s: %s, or %s", kind, strings.Join(valid, ", "), All))
	}
	for i, n := range list {
		switch {
		case n == All:
			v.fail(key, "\"all\" stands alone; leave out the other names")
		case slices.Contains(list[:i], n):
			v.fail(key, fmt.Sprintf("name %s once", n))
		default:
			v.name(key, n, kind, append(slices.Clone(valid), All))
		}
	}
}

// counts checks the whole numbers that have bounds.
func (v *validator) counts() {
	for _, k := range keys {
		if b, ok := bounds[k.String()]; ok {
			if n := int(k.field(v.c).Int()); n < b.low || n > b.high {
				v.wants(k.String())
			}
		}
	}
}

func (v *validator) timeout(key string, d time.Duration) {
	if d <= 0 || d > maxTimeout {
		v.wants(key)
	}
}

func (v *validator) sweep() {
	s := v.c.Sweep
	for key, size := range map[string]Size{"sweep.min_bytes": s.MinBytes, "sweep.max_bytes": s.MaxBytes, "sweep.step_bytes": s.StepBytes} {
		if size > MaxSize {
			v.fail(key, fmt.Sprintf("give at most %v", MaxSize))
			return
		}
	}
	if s.MinBytes > s.MaxBytes {
		v.add("sweep.min_bytes", fmt.Sprintf("sweep.min_bytes = %v is above sweep.max_bytes = %v", s.MinBytes, s.MaxBytes),
			fmt.Sprintf("raise sweep.max_bytes (%s) or lower sweep.min_bytes", v.c.Origin("sweep.max_bytes")))
		return
	}
	if !(s.Factor >= 0) || math.IsInf(s.Factor, 0) {
		v.fail("sweep.factor", "give a number above 1, as 2; or 1 with sweep.step_bytes")
		return
	}
	if s.Factor <= 1 && s.StepBytes == 0 && s.MinBytes < s.MaxBytes {
		v.fail("sweep.factor", "give a number above 1, or set sweep.step_bytes: the sweep would not leave its first size")
		return
	}
	rows := 0
	for range s.steps(1) {
		if rows++; rows > maxRows {
			v.add("sweep.step_bytes", fmt.Sprintf("the sweep from %v to %v has more than %d sizes", s.MinBytes, s.MaxBytes, maxRows),
				"raise sweep.step_bytes or sweep.factor")
			return
		}
	}
	for _, d := range v.c.DTypes() {
		if len(v.c.Sizes(d.Size())) == 0 {
			v.add("sweep.max_bytes", fmt.Sprintf("the sweep from %v to %v has no size of a whole %v element", s.MinBytes, s.MaxBytes, d),
				fmt.Sprintf("raise sweep.max_bytes to %d or more", d.Size()))
		}
	}
}

// file checks the suffix and the folder of an output file.
func (v *validator) file(key, path string, suffixes ...string) {
	if path == "" {
		return
	}
	if !slices.Contains(suffixes, strings.ToLower(filepath.Ext(path))) {
		v.fail(key, "name a file that ends in "+strings.Join(suffixes, ", "))
		return
	}
	switch dir := filepath.Dir(path); {
	case !isDir(dir):
		v.fail(key, fmt.Sprintf("make the folder %s first, or name another", dir))
	case isDir(path):
		v.fail(key, "name a file; this is a folder")
	}
}

// oneFileEach refuses outputs that would replace each other, or the file that was
// read, under whatever names.
func (v *validator) oneFileEach() {
	o := v.c.Output
	type named struct{ key, path string }
	outputs := []named{{"output.json", o.JSON}, {"output.csv", o.CSV}, {"output.tuning", o.Tuning}, {"output.plot", o.Plot}}
	if o.Report != "" {
		for _, page := range []string{"report.html", "report.md"} {
			outputs = append(outputs, named{"output.report", filepath.Join(o.Report, page)})
		}
	}
	if o.Report != "" && strings.EqualFold(filepath.Ext(o.Plot), ".png") && userfile.Same(filepath.Dir(o.Plot), o.Report) {
		v.fail("output.plot", "name a file in another folder: the report's own charts go to this one")
	}
	for i, b := range outputs {
		if b.path == "" {
			continue
		}
		if f := v.c.file; f != "" && userfile.Same(f, b.path) {
			v.fail(b.key, fmt.Sprintf("name another file: this one is the configuration %s, which would be replaced", f))
		}
		if f := v.c.Run.Tuning; f != "" && userfile.Same(f, b.path) {
			v.fail(b.key, fmt.Sprintf("name another file: this one is the tuning file %s, which would be replaced", f))
		}
		for _, a := range outputs[:i] {
			if a.path != "" && a.key != b.key && userfile.Same(a.path, b.path) {
				v.fail(b.key, fmt.Sprintf("name another file: this one is that of %s too (%s), and one would replace the other", a.key, a.path))
			}
		}
	}
}

// folder checks that a folder is there or can be made in one that is.
func (v *validator) folder(key, path string) {
	parent := filepath.Dir(filepath.Clean(path))
	switch {
	case path == "" || isDir(path):
	case exists(path):
		v.fail(key, "name a folder; this is a file")
	case !isDir(parent):
		v.fail(key, fmt.Sprintf("make the folder %s first, or name another", parent))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func names[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = x.String()
	}
	return out
}

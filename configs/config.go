// Package configs is the typed configuration of a run: what to reduce, in
// which modes, over which sizes, and how to measure it.
//
// A configuration is made of layers: the defaults, then one preset or file,
// then flags. Every key, its default and its meaning are written once, in
// default.toml, from which the defaults are also read. Nothing is guessed:
// an unknown key, a wrong type and a value out of range are usage errors that
// name the key, the place it came from, and what is valid.
//
// The package is pure apart from reading the named file and looking whether
// folders of output files exist; it never touches a device.
package configs

import (
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// Config is the configuration of one run. The tags are the names of sections
// and keys in TOML; vote:"no" marks what may differ between ranks.
type Config struct {
	Run       Run       `toml:"run"`
	Sweep     Sweep     `toml:"sweep"`
	Timing    Timing    `toml:"timing"`
	NVLS      NVLS      `toml:"nvls"`
	NCCL      NCCL      `toml:"nccl"`
	Bootstrap Bootstrap `toml:"bootstrap"`
	Output    Output    `toml:"output"`
	Sim       Sim       `toml:"sim"`

	origins map[string]string // by key: where its value came from
	file    string            // that Load read; "" for none
}

// Run says what to reduce, how, and where. The lists are as written; Modes,
// DTypes and Ops expand "all".
type Run struct {
	Mode     []string `toml:"mode"`
	Fallback string   `toml:"fallback"` // FallbackNever or FallbackAllow
	Device   string   `toml:"device"`   // DeviceAuto, DeviceCUDA or DeviceSim
	DataType []string `toml:"datatype"`
	Op       []string `toml:"op"`
	ShareGPU bool     `toml:"share_gpu"`
	Tuning   string   `toml:"tuning" vote:"no"` // file that mode auto follows; "": measure. Rank 0 reads it
}

// Sweep is the series of message sizes: MinBytes, then multiplied by Factor
// when that is above 1, else increased by StepBytes, up to MaxBytes.
type Sweep struct {
	MinBytes  Size    `toml:"min_bytes"`
	MaxBytes  Size    `toml:"max_bytes"`
	StepBytes Size    `toml:"step_bytes"` // 0: off
	Factor    float64 `toml:"factor"`     // 1: off
}

// Timing says how each size is measured and verified.
type Timing struct {
	Warmup       int           `toml:"warmup"`
	Iters        int           `toml:"iters"`
	Graph        int           `toml:"graph"` // 0: none; n: Iters captured once, launched n times
	PerIteration bool          `toml:"per_iteration"`
	Average      string        `toml:"average"` // AverageMean, AverageMin, AverageMax or AverageRank0
	Cycles       int           `toml:"cycles"`  // 0: until stopped
	Check        int           `toml:"check"`   // 0: off
	Timeout      time.Duration `toml:"timeout"` // of each wait for the device
}

// NVLS configures multicast and the launch of its kernels.
type NVLS struct {
	Multicast string `toml:"multicast"` // MulticastAuto or MulticastOff
	Staging   Size   `toml:"staging"`
	Scratch   Size   `toml:"scratch"`
	Blocks    int    `toml:"blocks"`  // 0: automatic
	Threads   int    `toml:"threads"` // 0: automatic
}

// NCCL says where the library is that modes nccl and nccl-symmetric measure.
type NCCL struct {
	Library string `toml:"library" vote:"no"` // "": search
}

// Bootstrap says how ranks find each other.
type Bootstrap struct {
	Launcher   string        `toml:"launcher"`
	MPILibrary string        `toml:"mpi_library" vote:"no"` // "": search
	SocketDir  string        `toml:"socket_dir" vote:"no"`  // "": abstract sockets
	Timeout    time.Duration `toml:"timeout"`               // of each wait for other ranks
}

// Output names what rank 0 writes; "" is off. MinBusBW is in GB/s (10^9).
type Output struct {
	JSON     string  `toml:"json" vote:"no"`
	CSV      string  `toml:"csv" vote:"no"`
	Plot     string  `toml:"plot" vote:"no"`
	Report   string  `toml:"report" vote:"no"` // a folder
	Tuning   string  `toml:"tuning"`           // takes part in the vote: it makes mode auto search longer
	MinBusBW float64 `toml:"min_busbw"`
}

// Sim configures the software device.
type Sim struct {
	Devices int  `toml:"devices"` // 0: one a local rank
	Weak    bool `toml:"weak"`    // the weak memory model
	Seed    int  `toml:"seed"`    // of that model; one that is not 0 turns it on
	// Faults are injected by tests; see Fault for how one is written.
	Faults []string `toml:"faults"`
}

// WeakMemory reports whether the software device has the weak memory model.
func (s Sim) WeakMemory() bool { return s.Weak || s.Seed != 0 }

// Setting is one value of a layer. Value has a type that TOML decodes to
// (string, int64, float64, bool, []any), or the field's own.
type Setting struct {
	Key    string // "sweep.min_bytes"
	Value  any
	Origin string // "run.toml line 3", "flag --minbytes"
}

// Apply lays one layer over c. It checks keys and types; Validate checks
// values. As nccl-tests has either a step or a factor, a layer that sets only
// one of the two switches the other off.
func (c *Config) Apply(layer []Setting) error {
	origin := map[string]string{}
	for _, s := range layer {
		if err := c.set(s); err != nil {
			return err
		}
		origin[s.Key] = s.Origin
	}
	step, hasStep := origin["sweep.step_bytes"]
	factor, hasFactor := origin["sweep.factor"]
	switch {
	case hasStep && !hasFactor && c.Sweep.StepBytes > 0:
		c.Sweep.Factor = 1
		c.origins["sweep.factor"] = step + " (a step is set)"
	case hasFactor && !hasStep && c.Sweep.Factor > 1:
		c.Sweep.StepBytes = 0
		c.origins["sweep.step_bytes"] = factor + " (a factor is set)"
	}
	return nil
}

// Origin says where the value of key came from: "default.toml line 12",
// "flag --minbytes". It is empty for values set in Go.
func (c *Config) Origin(key string) string { return c.origins[key] }

// Modes gives the modes to run, "all" expanded.
func (c *Config) Modes() []string {
	if isAll(c.Run.Mode) {
		return []string{ModeZeroCopy, ModeCopyIn, ModeRing, ModeP2P}
	}
	return c.Run.Mode
}

// DTypes gives the data types to run, "all" expanded. The configuration must
// be valid.
func (c *Config) DTypes() []collective.DType {
	return expand(c.Run.DataType, collective.DTypes(), collective.ParseDType)
}

// Ops gives the operations to run, "all" expanded. The configuration must be
// valid.
func (c *Config) Ops() []collective.Op {
	return expand(c.Run.Op, collective.Ops(), collective.ParseOp)
}

func isAll(names []string) bool { return len(names) == 1 && names[0] == All }

func expand[T any](names []string, all []T, parse func(string) (T, error)) []T {
	if isAll(names) {
		return all
	}
	out := make([]T, 0, len(names))
	for _, n := range names {
		if v, err := parse(n); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// splitNames reads "a, b" as two names.
func splitNames(s string) []string {
	names := strings.Split(s, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
)

// flags are the flags that make a configuration. The tag key names the key that
// a flag overrides; its default is read from there. Multi-word names come with
// dashes and with underscores.
type flags struct {
	Config string `help:"TOML file, or a preset: ${presets}." placeholder:"FILE|PRESET" group:"What to run"`
	Mode   string `key:"run.mode" help:"One or several of ${modes}; or all." placeholder:"MODE,..." group:"What to run"`
	NP     *int   `name:"np" help:"Start so many ranks on this node, without MPI (1 to ${maxNP})." placeholder:"N" group:"What to run"`

	DataType string `short:"d" name:"datatype" key:"run.datatype" help:"One or several of ${dtypes}; or all." placeholder:"TYPE,..." group:"What to run"`
	Op       string `short:"o" name:"op" key:"run.op" help:"One or several of ${ops}; or all." placeholder:"OP,..." group:"What to run"`
	Fallback string `key:"run.fallback" help:"Whether a mode that cannot run may be replaced: never or allow." placeholder:"never|allow" group:"What to run"`
	Device   string `key:"run.device" help:"auto is cuda; sim is the software device, for function and not for numbers." placeholder:"auto|cuda|sim" group:"What to run"`
	ShareGPU bool   `name:"share-gpu" aliases:"share_gpu" key:"run.share_gpu" help:"Let several ranks use one GPU, time-sliced; for function only." group:"What to run"`
	SimSeed  int    `name:"sim-seed" aliases:"sim_seed" key:"sim.seed" help:"Weak memory model of the software device, behaving as this seed says; 0 is off." placeholder:"N" group:"What to run"`

	Tuning     string  `key:"run.tuning" help:"Let mode auto follow this tuning file instead of measuring." placeholder:"FILE" group:"What to run"`
	MinBytes   string  `short:"b" name:"minbytes" key:"sweep.min_bytes" help:"First size." placeholder:"SIZE" group:"Sizes (K, M and G are binary)"`
	MaxBytes   string  `short:"e" name:"maxbytes" key:"sweep.max_bytes" help:"Last size." placeholder:"SIZE" group:"Sizes (K, M and G are binary)"`
	StepBytes  string  `short:"i" name:"stepbytes" key:"sweep.step_bytes" help:"Add to get the next size." placeholder:"SIZE" group:"Sizes (K, M and G are binary)"`
	StepFactor float64 `short:"f" name:"stepfactor" key:"sweep.factor" help:"Multiply to get the next size." placeholder:"X" group:"Sizes (K, M and G are binary)"`

	Iters       int     `short:"n" name:"iters" key:"timing.iters" help:"Timed runs of each size." placeholder:"N" group:"Measurement"`
	WarmupIters int     `short:"w" name:"warmup_iters" aliases:"warmup-iters" key:"timing.warmup" help:"Runs before the first measurement." placeholder:"N" group:"Measurement"`
	Check       int     `short:"c" name:"check" key:"timing.check" help:"Verified runs of each size; 0 is off." placeholder:"N" group:"Measurement"`
	CUDAGraph   int     `short:"G" name:"cudagraph" key:"timing.graph" help:"Capture the runs in a CUDA graph and launch it N times." placeholder:"N" group:"Measurement"`
	Average     average `short:"a" name:"average" key:"timing.average" help:"Time that is reported: rank0 (0), mean (1), min (2) or max (3) over ranks." placeholder:"HOW" takes:"rank0 (0), mean (1), min (2) or max (3)" example:"max" group:"Measurement"`
	RunCycles   int     `short:"N" name:"run_cycles" aliases:"run-cycles" key:"timing.cycles" help:"Repeat the sweep N times; 0 until stopped." placeholder:"N" group:"Measurement"`
	Timeout     seconds `short:"T" name:"timeout" key:"timing.timeout" help:"Longest wait for the device, in seconds or as 2m; 0 keeps the configured one." placeholder:"SECONDS" takes:"a number of seconds or a duration as 2m, up to 24h" example:"90" group:"Measurement"`

	Multicast string `key:"nvls.multicast" help:"off forbids every multicast call on this node." placeholder:"auto|off" group:"NVLS and bootstrap"`
	Staging   string `key:"nvls.staging" help:"Staging buffer of the copy-in modes." placeholder:"SIZE" group:"NVLS and bootstrap"`
	Scratch   string `key:"nvls.scratch" help:"Scratch memory of ring, push and copy engines." placeholder:"SIZE" group:"NVLS and bootstrap"`
	Blocks    int    `key:"nvls.blocks" help:"Blocks of a kernel, up to 256; 0 is automatic. Of more than run at once on every GPU fewer run, and a line says so." placeholder:"N" group:"NVLS and bootstrap"`
	Threads   int    `key:"nvls.threads" help:"Threads of a block, a multiple of 32 up to 512; 0 is automatic." placeholder:"N" group:"NVLS and bootstrap"`

	Launcher   string `key:"bootstrap.launcher" help:"How ranks were started: auto, openmpi, mpich, slurm, local or none." placeholder:"NAME" group:"NVLS and bootstrap"`
	MPILibrary string `name:"mpi-library" aliases:"mpi_library" key:"bootstrap.mpi_library" help:"File or name of the MPI library." placeholder:"FILE" group:"NVLS and bootstrap"`
	SocketDir  string `name:"socket-dir" aliases:"socket_dir" key:"bootstrap.socket_dir" help:"Folder for sockets instead of abstract ones." placeholder:"DIR" group:"NVLS and bootstrap"`

	NCCLLibrary string `name:"nccl-library" aliases:"nccl_library" key:"nccl.library" help:"File or name of libnccl.so.2." placeholder:"FILE" group:"NVLS and bootstrap"`

	OutputFile string  `short:"J" name:"output_file" aliases:"output-file" key:"output.json" help:"Write results as JSON." placeholder:"FILE.json" group:"Results"`
	CSV        string  `name:"csv" key:"output.csv" help:"Write results as CSV." placeholder:"FILE.csv" group:"Results"`
	Plot       string  `key:"output.plot" help:"Draw a chart: .png, .svg or .pdf." placeholder:"FILE" group:"Results"`
	Report     string  `key:"output.report" help:"Write a report to this folder: HTML, Markdown and charts." placeholder:"DIR" group:"Results"`
	SaveTuning string  `name:"save-tuning" aliases:"save_tuning" key:"output.tuning" help:"Let mode auto search blocks and threads too, and write what is fastest." placeholder:"FILE.toml" group:"Results"`
	MinBusBW   float64 `name:"min-busbw" aliases:"min_busbw" key:"output.min_busbw" help:"Exit with 7 below this bus bandwidth." placeholder:"GB/s" group:"Results"`
}

// config lays the given flags over the file or preset and checks the result.
func (f *flags) config(given []*kong.Flag) (*configs.Config, error) {
	cfg, err := configs.Load(f.Config)
	if err != nil {
		return nil, err
	}
	var layer []configs.Setting
	for _, flag := range given {
		key := flag.Tag.Get("key")
		value := flag.Target.Interface()
		switch v := value.(type) {
		case seconds:
			if v == 0 {
				continue
			}
			value = time.Duration(v)
		case average:
			value = string(v)
		}
		if key != "" {
			layer = append(layer, configs.Setting{Key: key, Value: value, Origin: "flag " + spelling(flag)})
		}
	}
	if err := cfg.Apply(layer); err != nil {
		return nil, err
	}
	return cfg, cfg.Validate()
}

// spelling names a flag as users know it: "-b/--minbytes".
func spelling(f *kong.Flag) string {
	if f.Short != 0 {
		return fmt.Sprintf("-%c/--%s", f.Short, f.Name)
	}
	return "--" + f.Name
}

// average is -a: a name, or the number that nccl-tests has for it.
type average string

var averages = []string{configs.AverageRank0, configs.AverageMean, configs.AverageMin, configs.AverageMax}

// UnmarshalText reads a name or a number; Validate checks names.
func (a *average) UnmarshalText(text []byte) error {
	*a = average(text)
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return nil
	case n < 0 || n >= len(averages):
		return badText(text)
	}
	*a = average(averages[n])
	return nil
}

// seconds is -T: a number of seconds as in nccl-tests, or a duration.
type seconds time.Duration

// UnmarshalText reads "90", "1e3" and "90s".
func (s *seconds) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseFloat(string(text), 64); err == nil {
		// Far from what a duration can hold; Validate knows the bound.
		if !(math.Abs(n) < 1e9) {
			return badText(text)
		}
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return badText(text)
	}
	*s = seconds(d)
	return nil
}

// badText is an error in the parser's form, of which usage makes one with what is
// valid.
func badText(text []byte) error { return fmt.Errorf("a value was expected but got %q", text) }

package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
)

const examples = `
Examples:
  mpirun -np 8 nvls-allreduce --mode nvls-zero-copy,ring -b 8 -e 1G
      two modes side by side, under Open MPI or MPICH
  srun -n 8 nvls-allreduce --config compare-all --csv out.csv --plot out.svg
      every mode, with the chart for the report
  nvls-allreduce --np 4 --device sim --config quick
      all of it without a GPU and without MPI, on the software device
  nvls-allreduce plot out.json --kind busbw --theme print --size 8.5cmx7cm -o busbw.pdf
      one column of a paper, of a result that -J wrote or import made
  nvls-allreduce import all_reduce_perf.log -o nccl.json
      a log of nccl-tests (or MSCCL++, OSU, PyTorch) as a result, for plot and compare
  nvls-allreduce compare before.json after.json --fail-below 0.95
      what is faster, slower or the same within noise; exit 7 when too slow
  nvls-allreduce compare r.json r.json --modes 'nccl|nccl-symmetric,auto' --goal 64K:16M=0.80
      auto against the faster of two at each size, in at most 0.80 of its time
  srun -n 8 nvls-allreduce doctor
      which modes will work here, and exactly why not the others
  nvls-allreduce config --config quick -n 50
      print the configuration that these flags make

Exit codes: 0 ok, 1 internal fault, 2 device call failed, 3 mode cannot run here,
4 timeout, 6 wrong usage, 7 wrong data, below --min-busbw or --fail-below, or a missed --goal,
143 after SIGTERM.
`

// printHelp prints the help of the selected command. Without one that is the
// list of commands and the flags of the default command, which users look for.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() != nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	fmt.Fprintf(ctx.Stdout, "Usage: %s [command] [flags]\n\n%s\n\nCommands:\n", ctx.Model.Name, ctx.Model.Help)
	for _, c := range ctx.Model.Children {
		if c.Hidden {
			continue
		}
		fmt.Fprintf(ctx.Stdout, "  %-8s %s\n", c.Name, c.Help)
	}
	fmt.Fprint(ctx.Stdout, examples)
	selected, err := kong.Trace(ctx.Kong, []string{"run"})
	if err != nil {
		return err
	}
	options.NoAppSummary = true
	return kong.DefaultHelpPrinter(options, selected)
}

// explain adds the key and the default to the help of a flag.
func explain(v *kong.Value) string {
	key := v.Tag.Get("key")
	if key == "" {
		return v.Help
	}
	return fmt.Sprintf("%s [%s = %s]", v.Help, key, strings.ReplaceAll(defaults.Get(key), `"`, ""))
}

var defaults = configs.Default()

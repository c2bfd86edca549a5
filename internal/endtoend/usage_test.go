//go:build linux

package endtoend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUsage: what is wrong with a command line is said before any device is
// touched, with exit code 6 and the nearest valid word.
func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		name   string
		np     int
		flags  string
		config string
		words  []string
	}{
		{"flag", 2, "--itres 5", "", []string{"unknown flag --itres", "the nearest is --iters"}},
		{"key", 2, "", "[sweep]\nmax_byts = 1\n", []string{`unknown key "sweep.max_byts"`, "config.toml line 2", `the nearest is "sweep.max_bytes"`}},
		{"section", 2, "", "[sweeep]\nmax_bytes = 1\n", []string{`unknown key "sweeep.max_bytes"`, "[sweep]"}},
		{"type", 2, "", "[timing]\niters = \"many\"\n", []string{"timing.iters", "config.toml line 2"}},
		{"mode", 2, "--mode rnig", "", []string{`unknown mode "rnig"`, `did you mean "ring"?`, "flag --mode"}},
		{"data type", 2, "-d flaot", "", []string{`unknown data type "flaot"`, `did you mean "float"?`, "bfloat16"}},
		{"operation", 2, "-o summ", "", []string{`unknown operation "summ"`, `did you mean "sum"?`}},
		{"device", 2, "--device gpu", "", []string{`unknown device "gpu"`, "valid: auto, cuda, sim"}},
		{"minimum over maximum", 2, "-b 2K -e 1K", "", []string{"sweep.min_bytes = 2K is above sweep.max_bytes = 1K"}},
		{"factor 1", 2, "-f 1", "", []string{"sweep.factor = 1.0 is not possible"}},
		{"factor below 1", 2, "-f 0.5", "", []string{"sweep.factor = 0.5 is not possible"}},
		{"negative factor", 2, "--stepfactor=-2", "", []string{"sweep.factor = -2.0 is not possible"}},
		{"negative size", 2, "--minbytes=-5", "", []string{"sweep.min_bytes", `"-5"`}},
		{"negative size, short", 2, "-b -5", "", []string{"--minbytes"}},
		{"absurd size", 2, "-e 99999999G", "", []string{"sweep.max_bytes", `"99999999G"`, "largest size"}},
		{"no size", 2, "-e 1X", "", []string{"sweep.max_bytes", `"1X"`}},
		{"no iterations", 2, "-n 0", "", []string{"timing.iters = 0 is not possible"}},
		{"ranks over devices", 4, "", "[sim]\ndevices = 2\n", []string{"--np 4 is more than the 2 software devices", "config.toml line 2", "--share-gpu"}},
		{"ranks", 9, "", "", []string{"--np 9 is not possible", "from 1 to 8"}},
		{"no ranks", 0, "", "", []string{"--np 0 is not possible"}},
		{"missing folder", 2, "-J " + missing + "/a.json", "", []string{"output.json", "make the folder " + missing + " first"}},
		{"missing folder of a chart", 2, "--plot " + missing + "/a.svg", "", []string{"output.plot", "make the folder " + missing + " first"}},
		{"suffix", 2, "--csv results.txt", "", []string{"output.csv", "ends in .csv"}},
		{"several", 2, "-d flaot -o summ", "", []string{`unknown data type "flaot"`, `unknown operation "summ"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			o := job{launcher: local, np: tt.np, flags: tt.flags, config: tt.config, env: []string{"NVLS_ALLREDUCE_SIM_TRACE=" + trace}}.run(t)
			o.want(t, 6, tt.words...)
			if o.stdout != "" {
				t.Errorf("printed before it was known to be possible: %s", o.stdout)
			}
			if calls, err := os.ReadFile(trace); err == nil {
				t.Errorf("a device was touched:\n%s", calls)
			}
			if o.run != nil {
				t.Error("a result was written")
			}
		})
	}
}

// What was asked for in vain, and sizes that are not those asked for, are told.
func TestToldNotSilent(t *testing.T) {
	o := job{launcher: local, np: 2, flags: "--mode ring -b 3 -e 16 --nccl-library libnccl.so.2", config: oneTiming}.run(t)
	o.want(t, 0, "# Sizes of float: 2 of the 3 sizes are rounded down to whole elements of 4 bytes; the sweep begins at 4 bytes and not at 3",
		`# nccl.library = "libnccl.so.2" (flag --nccl-library) has no effect: no mode of NCCL is asked for`)
}

// A file that nobody can read as a configuration.
func TestMissingConfig(t *testing.T) {
	o := command(t, nil, program, "--device", "sim", "--config", "/nonexistent/run.toml")
	o.want(t, 6, "/nonexistent/run.toml")
}

// Ranks that were given different configurations all leave, naming what differs.
func TestDifferentConfigurations(t *testing.T) {
	// Both take several programs, separated by colons; the own launcher has one
	// command line for all ranks.
	for _, l := range []launcher{openMPI, mpich} {
		t.Run(l.name, func(t *testing.T) {
			first := l.command(t, 2, []string{program, "--device", "sim", "-n", "1", "-b", "8", "-e", "8"}).Args
			rest := strings.Fields(": -np 1 " + program + " --device sim -n 2 -b 16 -e 16")
			o := command(t, nil, append(first, rest...)...)
			o.want(t, 6, "ranks 0 and 2 have different configurations", "timing.iters is 1 and 2", `sweep.min_bytes is "8" and "16"`, "give every rank the same flags")
		})
	}
}

// --np where a launcher has made ranks already would start a world in each.
func TestRanksWithinRanks(t *testing.T) {
	o := command(t, nil, openMPI.command(t, 2, []string{program, "--device", "sim", "--np", "2"}).Args...)
	o.want(t, 6, "--np 2 inside a launcher", "OMPI_COMM_WORLD_RANK is set")
}

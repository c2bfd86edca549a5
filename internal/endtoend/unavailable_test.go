//go:build linux

package endtoend

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoCUDA: without a driver nothing is simulated unasked.
func TestNoCUDA(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has NVIDIA's driver")
	}
	for _, device := range []string{"auto", "cuda"} {
		o := command(t, nil, program, "--np", "2", "--device", device, "--mode", "nvls-zero-copy", "-b", "8", "-e", "8")
		o.want(t, 3, "libcuda could not be opened", "--device sim")
		if regexp.MustCompile(`(?m)^ +\d`).MatchString(o.stdout) {
			t.Errorf("--device %s printed rows:\n%s", device, o.stdout)
		}
	}
}

// TestNoNCCL: NCCL is measured on GPUs only.
func TestNoNCCL(t *testing.T) {
	o := job{launcher: local, np: 2, flags: "--mode nccl -b 8 -e 8"}.run(t)
	o.want(t, 3, "NCCL needs real GPUs", "--device cuda")
}

// TestSiteSwitch: on the software device the project's own two switches forbid
// multicast and are named; those of other libraries do not concern it.
func TestSiteSwitch(t *testing.T) {
	for _, tt := range []struct {
		name, flags, config, env string
		off                      string // what is named; "": multicast is allowed
	}{
		{name: "flag", flags: "--multicast off", off: `multicast = "off" in the configuration`},
		{name: "file", config: "[nvls]\nmulticast = \"off\"\n", off: `multicast = "off" in the configuration`},
		{name: "variable", env: "NVLS_ALLREDUCE_MULTICAST=off", off: "NVLS_ALLREDUCE_MULTICAST=off in the environment"},
		{name: "NCCL", env: "NCCL_NVLS_ENABLE=0"},
		{name: "PyTorch", env: "TORCH_SYMM_MEM_DISABLE_MULTICAST=1"},
		{name: "NVSHMEM", env: "NVSHMEM_DISABLE_NVLS=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			o := job{launcher: local, np: 2, flags: "-b 64 -e 64 --mode nvls-zero-copy,nvls-copy-in " + tt.flags, config: tt.config,
				env: []string{tt.env, "NVLS_ALLREDUCE_SIM_TRACE=" + trace}}.run(t)
			calls, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			multicast := strings.Contains(string(calls), "cuMulticast")
			if tt.off == "" {
				o.want(t, 0, "# The software device has multicast: "+tt.env+" in the environment is for hardware")
				if strings.Contains(o.stdout, "Mode sim") || o.run == nil || len(o.run.Notes) != 1 {
					t.Error("the note reads as one about a mode, or is not in the result")
				}
				if !multicast {
					t.Error("NVLS ran without a multicast call")
				}
				return
			}
			o.want(t, 3, "NVLS cannot run", "multicast is switched off at this site: "+tt.off)
			if multicast {
				t.Errorf("multicast calls in spite of the switch:\n%s", calls)
			}
		})
	}
	t.Run("not understood", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "-b 8 -e 8", env: []string{"NVLS_ALLREDUCE_MULTICAST=perhaps"}}.run(t)
		o.want(t, 6, "NVLS_ALLREDUCE_MULTICAST=perhaps in the environment is not understood")
	})
	t.Run("other modes run", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "-b 8 -e 8 --mode ring,p2p --multicast off", config: oneTiming}.run(t)
		o.want(t, 0)
	})
}

// TestSeveralHosts: a world on more than one host is refused by all ranks.
func TestSeveralHosts(t *testing.T) {
	t.Run("mpich", func(t *testing.T) {
		first := mpich.command(t, 2, []string{"-env", "NVLS_ALLREDUCE_HOSTID", "east", program, "--device", "sim"}).Args
		second := strings.Fields(": -np 1 -env NVLS_ALLREDUCE_HOSTID west " + program + " --device sim")
		command(t, nil, append(first, second...)...).want(t, 3, "the 3 ranks are on 2 hosts", "as east: ranks 0 and 1", "as west: rank 2", "one node")
	})
	t.Run("openmpi", func(t *testing.T) {
		first := openMPI.command(t, 1, []string{"-x", "NVLS_ALLREDUCE_HOSTID=east", program, "--device", "sim"}).Args
		second := strings.Fields(": -np 1 -x NVLS_ALLREDUCE_HOSTID=west " + program + " --device sim")
		command(t, nil, append(first, second...)...).want(t, 3, "the 2 ranks are on 2 hosts", "as east: rank 0", "as west: rank 1")
	})
}

// TestSharedGPU: several ranks on one device are refused, or accepted on demand
// and labelled in every output.
func TestSharedGPU(t *testing.T) {
	oneDevice := oneTiming + "[sim]\ndevices = 1\n"
	t.Run("refused", func(t *testing.T) {
		first := openMPI.command(t, 2, []string{program, "--device", "sim", "--config", writeFile(t, "config.toml", oneDevice)}).Args
		command(t, nil, append(first, "--mode", "ring", "-b", "8", "-e", "8")...).want(t, 3, "ranks 0 and 1 are on one GPU", "--share-gpu")
	})
	t.Run("accepted", func(t *testing.T) {
		csv := filepath.Join(t.TempDir(), "out.csv")
		svg := filepath.Join(t.TempDir(), "out.svg")
		o := job{launcher: local, np: 3, config: oneDevice, flags: "--share-gpu --mode ring,p2p,p2p-copy-in -b 8 -e 4K -f 8 --csv " + csv + " --plot " + svg}.run(t)
		o.want(t, 0, "# SHARED GPU: ranks share a GPU", "[SIMULATED, SHARED GPU - NOT A MEASUREMENT]")
		if o.run == nil || !o.run.SharedGPU {
			t.Fatal("the JSON does not say shared_gpu")
		}
		if o.run.Totals().FailedChecks != 0 {
			t.Error("wrong data")
		}
		for i, line := range readCSV(t, csv) {
			if line["shared_gpu"] != "true" || line["simulated"] != "true" {
				t.Errorf("line %d of the CSV: %v", i, line)
			}
		}
		if text := readFile(t, svg); !strings.Contains(text, "SHARED GPU") {
			t.Error("the chart does not say SHARED GPU")
		}
	})
	t.Run("no NVLS", func(t *testing.T) {
		o := job{launcher: local, np: 2, config: oneDevice, flags: "--share-gpu --mode nvls-zero-copy -b 8 -e 8"}.run(t)
		o.want(t, 3, "NVLS cannot run", "several ranks share one GPU")
	})
}

// TestOutOfMemory says how much was asked for which buffer, and how much is free.
func TestOutOfMemory(t *testing.T) {
	o := job{launcher: local, np: 2, flags: "--mode ring -b 16G -e 16G"}.run(t)
	o.want(t, 2, "for send and receive buffers", "are free", "--maxbytes", "# Memory on each device: 2 x 16G send and receive buffers")
	if !regexp.MustCompile(`allocating \d+ bytes for send and receive buffers .*: \d+ of \d+ bytes are free`).MatchString(o.stderr) {
		t.Errorf("no numbers in %s", o.stderr)
	}
	if o.run == nil || o.run.Status.State != "failed" || !strings.Contains(o.run.Status.Reason, "are free") {
		t.Errorf("the result does not say why: %+v", o.run)
	}
	t.Run("staging", func(t *testing.T) {
		o := job{launcher: local, np: 2, flags: "--mode nvls-copy-in --staging 8G -b 4G -e 4G"}.run(t)
		o.want(t, 2, "staging", "are free")
	})
}

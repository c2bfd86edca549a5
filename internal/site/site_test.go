package site

import (
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestMulticastOff(t *testing.T) {
	type env map[string]string
	const config = `multicast = "off" in the configuration`
	for _, tt := range []struct {
		name      string
		config    string
		env       env
		simulated bool
		want      string
	}{
		{name: "nothing set"},
		{name: "config auto", config: "auto"},
		{name: "config off", config: "off", want: config},
		{name: "config off, simulated", config: "off", simulated: true, want: config},
		{name: "config wins", config: "off", env: env{EnvNCCL: "0"}, want: config},
		{name: "config auto overrides nothing", config: "auto", env: env{EnvMulticast: "off"}, want: "NVLS_ALLREDUCE_MULTICAST=off in the environment"},

		{name: "own off", env: env{EnvMulticast: "off"}, want: "NVLS_ALLREDUCE_MULTICAST=off in the environment"},
		{name: "own OFF", env: env{EnvMulticast: "OFF"}, want: "NVLS_ALLREDUCE_MULTICAST=OFF in the environment"},
		{name: "own spaces", env: env{EnvMulticast: " off "}, want: `NVLS_ALLREDUCE_MULTICAST=" off " in the environment`},
		{name: "own 0", env: env{EnvMulticast: "0"}, want: "NVLS_ALLREDUCE_MULTICAST=0 in the environment"},
		{name: "own off, simulated", env: env{EnvMulticast: "off"}, simulated: true, want: "NVLS_ALLREDUCE_MULTICAST=off in the environment"},
		{name: "own auto does not override NCCL", env: env{EnvMulticast: "auto", EnvNCCL: "0"}, want: "NCCL_NVLS_ENABLE=0 in the environment"},

		{name: "NCCL 0", env: env{EnvNCCL: "0"}, want: "NCCL_NVLS_ENABLE=0 in the environment"},
		{name: "NCCL 0, simulated", env: env{EnvNCCL: "0"}, simulated: true},
		{name: "NCCL 00", env: env{EnvNCCL: "00"}, want: "NCCL_NVLS_ENABLE=00 in the environment"},
		{name: "NCCL 0x0", env: env{EnvNCCL: "0x0"}, want: "NCCL_NVLS_ENABLE=0x0 in the environment"},
		{name: "NCCL 0b1, which C reads as 0", env: env{EnvNCCL: "0b1"}, want: "NCCL_NVLS_ENABLE=0b1 in the environment"},
		{name: "NCCL 1_0, which C does not read", env: env{EnvNCCL: "1_0"}, want: "NCCL_NVLS_ENABLE=1_0 in the environment"},
		{name: "NCCL +2", env: env{EnvNCCL: "+2"}},
		{name: "NCCL spaces", env: env{EnvNCCL: " 0 "}, want: `NCCL_NVLS_ENABLE=" 0 " in the environment`},
		{name: "NCCL only a space", env: env{EnvNCCL: " "}, want: `NCCL_NVLS_ENABLE=" " in the environment`},
		{name: "NCCL word", env: env{EnvNCCL: "false"}, want: "NCCL_NVLS_ENABLE=false in the environment"},
		{name: "NCCL negative", env: env{EnvNCCL: "-1"}, want: "NCCL_NVLS_ENABLE=-1 in the environment"},
		{name: "NCCL 1", env: env{EnvNCCL: "1"}},
		{name: "NCCL 2", env: env{EnvNCCL: "2"}},

		{name: "PyTorch 1", env: env{EnvTorch: "1"}, want: "TORCH_SYMM_MEM_DISABLE_MULTICAST=1 in the environment"},
		{name: "PyTorch true", env: env{EnvTorch: "true"}, want: "TORCH_SYMM_MEM_DISABLE_MULTICAST=true in the environment"},
		{name: "PyTorch yes", env: env{EnvTorch: "yes"}, want: "TORCH_SYMM_MEM_DISABLE_MULTICAST=yes in the environment"},
		{name: "PyTorch 01", env: env{EnvTorch: "01"}, want: "TORCH_SYMM_MEM_DISABLE_MULTICAST=01 in the environment"},
		{name: "PyTorch odd zero", env: env{EnvTorch: "0 "}, want: `TORCH_SYMM_MEM_DISABLE_MULTICAST="0 " in the environment`},
		{name: "PyTorch 0", env: env{EnvTorch: "0"}},
		{name: "PyTorch False", env: env{EnvTorch: "False"}},
		{name: "PyTorch 1, simulated", env: env{EnvTorch: "1"}, simulated: true},

		{name: "NVSHMEM 1", env: env{EnvNVSHMEM: "1"}, want: "NVSHMEM_DISABLE_NVLS=1 in the environment"},
		{name: "NVSHMEM true", env: env{EnvNVSHMEM: "true"}, want: "NVSHMEM_DISABLE_NVLS=true in the environment"},
		{name: "NVSHMEM 0", env: env{EnvNVSHMEM: "0"}},
		{name: "NVSHMEM 1, simulated", env: env{EnvNVSHMEM: "1"}, simulated: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := MulticastOff(tt.config, func(k string) string { return tt.env[k] }, tt.simulated)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMulticastOffUnknownValue(t *testing.T) {
	for _, simulated := range []bool{false, true} {
		for _, tt := range []struct {
			name, config, env string
		}{
			{"config", "maybe", ""},
			{"config on", "on", ""},
			{"environment", "", "maybe"},
			{"environment beside a switch that is on", "off", "maybe"},
		} {
			off, err := MulticastOff(tt.config, func(k string) string {
				if k == EnvMulticast {
					return tt.env
				}
				return ""
			}, simulated)
			if failure.CodeOf(err) != failure.Usage {
				t.Errorf("%s: error %v, want a usage failure", tt.name, err)
			}
			if off == "" {
				t.Errorf("%s: multicast is permitted in spite of the error", tt.name)
			}
		}
	}
}

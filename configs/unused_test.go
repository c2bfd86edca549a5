package configs

import (
	"strings"
	"testing"
)

// A key that is set in vain is told with its origin; one that works, or that is as
// by default, is not.
func TestUnused(t *testing.T) {
	for _, c := range []struct {
		layer []Setting
		want  string // the keys
	}{
		{nil, ""},
		{[]Setting{{"nccl.library", "libnccl.so.2", "site.toml line 2"}}, "nccl.library"},
		{[]Setting{{"nccl.library", "libnccl.so.2", ""}, {"run.mode", "ring,nccl", ""}}, ""},
		{[]Setting{{"nvls.staging", "8M", ""}, {"run.mode", "ring,auto", ""}}, "nvls.staging"},
		{[]Setting{{"nvls.staging", "8M", ""}, {"run.mode", "all", ""}}, ""},
		{[]Setting{{"nvls.staging", "8M", ""}, {"run.mode", "p2p-copy-in", ""}}, ""},
		{[]Setting{{"nvls.scratch", "8M", ""}, {"run.mode", "nvls-zero-copy,nccl", ""}}, "nvls.scratch"},
		{[]Setting{{"nvls.scratch", "8M", ""}, {"run.mode", "nvls-zero-copy,nccl", ""}, {"run.fallback", "allow", ""}}, ""},
		{[]Setting{{"nvls.scratch", "8M", ""}, {"run.mode", "p2p", ""}}, ""},
		{[]Setting{{"sim.seed", int64(7), ""}, {"sim.devices", int64(4), ""}}, "sim.devices sim.seed"},
		{[]Setting{{"sim.seed", int64(7), ""}, {"run.device", "sim", ""}}, ""},
		{[]Setting{{"sim.seed", int64(0), ""}}, ""},
		{[]Setting{{"bootstrap.mpi_library", "libmpi.so.40", ""}}, ""},
		{[]Setting{{"bootstrap.mpi_library", "libmpi.so.40", ""}, {"bootstrap.launcher", "none", ""}}, "bootstrap.mpi_library"},
	} {
		cfg := Default()
		if err := cfg.Apply(c.layer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range cfg.Unused() {
			key, _, _ := strings.Cut(line, " ")
			got = append(got, key)
			if key == "nccl.library" && !strings.Contains(line, "(site.toml line 2) has no effect: no mode of NCCL") {
				t.Errorf("told: %s", line)
			}
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%v: unused %q, want %q", c.layer, g, c.want)
		}
	}
}

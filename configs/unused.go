package configs

import (
	"fmt"
	"slices"
)

// Unused says of keys that were set, and that no part of this run looks at, why.
// They are no faults: a file for a site has keys for every kind of run. The
// configuration must be valid.
func (c *Config) Unused() []string {
	defaults := Default()
	var out []string
	add := func(key, why string) {
		if c.Get(key) != defaults.Get(key) {
			out = append(out, fmt.Sprintf("%s = %s (%s) has no effect: %s", key, c.Get(key), c.Origin(key), why))
		}
	}
	modes := c.Modes()
	if !slices.Contains(modes, ModeNCCL) && !slices.Contains(modes, ModeNCCLSymmetric) {
		add("nccl.library", "no mode of NCCL is asked for")
	}
	if !slices.Contains(modes, ModeCopyIn) && !slices.Contains(modes, ModeP2PCopyIn) {
		add("nvls.staging", "no mode that copies in is asked for")
	}
	if !c.UsesScratch() {
		add("nvls.scratch", "no mode that passes messages through scratch memory is asked for")
	}
	if c.Run.Device != DeviceSim {
		for _, key := range []string{"sim.devices", "sim.weak", "sim.seed"} {
			add(key, "the device is not the software device")
		}
	}
	if l := c.Bootstrap.Launcher; l == LauncherLocal || l == LauncherNone {
		add("bootstrap.mpi_library", fmt.Sprintf("launcher %q uses no MPI", l))
	}
	return out
}

// UsesScratch reports whether a mode passes large messages through scratch memory:
// one that was asked for, or the ring in place of one that cannot run.
func (c *Config) UsesScratch() bool {
	for _, m := range c.Modes() {
		switch m {
		case ModeRing, ModeP2P, ModeP2PPush, ModeP2PPushBulk, ModeP2PCopyEngine, ModeAuto:
			return true
		}
	}
	return c.Run.Fallback == FallbackAllow
}

package configs

import (
	"fmt"
	"math"
	"strings"
)

// bound is what a key of a whole number takes.
type bound struct {
	low, high int
	also      string // what one of the numbers means
	example   string
}

var bounds = map[string]bound{
	"timing.warmup": {0, maxCount, "", "5"},
	"timing.iters":  {1, maxCount, "", "20"},
	"timing.graph":  {0, maxCount, "; 0 is without a CUDA graph", "1"},
	"timing.cycles": {0, maxCount, "; 0 repeats until the run is stopped", "1"},
	"timing.check":  {0, maxCount, "; 0 verifies nothing", "1"},
	"nvls.blocks":   {0, maxBlocks, "; 0 is automatic", "16"},
	"sim.devices":   {0, maxDevices, "; 0 is automatic", "8"},
	"sim.seed":      {0, math.MaxInt32, "; 0 is off", "7"},
}

// Takes says in words what values a key of numbers or of few words has, and gives
// one as it is written on a command line. Both are "" for other keys, whose values
// are names.
func Takes(key string) (words, example string) {
	if b, ok := bounds[key]; ok {
		return fmt.Sprintf("a whole number from %d to %d%s", b.low, b.high, b.also), b.example
	}
	if valid, ok := choices[key]; ok {
		return "one of " + strings.Join(valid, ", "), valid[0]
	}
	switch key {
	case "sweep.min_bytes", "sweep.max_bytes", "sweep.step_bytes":
		return fmt.Sprintf("a number of bytes, or one with K, M or G, up to %v", MaxSize), "32K"
	case "nvls.staging", "nvls.scratch":
		return fmt.Sprintf("between %v and %v a rank; it is rounded up to the device's granularity", minStaging, maxStaging), "32M"
	case "nvls.threads":
		return fmt.Sprintf("a multiple of %d up to %d, or 0 for automatic", warp, maxThreads), "512"
	case "sweep.factor":
		return "a number above 1; or 1 with a step in bytes", "2"
	case "timing.timeout", "bootstrap.timeout":
		return fmt.Sprintf("a duration above 0 and up to %.0fh: no wait is without an end", maxTimeout.Hours()), "90s"
	case "output.min_busbw":
		return "a bandwidth in GB/s, or 0 to require none", "300"
	}
	return "", ""
}

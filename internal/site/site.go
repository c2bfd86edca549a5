// Package site knows what the site forbids. Today that is one thing: multicast.
//
// On some hosts a multicast call can take GPUs that others share out of
// service, so administrators switch NVLS off for the libraries that they know:
// NCCL, PyTorch and NVSHMEM. This program obeys the same switches, beside its
// own two. While one is on, package cuda resolves and calls no multicast entry
// point of libcuda.
//
// Rule of the package: when in doubt, off. A value that the switch's owner
// would not read as a clear permission counts as forbidding.
package site

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// The switches in the environment.
const (
	// EnvMulticast is this project's own: "off", or "auto" (also when unset).
	EnvMulticast = "NVLS_ALLREDUCE_MULTICAST"
	// EnvNCCL is NCCL's: 0 off, 1 on, 2 automatic.
	EnvNCCL = "NCCL_NVLS_ENABLE"
	// EnvTorch is that of PyTorch's symmetric memory: 1 forbids.
	EnvTorch = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
	// EnvNVSHMEM is NVSHMEM's: a true value forbids.
	EnvNVSHMEM = "NVSHMEM_DISABLE_NVLS"
)

// MulticastOff finds the switch that forbids multicast here and names it as a
// user would recognise it, for instance "NCCL_NVLS_ENABLE=0 in the
// environment"; "" means that nothing forbids it. configValue is the key
// multicast of the configuration: "", "auto" or "off".
//
// A simulated device harms nobody, so only this project's own two switches
// apply to it.
//
// A value of one of these two that means nothing is a usage failure. The name
// is then not empty either: a caller that goes on in spite of the error has
// multicast off.
func MulticastOff(configValue string, getenv func(string) string, simulated bool) (string, error) {
	own := []struct {
		value string
		name  string // of the switch with its value
		do    string
	}{
		{configValue, fmt.Sprintf("multicast = %q in the configuration", configValue), `write multicast = "auto" or multicast = "off"`},
		{getenv(EnvMulticast), inEnvironment(EnvMulticast, getenv(EnvMulticast)), "set " + EnvMulticast + " to auto or off, or unset it"},
	}
	off := ""
	for _, s := range own {
		forbids, known := ownForbids(s.value)
		if !known {
			return s.name, &failure.Error{Code: failure.Usage,
				What: s.name + " is not understood", Why: "it is neither auto nor off", Do: s.do, By: failure.User}
		}
		if forbids && off == "" {
			off = s.name
		}
	}
	if off != "" || simulated {
		return off, nil
	}
	for _, s := range []struct {
		env     string
		forbids func(string) bool
	}{
		{EnvNCCL, enableForbids},
		{EnvTorch, disableForbids},
		{EnvNVSHMEM, disableForbids},
	} {
		if v := getenv(s.env); s.forbids(v) {
			return inEnvironment(s.env, v), nil
		}
	}
	return "", nil
}

// ownForbids reads a value of one of this project's two switches.
func ownForbids(value string) (forbids, known bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "auto":
		return false, true
	case "off", "0", "false", "no":
		return true, true
	}
	return true, false
}

// enableForbids reads a variable in which a positive number permits. NCCL reads
// it by strtoll with base 0, so "00", "0x0" and " 0" are off for it; what it
// cannot read, it ignores, and here that counts as off.
func enableForbids(value string) bool {
	if value == "" {
		return false
	}
	if !cNumber.MatchString(value) {
		return true // Go reads more forms than C does: 0b1, 0o1, 1_0
	}
	n, err := strconv.ParseInt(value, 0, 64)
	return err != nil || n <= 0
}

var cNumber = regexp.MustCompile(`^\+?(0[xX][0-9a-fA-F]+|[0-9]+)$`)

// disableForbids reads a variable in which a true value forbids. Only a plain
// false permits.
func disableForbids(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "false", "no", "off", "n", "f":
		return false
	}
	return true
}

// inEnvironment names a variable with its value; odd values are quoted.
func inEnvironment(name, value string) string {
	if strings.ContainsAny(value, " \t\r\n\"'") {
		value = strconv.Quote(value)
	}
	return name + "=" + value + " in the environment"
}

package configs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
)

// Fault is one entry of sim.faults: what happens, for tests, to a driver call of
// the software device. As text it is words NAME=VALUE in any order:
//
//	rank=1 call=cuMulticastBindMem n=1 code=802
//	rank=all call=cuMemMap n=3- code=999
//	rank=0 call=cuMulticastBindMem do=hang
//	rank=2 call=kernel do=trap
type Fault struct {
	Rank int    // world rank, or EveryRank
	Call string // name of the driver's function; FaultKernel with FaultTrap
	// Which of the rank's calls of this name, counted from 1: First to Last. Last 0
	// is no end.
	First, Last int
	Code        int    // what the call returns; 0 with Do
	Do          string // FaultHang, FaultTrap, or "" with Code
}

// EveryRank in Fault.Rank is what the text calls "all".
const EveryRank = -1

// What Fault.Do can be.
const (
	FaultHang = "hang" // the call never returns
	FaultTrap = "trap" // every all-reduce kernel of the rank executes trap where it first waits
)

// FaultKernel is the Fault.Call of FaultTrap.
const FaultKernel = "kernel"

// maxCode is above every CUresult.
const maxCode = 999

// FaultOf reads the text of a fault.
func FaultOf(text string) (Fault, error) {
	f := Fault{Rank: EveryRank - 1, First: 1}
	var seen []string
	for _, word := range strings.Fields(text) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return f, fmt.Errorf("%q is not NAME=VALUE", word)
		}
		if slices.Contains(seen, name) {
			return f, fmt.Errorf("%s is given twice", name)
		}
		seen = append(seen, name)
		if err := f.set(name, value); err != nil {
			return f, err
		}
	}
	switch {
	case !slices.Contains(seen, "rank"):
		return f, fmt.Errorf("rank=N or rank=all is missing")
	case f.Call == "":
		return f, fmt.Errorf("call=NAME is missing, as cuMulticastBindMem")
	case (f.Code == 0) == (f.Do == ""):
		return f, fmt.Errorf("give one of code=N and do=%s|%s", FaultHang, FaultTrap)
	case (f.Do == FaultTrap) != (f.Call == FaultKernel):
		return f, fmt.Errorf("do=%s goes with call=%s, and nothing else does", FaultTrap, FaultKernel)
	}
	return f, nil
}

func (f *Fault) set(name, value string) (err error) {
	number := func(low, high int) int {
		n, e := strconv.Atoi(value)
		if e != nil || n < low || n > high {
			err = fmt.Errorf("%s=%s: give a whole number from %d to %d", name, value, low, high)
		}
		return n
	}
	switch name {
	case "rank":
		if f.Rank = EveryRank; value != All {
			f.Rank = number(0, maxCount)
		}
	case "call":
		f.Call = value
	case "n":
		open := strings.HasSuffix(value, "-")
		value = strings.TrimSuffix(value, "-")
		f.First = number(1, maxCount)
		if f.Last = f.First; open {
			f.Last = 0
		}
	case "code":
		f.Code = number(1, maxCode)
	case "do":
		if f.Do = value; value != FaultHang && value != FaultTrap {
			err = fmt.Errorf("do=%s: give %s or %s", value, FaultHang, FaultTrap)
		}
	default:
		err = fmt.Errorf("unknown word %q, the nearest is %q", name, collective.Nearest(name, []string{"rank", "call", "n", "code", "do"}))
	}
	return err
}

// Hits reports whether the fault happens to the nth call of a name on a rank.
func (f Fault) Hits(rank int, call string, n int) bool {
	return (f.Rank == EveryRank || f.Rank == rank) && f.Call == call && n >= f.First && (f.Last == 0 || n <= f.Last)
}

// ParsedFaults gives sim.faults. The configuration must be valid.
func (s Sim) ParsedFaults() []Fault {
	var out []Fault
	for _, text := range s.Faults {
		if f, err := FaultOf(text); err == nil {
			out = append(out, f)
		}
	}
	return out
}

// faults checks sim.faults.
func (v *validator) faults() {
	for _, text := range v.c.Sim.Faults {
		if _, err := FaultOf(text); err != nil {
			v.add("sim.faults", fmt.Sprintf("sim.faults: %q is not a fault: %v", text, err), `write "rank=1 call=cuMulticastBindMem n=1 code=802"`)
		}
	}
	if d := v.c.Run.Device; len(v.c.Sim.Faults) > 0 && d != DeviceSim {
		v.add("sim.faults", fmt.Sprintf("sim.faults is set with run.device = %q", d), "faults are for tests on the software device: use --device sim, or remove them")
	}
}

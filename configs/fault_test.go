package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaultOf(t *testing.T) {
	for text, want := range map[string]Fault{
		"rank=1 call=cuMulticastBindMem n=1 code=802": {Rank: 1, Call: "cuMulticastBindMem", First: 1, Last: 1, Code: 802},
		"code=999 n=3- call=cuMemMap rank=all":        {Rank: EveryRank, Call: "cuMemMap", First: 3, Code: 999},
		"rank=0 call=cuMulticastBindMem do=hang":      {Rank: 0, Call: "cuMulticastBindMem", First: 1, Do: FaultHang},
		"rank=2 call=kernel do=trap":                  {Rank: 2, Call: FaultKernel, First: 1, Do: FaultTrap},
	} {
		got, err := FaultOf(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"":                                    "rank=N or rank=all is missing",
		"rank=1 code=1":                       "call=NAME is missing",
		"rank=1 call=cuMemMap":                "one of code=N and do=",
		"rank=1 call=cuMemMap code=0":         "code=0: give a whole number from 1 to 999",
		"rank=x call=cuMemMap code=1":         "rank=x",
		"rank=1 rank=2":                       "rank is given twice",
		"rank=1 call=cuMemMap cod=1":          `unknown word "cod", the nearest is "code"`,
		"rank=1 call=cuMemMap n=0- code=1":    "n=0",
		"rank=1 call=cuMemMap do=trap":        "do=trap goes with call=kernel",
		"rank=1 call=cuMemMap do=x":           "give hang or trap",
		"rank=1 call=cuMemMap code=1 n":       `"n" is not NAME=VALUE`,
		"rank=1 call=cuMemMap code=1 do=hang": "one of code=N and do=",
	} {
		if _, err := FaultOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFaultHits(t *testing.T) {
	f := Fault{Rank: EveryRank, Call: "c", First: 2, Last: 3}
	for n, want := range map[int]bool{1: false, 2: true, 3: true, 4: false} {
		if f.Hits(5, "c", n) != want || f.Hits(5, "d", n) {
			t.Errorf("call %d", n)
		}
	}
}

// Faults are of the software device only: nothing else may be told to fail.
func TestFaultsNeedSim(t *testing.T) {
	c := Default()
	c.Sim.Faults = []string{"rank=0 call=cuMemMap code=1"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `sim.faults is set with run.device = "auto"`) {
		t.Errorf("%v", err)
	}
	c.Run.Device = DeviceSim
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Sim.Faults = []string{"rank=0"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "is not a fault") {
		t.Errorf("%v", err)
	}
}

// The text of a fault is the user's: any is read or refused.
func FuzzFault(f *testing.F) {
	f.Add("rank=1 call=cuMulticastBindMem n=1 code=802")
	f.Add("rank=all call=kernel do=trap n=1-")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := FaultOf(text); err == nil && (got.Rank < EveryRank || got.First < 1 || got.Last < 0 || got.Call == "" || (got.Code == 0) == (got.Do == "")) {
			t.Errorf("%q is %+v", text, got)
		}
	})
}

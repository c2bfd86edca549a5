package result

import "testing"

// A heading names MPI and its version; the library's file is left out, other
// parentheses are not.
func TestMPIName(t *testing.T) {
	for in, want := range map[string]string{
		"Open MPI v4.1.6 (/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.6)":       "Open MPI v4.1.6",
		"MPICH Version: 4.0.2 (/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2)": "MPICH 4.0.2",
		"Intel(R) MPI Library 2021.9 for Linux* OS (libmpi.so.12)":            "Intel(R) MPI Library 2021.9 for Linux* OS",
		"Open MPI v5.0.3": "Open MPI v5.0.3",
		"an MPI (debug)":  "an MPI (debug)",
		"":                "",
	} {
		if got := (&Run{MPI: in}).MPIName(); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

// Whoever reads a decision is told whether the mode ran, or which one in its place.
func TestOutcome(t *testing.T) {
	for _, c := range []struct{ requested, chosen, want string }{
		{"nvls-zero-copy", "ring", "replaced by ring"}, {"nvls-zero-copy", "nvls-zero-copy", "nvls-zero-copy"},
		{"auto", "ring", "ring"}, {"auto", "without nvls-zero-copy", "without nvls-zero-copy"}, {"p2p-packet", "", "not run"},
	} {
		if got := (Decision{Requested: c.requested, Chosen: c.chosen}).Outcome(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

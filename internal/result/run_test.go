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

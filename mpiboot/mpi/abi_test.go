//go:build linux

package mpi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake is a library by what it exports.
type fake struct {
	name    string
	exports []string
	major   int
	closed  bool
}

func (f *fake) has(s string) bool {
	for _, e := range f.exports {
		if e == s {
			return true
		}
	}
	return false
}
func (f *fake) abiMajor() int { return f.major }
func (f *fake) close()        { f.closed = true }

func openMPI(name string) *fake {
	return &fake{name: name, exports: []string{"MPI_Init_thread", "ompi_mpi_comm_world"}}
}

func openMPI6(name string) *fake {
	return &fake{name: name, exports: []string{"MPI_Init_thread", "ompi_mpi_comm_world", "MPI_Abi_get_version"}, major: -1}
}

func mpich(name string) *fake { return &fake{name: name, exports: []string{"MPI_Init_thread"}} }

func standard(name string) *fake {
	return &fake{name: name, exports: []string{"MPI_Init_thread", "MPI_Abi_get_version"}, major: 1}
}

func TestIdentify(t *testing.T) {
	for _, tt := range []struct {
		name string
		lib  *fake
		want ABI
		ok   bool
	}{
		{"Open MPI 4", openMPI(""), OpenMPI, true},
		{"Open MPI 6, legacy library", openMPI6(""), OpenMPI, true},
		{"MPICH", mpich(""), MPICH, true},
		{"MPICH 5 with the call, legacy library", &fake{exports: []string{"MPI_Init_thread", "MPI_Abi_get_version"}, major: -1}, MPICH, true},
		{"standard ABI", standard(""), Standard, true},
		{"standard ABI of Open MPI", &fake{exports: []string{"MPI_Init_thread", "MPI_Abi_get_version", "ompi_mpi_comm_world"}, major: 1}, Standard, true},
		{"not MPI", &fake{exports: []string{"ompi_mpi_comm_world"}}, 0, false},
	} {
		if got, ok := identify(tt.lib); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestConstantsKinds(t *testing.T) {
	for _, abi := range []ABI{OpenMPI, MPICH, Standard} {
		k := constantsOf(abi)
		seen := map[handle]bool{}
		for _, h := range []handle{k.commWorld, k.byteType, k.int64, k.float64, k.max, k.min, k.sum, k.errorsReturn} {
			if (h.symbol != "") != (abi == OpenMPI) || h == (handle{}) || seen[h] {
				t.Errorf("%v: handle %+v", abi, h)
			}
			seen[h] = true
		}
		if k.pointerHandles != (abi != MPICH) {
			t.Errorf("%v: pointerHandles %v", abi, k.pointerHandles)
		}
	}
}

func TestChoose(t *testing.T) {
	const dir = "/.singularity.d/libs"
	for _, tt := range []struct {
		name   string
		search Search
		libs   []*fake
		want   string
		abi    ABI
	}{
		{"both there, Open MPI launcher", Search{Prefer: OpenMPI}, []*fake{openMPI("libmpi.so.40"), mpich("libmpich.so.12")}, "libmpi.so.40", OpenMPI},
		{"both there, MPICH launcher", Search{Prefer: MPICH}, []*fake{openMPI("libmpi.so.40"), mpich("libmpich.so.12")}, "libmpich.so.12", MPICH},
		{"both there, no preference", Search{}, []*fake{openMPI("libmpi.so.40"), mpich("libmpich.so.12")}, "libmpi.so.40", OpenMPI},
		{"libmpi.so.12 is Open MPI 1.10, Intel's is in a directory", Search{Prefer: MPICH, Dirs: []string{dir}},
			[]*fake{openMPI("libmpi.so.12"), mpich(dir + "/libmpi.so.12")}, dir + "/libmpi.so.12", MPICH},
		{"libmpi.so is MPICH", Search{Prefer: MPICH}, []*fake{mpich("libmpi.so")}, "libmpi.so", MPICH},
		{"only bound into the container", Search{Prefer: OpenMPI, Dirs: []string{dir}}, []*fake{openMPI(dir + "/libmpi.so.40")}, dir + "/libmpi.so.40", OpenMPI},
		{"standard ABI before the other family", Search{Prefer: MPICH}, []*fake{openMPI("libmpi.so.40"), standard("libmpi_abi.so.1")}, "libmpi_abi.so.1", Standard},
		{"own family before the standard ABI", Search{Prefer: OpenMPI}, []*fake{openMPI6("libmpi.so.40"), standard("libmpi_abi.so.1")}, "libmpi.so.40", OpenMPI},
		{"only the other family", Search{Prefer: MPICH}, []*fake{openMPI("libmpi.so.40")}, "libmpi.so.40", OpenMPI},
		{"a file of the other family", Search{File: "/opt/libmpi.so", Prefer: MPICH}, []*fake{openMPI("/opt/libmpi.so"), mpich("libmpich.so.12")}, "/opt/libmpi.so", OpenMPI},
		{"not an MPI library", Search{Prefer: OpenMPI}, []*fake{{name: "libmpi.so.40"}, openMPI("libmpi.so")}, "libmpi.so", OpenMPI},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opened := map[string]*fake{}
			im, abi, err := choose(tt.search, func(name string) (image, error) {
				for _, l := range tt.libs {
					if l.name == name {
						opened[name] = l
						return l, nil
					}
				}
				return nil, fmt.Errorf("%s: cannot open shared object file: No such file or directory", name)
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := im.(*fake).name; got != tt.want || abi != tt.abi {
				t.Errorf("chose %s as %v, want %s as %v", got, abi, tt.want, tt.abi)
			}
			for name, l := range opened {
				if l.closed == (name == tt.want) {
					t.Errorf("%s: closed is %v", name, l.closed)
				}
			}
		})
	}
}

func TestChooseNotFound(t *testing.T) {
	_, _, err := choose(Search{Prefer: MPICH, Dirs: []string{"/d"}}, func(name string) (image, error) {
		if name == "libmpi.so.12" {
			return nil, errors.New("libfabric.so.1: cannot open shared object file: No such file or directory")
		}
		return nil, fmt.Errorf("%s: cannot open shared object file: No such file or directory", name)
	})
	want := "no MPI library could be opened: libmpi.so.12 (libfabric.so.1: cannot open shared object file: No such file or directory)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, _, err = choose(Search{File: "/no/libmpi.so"}, func(name string) (image, error) { return nil, errors.New("no such file") })
	if err == nil || !strings.Contains(err.Error(), "/no/libmpi.so (no such file)") {
		t.Errorf("got %v", err)
	}
	_, _, err = choose(Search{Dirs: []string{"/d"}}, func(name string) (image, error) {
		return nil, fmt.Errorf("%s: cannot open shared object file: No such file or directory", name)
	})
	if err == nil || !strings.Contains(err.Error(), "libmpi.so.40") || !strings.Contains(err.Error(), "/d") {
		t.Errorf("got %v", err)
	}
}

func TestSearchDirs(t *testing.T) {
	got := SearchDirs(func(k string) string { return map[string]string{"MPI_HOME": "/opt/mpi", "MPI_DIR": "relative"}[k] })
	if diff := cmp.Diff([]string{"/opt/mpi/lib", "/opt/mpi/lib64", "/opt/mpi/lib/release", "/.singularity.d/libs"}, got[:4]); diff != "" {
		t.Error(diff)
	}
}

func TestFirstLine(t *testing.T) {
	for in, want := range map[string]string{
		"MPICH Version:\t4.0.2\nMPICH Release date:\t...": "MPICH Version: 4.0.2",
		"Open MPI v4.1.4, package: Debian OpenMPI, ident": "Open MPI v4.1.4",
		"Intel(R) MPI Library 2021.9 for Linux* OS\n":     "Intel(R) MPI Library 2021.9 for Linux* OS",
	} {
		if got := firstLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

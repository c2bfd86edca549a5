//go:build linux

package mpi

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Search says which MPI library to open.
type Search struct {
	File   string   // this one and no other; "" to look for one
	Prefer ABI      // the family of the launcher; 0 for whichever comes first
	Dirs   []string // looked through after the dynamic linker's own search
}

// SearchDirs are the directories outside the dynamic linker's path where an
// MPI library is likely to be: those that an environment module names, the
// place to which Singularity binds host libraries, and where distributions keep
// one library beside another. getenv is os.Getenv.
func SearchDirs(getenv func(string) string) []string {
	var dirs []string
	for _, v := range []string{"MPI_HOME", "MPI_DIR", "I_MPI_ROOT", "CRAY_MPICH_DIR"} {
		if d := getenv(v); filepath.IsAbs(d) {
			dirs = append(dirs, filepath.Join(d, "lib"), filepath.Join(d, "lib64"), filepath.Join(d, "lib", "release"))
		}
	}
	return append(dirs, "/.singularity.d/libs",
		"/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib", "/usr/lib64/mpi/gcc/openmpi4/lib64", "/usr/lib64/mpi/gcc/mpich/lib64")
}

// File names, the likeliest of each family first. Debian calls MPICH
// libmpich.so.12, everybody else libmpi.so.12.
var (
	openMPINames  = []string{"libmpi.so.40"}
	mpichNames    = []string{"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12", "libmpi_gnu_123.so.12", "libmpi_gnu_91.so.12"}
	standardNames = []string{"libmpi_abi.so.1", "libmpi_abi.so.0"}
	anyNames      = []string{"libmpi.so"}
)

// candidates lists what to try, in order: names of the preferred family by the
// dynamic linker and then in every directory, the standard ABI, which both
// families offer, and at last the other family.
func candidates(s Search) []string {
	if s.File != "" {
		return []string{s.File}
	}
	order := [][]string{openMPINames, standardNames, anyNames, mpichNames}
	if s.Prefer == MPICH {
		order = [][]string{mpichNames, standardNames, anyNames, openMPINames}
	}
	var list []string
	for _, names := range order {
		list = append(list, names...)
		for _, dir := range s.Dirs {
			for _, name := range names {
				list = append(list, filepath.Join(dir, name))
			}
		}
	}
	return list
}

// image is a file that the dynamic linker has loaded.
type image interface {
	symbols
	close()
}

// choose opens candidates until one is of the preferred family or of the
// standard ABI. If there is none, it takes the first of another family: whether
// that one can talk to the launcher is found out by the size of the world.
func choose(s Search, open func(name string) (image, error)) (image, ABI, error) {
	var other image
	var otherABI ABI
	missing := &NotFoundError{Search: s}
	for _, name := range candidates(s) {
		im, err := open(name)
		if err != nil {
			missing.note(name, err.Error())
			continue
		}
		abi, ok := identify(im)
		switch {
		case !ok:
			im.close()
			missing.note(name, "it has no MPI_Init_thread")
		case s.File != "" || s.Prefer == 0 || abi == s.Prefer || abi == Standard:
			if other != nil {
				other.close()
			}
			return im, abi, nil
		case other == nil:
			other, otherABI = im, abi
		default:
			im.close()
		}
	}
	if other != nil {
		return other, otherABI, nil
	}
	return nil, 0, missing
}

// NotFoundError says that no MPI library could be opened.
type NotFoundError struct {
	Search  Search
	Names   []string // what was tried
	Reasons []string // why each failed, for those that are there
}

func (e *NotFoundError) note(name, why string) {
	e.Names = append(e.Names, name)
	// For nearly every name the linker says that there is no such file; that
	// would bury the one that is there and lacks, say, libfabric.
	if e.Search.File == "" && strings.HasPrefix(why, name+": cannot open shared object file") {
		return
	}
	e.Reasons = append(e.Reasons, fmt.Sprintf("%s (%s)", name, why))
}

func (e *NotFoundError) Error() string {
	if len(e.Reasons) > 0 {
		return "no MPI library could be opened: " + strings.Join(e.Reasons, "; ")
	}
	var names []string
	for _, n := range e.Names {
		if filepath.Base(n) == n {
			names = append(names, n)
		}
	}
	return fmt.Sprintf("no MPI library found: none of %s is on the dynamic linker's path or in %s",
		strings.Join(names, ", "), strings.Join(e.Search.Dirs, ", "))
}

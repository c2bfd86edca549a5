//go:build linux

package containertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// HostOpenMPI lays this host's Open MPI out under one folder, as sites install
// it, and gives the folder: Debian has it among all other libraries, which cannot
// be bound into an image. Open MPI finds its plug-ins there by OPAL_PREFIX.
func HostOpenMPI(t testing.TB) string {
	t.Helper()
	const debian = "/usr/lib/*/libmpi.so.40"
	slurmtest.RequireFile(t, "libopenmpi3", debian)
	found, _ := filepath.Glob(debian)
	libs := filepath.Dir(found[0])
	plugins := filepath.Join(libs, "openmpi", "lib", "openmpi3")
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	// As Debian's build has it, below the prefix.
	under := filepath.Join(lib, filepath.Base(libs), "openmpi", "lib")
	if err := os.MkdirAll(under, 0o755); err != nil {
		t.Fatal(err)
	}
	copyAll(t, []string{plugins}, under)
	objects, _ := filepath.Glob(filepath.Join(plugins, "*.so"))
	copyAll(t, dependencies(t, append(objects, found[0])), lib)
	copyAll(t, found[:1], lib)
	return dir
}

// ofC are the libraries that every image has its own of.
var ofC = regexp.MustCompile(`/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|ld-linux.*)\.so`)

// dependencies lists the files that the linker loads with objects.
func dependencies(t testing.TB, objects []string) []string {
	t.Helper()
	// Plug-ins for hardware that is not here may lack libraries; then ldd fails
	// for them and lists the rest.
	out, _ := exec.Command("ldd", objects...).Output()
	seen := map[string]bool{}
	var files []string
	for line := range strings.Lines(string(out)) {
		_, file, ok := strings.Cut(line, "=> /")
		file, _, _ = strings.Cut("/"+file, " ")
		// mpirun's own copy is in the list of objects.
		if ok && !seen[file] && !ofC.MatchString(file) && !strings.Contains(file, "/libmpi.so.") {
			seen[file] = true
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("ldd finds no dependencies of %v", objects)
	}
	return files
}

func copyAll(t testing.TB, files []string, dir string) {
	t.Helper()
	out, err := exec.Command("cp", append(append([]string{"-rL"}, files...), dir)...).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}

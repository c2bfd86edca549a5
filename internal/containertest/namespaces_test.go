//go:build linux

package containertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// launcher is an MPI launcher and the settings that its library needs where
// ranks share less than usual. docs/containers.md gives the same.
type launcher struct {
	name, debianPackage string
	argv                []string
}

var (
	openMPI = launcher{"openmpi", "openmpi-bin", mpirun(2)}
	mpich   = launcher{"mpich", "mpich", []string{"mpiexec.mpich", "-np", "2"}}
)

// bubbles is the beginning of a command line of two ranks, each in a bubble of
// its own, with an environment, and the folder that they share.
func (l launcher) bubbles(t *testing.T, env string, options ...string) (dir string, argv []string) {
	t.Helper()
	slurmtest.Require(t, l.debianPackage, l.argv[0])
	dir = shared(t)
	// A private /tmp hides the program, and every folder of the test but one.
	exe := filepath.Join(dir, "nvls-allreduce")
	if err := os.Link(program, exe); err != nil {
		t.Fatal(err)
	}
	argv = append(append([]string{"env"}, strings.Fields(env)...), l.argv...)
	return dir, append(append(argv, Bubblewrap(t, dir, options...)...), exe)
}

// Each rank alone in its /tmp, among its processes, with its shared memory. That
// is nothing to this program, but much to MPI.
func TestNamespaces(t *testing.T) {
	advice := read(t, "../../docs/containers.md")
	for _, tt := range []struct {
		name    string
		l       launcher
		env     string // separated by spaces
		options string
	}{
		{"user", openMPI, "", ""},
		{"tmp", openMPI, "PMIX_MCA_gds=hash", "--tmpfs /tmp"},
		{"pid", openMPI, "OMPI_MCA_btl=^vader", "--unshare-pid"},
		{"contain", openMPI, "PMIX_MCA_gds=hash OMPI_MCA_btl=^vader", "--tmpfs /tmp --tmpfs /dev/shm --unshare-pid --unshare-ipc"},
		{"user", mpich, "UCX_TLS=^posix,cma", ""},
		{"tmp", mpich, "UCX_TLS=^posix,cma", "--tmpfs /tmp"},
		{"pid", mpich, "UCX_TLS=^posix,cma", "--unshare-pid"},
	} {
		t.Run(tt.name+" "+tt.l.name, func(t *testing.T) {
			if !strings.Contains(advice, "`"+tt.env+"`") && tt.env != "" {
				t.Errorf("docs/containers.md does not say `%s`", tt.env)
			}
			dir, argv := tt.l.bubbles(t, tt.env, strings.Fields(tt.options)...)
			run(t, append(argv, allModes(dir)...)...).want(t, 0)
			right(t, dir, tt.l.name, 2)
		})
	}
}

// deadline is how long ranks of these tests wait for each other.
const deadline = 3 * time.Second

func config(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte("[bootstrap]\ntimeout = \""+deadline.String()+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Separate networks: abstract sockets do not reach. The run and the doctor say
// so within the deadline, and a folder for the sockets cures it.
func TestSeparateNetworks(t *testing.T) {
	dir, argv := mpich.bubbles(t, "UCX_TLS=^posix,cma", "--unshare-net")
	toml := config(t, dir)
	said := []string{"in different network namespaces", "net:[", "--socket-dir"}
	t.Run("run", func(t *testing.T) {
		o := run(t, append(argv, "--device", "sim", "--config", toml)...)
		o.want(t, 3, said...)
		// The deadline, once; the rest is MPI's start and end.
		if most := deadline + programtest.Within(7*time.Second); o.took > most {
			t.Errorf("it took %v with a deadline of %v, want %v at most", o.took, deadline, most)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		o := run(t, append(argv, "doctor", "--device", "sim", "--config", toml)...)
		o.want(t, 3, said...)
	})
	t.Run("cure", func(t *testing.T) {
		run(t, append(argv, allModes(dir, "--config", toml, "--socket-dir", dir)...)...).want(t, 0)
		right(t, dir, "mpich", 2)
		left, _ := filepath.Glob(filepath.Join(dir, "nvls-*"))
		for _, f := range left {
			if f != filepath.Join(dir, "nvls-allreduce") {
				t.Errorf("the socket %s is left", f)
			}
		}
	})
}

// Containers with host names of their own look like several hosts, for which
// this program is not. NVLS_ALLREDUCE_HOSTID says that they are one.
func TestHostNames(t *testing.T) {
	dir, argv := mpich.bubbles(t, "UCX_TLS=^posix,cma", "--unshare-uts")
	// A name for each: bwrap's --hostname is the same for both.
	exe := argv[len(argv)-1]
	argv = append(argv[:len(argv)-1], "--cap-add", "CAP_SYS_ADMIN", "/bin/sh", "-c", `hostname "rank$PMI_RANK" && exec "$0" "$@"`, exe)
	o := run(t, append(argv, "--device", "sim")...)
	if o.exit == 0 || !strings.Contains(o.out, "rank0") || !strings.Contains(o.out, "rank1") || !strings.Contains(o.out, "the boot id is the same") || !strings.Contains(o.out, "set NVLS_ALLREDUCE_HOSTID") {
		t.Errorf("exit code %d\n%s", o.exit, o.out)
	}
	argv = append([]string{"env", "NVLS_ALLREDUCE_HOSTID=node"}, argv...)
	run(t, append(argv, allModes(dir)...)...).want(t, 0)
	right(t, dir, "mpich", 2)
}

//go:build linux

package mpiboot

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// surroundings is what a process can see, before MPI starts, of namespaces that
// separate it from its launcher, and so from the other ranks. MPI libraries do not
// look; they crash, hang, or end the process with words about something else. Each
// text is the evidence, "" where nothing was seen.
type surroundings struct {
	user    string // a user namespace that is not the launcher's
	process string // a process namespace that is not the launcher's
	network string // a network namespace that is not the launcher's
	store   string // the folder of the launcher's PMIx is not there
	ucx     bool   // the MPI library has loaded UCX
	shm     string // a /dev/shm that is not the launcher's
}

// namespaceOf is the identity of a process's namespace, as "net:[4026531840]", and
// "" where that may not be read.
func namespaceOf(pid, kind string) string {
	id, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
	if err != nil {
		return ""
	}
	return id
}

// wholeMap is /proc/self/uid_map where there is no user namespace but the first.
const wholeMap = "0 0 4294967295"

// firstProcesses is the process namespace of the host, whose number Linux fixes
// (PROC_PID_INIT_INO). A launcher that is not above a process there is none.
const firstProcesses = "pid:[4026531836]"

// look looks around. What it cannot find out counts as not seen.
func look(env map[string]string) surroundings {
	var s surroundings
	self, _ := os.Readlink("/proc/self")
	launcher := launcherOf(self)
	other := func(kind string) (theirs string, differs bool) {
		theirs = namespaceOf(launcher, kind)
		return theirs, launcher != "" && theirs != "" && theirs != namespaceOf("self", kind)
	}
	switch theirs, differs := other("pid"); {
	case self == "":
	case self != strconv.Itoa(os.Getpid()):
		s.process = fmt.Sprintf("this process has the number %d, and %s in /proc", os.Getpid(), self)
	case differs:
		s.process = fmt.Sprintf("%s here, %s of the launcher", namespaceOf("self", "pid"), theirs)
	case launcher == "" && namespaceOf("self", "pid") != firstProcesses:
		s.process = fmt.Sprintf("%s, in which no launcher is above this process", namespaceOf("self", "pid"))
	}
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		ids := strings.Join(strings.Fields(string(b)), " ")
		// A launcher whose namespaces may be read is in the same one.
		theirs, differs := other("user")
		hidden := theirs == "" && (launcher != "" || s.process != "")
		if ids != wholeMap && (differs || hidden) {
			s.user = fmt.Sprintf("uid_map %q", ids)
		}
	}
	if theirs, differs := other("net"); differs {
		s.network = fmt.Sprintf("%s here, %s of the launcher", namespaceOf("self", "net"), theirs)
	} else if all, err := net.Interfaces(); err == nil && !slices.ContainsFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagUp != 0 }) {
		s.network = namespaceOf("self", "net") + " has no interface that is up"
	}
	for _, name := range []string{"PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH"} {
		if dir := env[name]; dir != "" {
			if _, err := os.Stat(dir); err != nil {
				s.store = fmt.Sprintf("%s=%s is not there", name, dir)
			}
		}
	}
	var ours, theirs unix.Stat_t
	if launcher != "" && unix.Stat("/dev/shm", &ours) == nil && unix.Stat(filepath.Join("/proc", launcher, "root/dev/shm"), &theirs) == nil && ours.Dev != theirs.Dev {
		s.shm = fmt.Sprintf("/dev/shm is device %d here, %d of the launcher", ours.Dev, theirs.Dev)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	s.ucx = err == nil && strings.Contains(string(maps), "/libucp.so")
	return s
}

// otherLaunchers are those of other MPI libraries and of Slurm, as launchers has
// Open MPI's.
var otherLaunchers = map[string]bool{"hydra_pmi_proxy": true, "pmi_proxy": true, "mpiexec.hydra": true, "mpiexec.mpich": true, "slurmstepd": true, "palsd": true}

// launcherOf finds the launcher above a process: its number in /proc, or "".
func launcherOf(pid string) string {
	for range 64 { // no chain of parents is that long
		n, err := strconv.Atoi(pid)
		if err != nil {
			return ""
		}
		if n, err = parentOf("/proc", n); err != nil || n == 0 {
			return ""
		}
		pid = strconv.Itoa(n)
		name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err != nil {
			return ""
		}
		if comm := strings.TrimSpace(string(name)); launchers[comm] || otherLaunchers[comm] {
			return pid
		}
	}
	return ""
}

// hint is a cause that was seen, and what takes it away: "set NAME=VALUE", mostly.
type hint struct{ seen, do string }

// hints gives what the MPI library is known to need in these surroundings and has
// not been given.
func (s surroundings) hints(abi mpi.ABI, env map[string]string) []hint {
	var out []hint
	add := func(seen, what, variable, value string) {
		if seen != "" && env[variable] == "" {
			out = append(out, hint{what + " (" + seen + ")", "set " + variable + "=" + value})
		}
	}
	switch abi {
	case mpi.OpenMPI:
		add(s.process, "this rank is in a process namespace of its own, where Open MPI's shared memory does not find the other ranks'", "OMPI_MCA_btl", "^vader")
		add(s.store, "this rank does not see the folder in which its launcher's PMIx keeps its data", "PMIX_MCA_gds", "hash")
	case mpi.MPICH:
		if s.shm != "" {
			out = append(out, hint{"this rank has a /dev/shm of its own, where MPICH does not find the other ranks' memory (" + s.shm + ")",
				"give the rank's container the launcher's /dev/shm; on one node --np needs no MPI"})
		}
		what, seen := "this rank is in a user namespace of its own, from which UCX may not open the other ranks' memory", s.user
		if seen == "" {
			what, seen = "this rank is in a process namespace of its own, where UCX does not find the other ranks'", s.process
		}
		if s.ucx {
			add(seen, what, "UCX_TLS", "^posix,cma")
		}
	}
	return out
}

// refusal is the error of a start of MPI that cannot succeed, in which Open MPI
// would end the process with words that do not name the cause.
func (s surroundings) refusal(ev Evidence, lib library, abi mpi.ABI, env map[string]string, h host) error {
	e := &failure.Error{Code: failure.Unavailable, What: "this rank cannot reach its launcher",
		Where: fmt.Sprintf("rank %d on %s, %s, %s", ev.Rank, h.Name, lib.Version(), lib.File()), By: failure.User}
	tcp := false
	for name, value := range env {
		tcp = tcp || strings.HasPrefix(name, "PMIX_SERVER_URI") && strings.Contains(value, "tcp")
	}
	if abi != mpi.OpenMPI || !tcp || s.network == "" {
		return nil
	}
	e.Why = "it is in a network namespace of its own, and Open MPI's launcher listens on a network interface (" + s.network + ")"
	e.Do = "give the rank's container the network of the launcher; where all is in one container, bring its loopback interface up (ip link set lo up); on one node --np needs no MPI"
	return e
}

// explain puts the hints into an error's why and remedy.
func explain(e *failure.Error, hints []hint) {
	for _, h := range hints {
		if e.Why != "" {
			e.Why += "; "
		}
		e.Why += h.seen
		e.Do = h.do + "; else " + e.Do
	}
}

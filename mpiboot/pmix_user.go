//go:build linux

package mpiboot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// envPMIxSecurity is PMIx's variable for how a launcher knows its ranks.
const envPMIxSecurity = "PMIX_MCA_psec"

// strangeToPMIx refuses a rank that Open MPI's launcher would not recognise: it
// compares the user and group numbers that a rank says it has with those that the
// kernel shows the launcher, and these differ in a user namespace of the rank's own
// that gives it other numbers, or none. MPI_Init then fails, after which mpirun of
// Open MPI 4 with PMIx 4 was seen to wait for itself for ever (a lock in
// PMIx_server_finalize), so that it is better not to call it. nil where the rank
// will be recognised, or where that cannot be told.
func strangeToPMIx(ev Evidence, environ []string, host string) error {
	if ev.Launcher != LauncherOpenMPI || variables(environ)[envPMIxSecurity] != "" || !launcherOutside("/proc", os.Getpid()) {
		return nil
	}
	for _, id := range []struct {
		kind, file string
		mine       int
	}{{"user", "/proc/self/uid_map", os.Geteuid()}, {"group", "/proc/self/gid_map", os.Getegid()}} {
		text, err := os.ReadFile(id.file)
		if err != nil {
			return nil
		}
		outside, mapped := outsideID(string(text), id.mine)
		if mapped && outside == id.mine {
			continue
		}
		why := fmt.Sprintf("it says that it is %s %d, and mpirun sees %d", id.kind, id.mine, outside)
		if !mapped {
			why = fmt.Sprintf("it says that it is %s %d, which its user namespace maps to nobody", id.kind, id.mine)
		}
		return &failure.Error{Code: failure.Unavailable, What: "Open MPI's mpirun would not recognise this rank, so MPI_Init was not called", Where: fmt.Sprintf("rank %d on %s, %s", ev.Rank, host, id.file), Why: why,
			Do: "start the container so that it keeps the user's numbers (without --fakeroot; unshare -Uc), or set " + envPMIxSecurity + "=none for mpirun; on one node --np needs no MPI", By: failure.User}
	}
	return nil
}

// launcherOutside says whether the process that started this rank's job is seen to
// be in another user namespace than process pid. proc is /proc.
func launcherOutside(proc string, pid int) bool {
	mine, err := os.Readlink(filepath.Join(proc, "self/ns/user"))
	if err != nil {
		return false
	}
	for range 64 { // no chain of parents is that long
		parent, err := parentOf(proc, pid)
		switch {
		case err != nil:
			return false
		case parent == 0:
			// The first process of a namespace of processes: whoever started it is
			// outside, the launcher too. Unless this is the host's first process.
			return pid != 1 || os.Getpid() == 1
		}
		pid = parent
		name, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "comm"))
		if err != nil {
			return false
		}
		if launchers[strings.TrimSpace(string(name))] {
			// Of a process with the same user in the same namespace it can be read.
			theirs, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "ns/user"))
			return errors.Is(err, fs.ErrPermission) || err == nil && theirs != mine
		}
	}
	return false
}

// launchers are Open MPI's launchers and daemons by the names of their processes,
// which Linux cuts to 15 bytes.
var launchers = map[string]bool{"mpirun": true, "mpirun.openmpi": true, "mpiexec": true, "mpiexec.openmpi": true, "orterun": true, "orted": true, "prterun": true, "prte": true, "prted": true}

// parentOf reads the parent of a process, 0 where that is outside its namespace.
func parentOf(proc string, pid int) (int, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have anything in it.
	_, rest, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, fmt.Errorf("stat of process %d: %q", pid, text)
	}
	return strconv.Atoi(fields[1])
}

// outsideID translates a number by a map of /proc/self/uid_map, mapped is false
// for one that has no number outside.
func outsideID(text string, id int) (outside int, mapped bool) {
	for line := range strings.Lines(text) {
		var inside, out, count int
		if n, err := fmt.Sscan(line, &inside, &out, &count); n != 3 || err != nil {
			continue
		}
		if id >= inside && id-inside < count {
			return out + id - inside, true
		}
	}
	return 0, false
}

//go:build linux

package doctor

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

const (
	// fewFiles is a limit on open files with which sharing memory among 8 ranks,
	// MPI and the driver together may run out.
	fewFiles = 256
	// smallShared is the size of /dev/shm that Docker gives, and that MPI and NCCL
	// use up.
	smallShared = 64 << 20
)

// limits looks at what the process may have of the host.
func limits(s *System) []Finding {
	return []Finding{openFiles(s), processes(s), fileSize(s), lockedMemory(s), addressSpace(s), sharedMemory(s), temporary(s)}
}

// limit reads one resource limit; f is the finding if it cannot be read.
func (s *System) limit(id, name string, resource int) (cur uint64, e Evidence, f *Finding) {
	l, err := s.Limit(resource)
	if err != nil {
		u := unsure(id, "the limit "+name, err, "getrlimit")
		return 0, Evidence{}, &u
	}
	value := fmt.Sprintf("%s = %d", name, l.Cur)
	if l.Cur == math.MaxUint64 {
		value = name + " = unlimited"
	}
	return l.Cur, Evidence{value, "getrlimit"}, nil
}

func openFiles(s *System) Finding {
	const id = "limits.files"
	n, e, f := s.limit(id, "RLIMIT_NOFILE", unix.RLIMIT_NOFILE)
	switch {
	case f != nil:
		return *f
	case n < fewFiles:
		return Finding{ID: id, Severity: Warning, What: fmt.Sprintf("only %d files may be open: memory handles are files, and MPI and the driver need more", n),
			Evidence: []Evidence{e}, Do: "ulimit -n 4096, or LimitNOFILE of the batch system's daemon", By: failure.User}
	}
	return Finding{ID: id, Severity: OK, What: "enough files may be open", Evidence: []Evidence{e}}
}

// fewProcesses is a limit on processes, of which threads are some, with which eight
// ranks and their probe processes may run out.
const fewProcesses = 512

func processes(s *System) Finding {
	const id = "limits.processes"
	n, e, f := s.limit(id, "RLIMIT_NPROC", unix.RLIMIT_NPROC)
	switch {
	case f != nil:
		return *f
	case s.User == 0:
		return Finding{ID: id, Severity: OK, What: "the limit on processes does not bind root", Evidence: []Evidence{e}}
	case n < fewProcesses:
		return Finding{ID: id, Severity: Warning, What: fmt.Sprintf("this user may have only %d processes, on the whole host, and threads count: Go, MPI and the driver make many", n),
			Evidence: []Evidence{e}, Do: "ulimit -u 4096, or LimitNPROC of the batch system's daemon", By: failure.User}
	}
	return Finding{ID: id, Severity: OK, What: "enough processes may run", Evidence: []Evidence{e}}
}

func fileSize(s *System) Finding {
	const id = "limits.file-size"
	n, e, f := s.limit(id, "RLIMIT_FSIZE", unix.RLIMIT_FSIZE)
	switch {
	case f != nil:
		return *f
	case n != math.MaxUint64:
		return Finding{ID: id, Severity: Warning, What: "the size of files is limited: the software device's memory and MPI's shared memory are files, and so are results", Evidence: []Evidence{e},
			Do: "ulimit -f unlimited", By: failure.User}
	}
	return Finding{ID: id, Severity: OK, What: "the size of files is not limited", Evidence: []Evidence{e}}
}

func lockedMemory(s *System) Finding {
	const id = "limits.locked-memory"
	n, e, f := s.limit(id, "RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK)
	switch {
	case f != nil:
		return *f
	case n < 64<<20:
		return Finding{ID: id, Severity: Info, What: "little memory may be locked: InfiniBand in MPI or NCCL may fail; this program locks none", Evidence: []Evidence{e}}
	}
	return Finding{ID: id, Severity: OK, What: "memory may be locked", Evidence: []Evidence{e}}
}

func addressSpace(s *System) Finding {
	const id = "limits.address-space"
	n, e, f := s.limit(id, "RLIMIT_AS", unix.RLIMIT_AS)
	switch {
	case f != nil:
		return *f
	case n != math.MaxUint64:
		return Finding{ID: id, Severity: Warning, What: "address space is limited: CUDA reserves far more than it uses, and so does the software device", Evidence: []Evidence{e},
			Do: "ulimit -v unlimited", By: failure.User}
	}
	return Finding{ID: id, Severity: OK, What: "address space is not limited", Evidence: []Evidence{e}}
}

// sharedMemory looks at /dev/shm, which MPI and NCCL need and this program does
// not.
func sharedMemory(s *System) Finding {
	const id, dir = "shm", "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(s.path(dir), &st); err != nil {
		return unsure(id, "how much shared memory there is", err, "statfs "+dir)
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	f := Finding{ID: id, Severity: OK, What: "enough shared memory for MPI and NCCL; this program needs none",
		Evidence: evidence(humanBytes(free)+" free", "statfs "+dir)}
	if free < smallShared {
		f.Severity = Warning
		f.What = "little shared memory: MPI and NCCL may end with \"No space left on device\"; this program needs none"
		f.Do, f.By = "start the container with --shm-size=1g or --ipc=host, or clean "+dir, failure.User
	}
	return f
}

// temporary tries to make a file where programs make theirs.
func temporary(s *System) Finding {
	const id = "tmp"
	dir := s.getenv("TMPDIR")
	if dir == "" {
		dir = "/tmp"
	}
	t, err := os.CreateTemp(s.path(dir), "nvls-allreduce-doctor")
	if err != nil {
		return Finding{ID: id, Severity: Warning, Outcome: No, What: "no file can be made in " + dir + ": MPI keeps its session there; this program needs it only if socket_dir says so",
			Evidence: evidence(err.Error(), "creating a file"), Do: "set TMPDIR to a folder that can be written", By: failure.User}
	}
	t.Close()
	if err := os.Remove(t.Name()); err != nil {
		return unsure(id, "whether files in "+dir+" can be removed", err, "removing a file")
	}
	return Finding{ID: id, Severity: OK, Outcome: Yes, What: "files can be made in " + dir, Evidence: evidence("done", "creating and removing a file")}
}

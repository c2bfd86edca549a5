//go:build linux

package leftovers

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// envNamespace has the mount namespace that Isolate made, as the kernel names it.
// Set by hand, to "none" for instance under a debugger, it keeps Isolate from
// making one.
const envNamespace = "NVLS_ALLREDUCE_TEST_NAMESPACE"

// isolated says whether this process runs in such a namespace.
func isolated() bool {
	own, err := os.Readlink("/proc/self/ns/mnt")
	return err == nil && os.Getenv(envNamespace) == own
}

// namespaces begins a command line in namespaces of mounts and processes. When
// its process ends, however it does, all in them ends.
var namespaces = []string{"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"}

// Isolate gives the test binary, which calls it first in TestMain, a /dev/shm and
// process numbers of its own: it starts the binary once more in namespaces. Then
// all that is found there is of this test. What killed ranks leave in /dev/shm for
// MPI goes with it, and so does what the test mounts or leaves running, even where
// it is killed itself. Only root can have it, and not in every container; else it
// does nothing, and Check looks for less.
func Isolate() {
	if os.Geteuid() != 0 || os.Getenv(envNamespace) != "" {
		return
	}
	unshare, err := exec.LookPath(namespaces[0])
	if err != nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	const mount = "mount -t tmpfs -o mode=1777 shm " + machineSharedMemory
	shell := append(namespaces, "/bin/sh", "-c")
	if exec.Command(unshare, append(shell[1:], mount)...).Run() != nil {
		return // not permitted here
	}
	// The shell stays: it reaps processes whose parents have ended.
	script := mount + ` && ` + envNamespace + `=$(readlink /proc/self/ns/mnt) && export ` + envNamespace + ` && "$@"; exit $?`
	argv := append(shell, script, "sh", self)
	err = syscall.Exec(unshare, append(argv, os.Args[1:]...), os.Environ())
	fmt.Fprintf(os.Stderr, "%s: %v\n", unshare, err)
	os.Exit(1)
}

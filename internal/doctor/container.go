//go:build linux

package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/container"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// container names the container that the process is in.
func (s *System) container() (container.Sign, error) {
	return container.Detect(container.System{Getenv: s.getenv, Exists: s.exists, Read: s.read})
}

// inContainer tells about the container that the process is in.
func inContainer(s *System) Finding {
	f := Finding{ID: "container", Severity: Info}
	switch sign, err := s.container(); {
	case sign.Kind != container.None:
		f.What, f.Evidence = "in a container of "+sign.Name, evidence(sign.Value, sign.From)
	case err != nil:
		f.Outcome, f.What, f.Evidence = Unknown, "no sign of a container, but not every sign could be looked for", evidence(err.Error(), "file system")
	default:
		f.What, f.Evidence = "no sign of a container", evidence("none", container.Searched)
	}
	return f
}

// withGPUs says how this container is started with the host's GPUs and libraries,
// and so gets what follows; otherwise is what to do where there is no container.
func (s *System) withGPUs(follows, otherwise string) string {
	sign, _ := s.container()
	if do := sign.Kind.WithGPUs(); do != "" {
		return do + follows
	}
	return otherwise
}

func firstLineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// namespaceKinds are those that matter between ranks of a host.
var namespaceKinds = []string{"user", "pid", "net", "ipc", "mnt"}

// namespaces gives the identity of each namespace of this process, by kind. What
// cannot be read is absent.
func (s *System) namespaces() map[string]string {
	out := map[string]string{}
	for _, kind := range namespaceKinds {
		if id, err := os.Readlink(s.path("/proc/self/ns/" + kind)); err == nil {
			out[kind] = id
		}
	}
	return out
}

// mpiRemedy turns off what MPI libraries cannot do between user namespaces.
const mpiRemedy = "UCX_TLS=^posix,cma with UCX (MPICH), OMPI_MCA_btl_vader_single_copy_mechanism=none with Open MPI 4"

// vaderRemedy keeps Open MPI 4 from its shared-memory transport, which crashes (in
// the first broadcast, with 4.1.4) where each rank is process 1 of a namespace.
const vaderRemedy = "OMPI_MCA_btl=^vader"

// compareNamespaces looks for namespaces that the ranks of this host do not
// share. all is by local rank, ranks are the world's numbers of them.
func compareNamespaces(ranks []int, all []map[string]string) []Finding {
	differ := func(kind string) (e []Evidence, differs, known bool) {
		known = true
		for i, ns := range all {
			if ns[kind] == "" {
				known = false
			}
			if ns[kind] != all[0][kind] {
				differs = true
			}
			e = append(e, Evidence{fmt.Sprintf("%s of rank %d", ns[kind], ranks[i]), "/proc/self/ns/" + kind})
		}
		return e, differs && known, known
	}
	var out []Finding
	for _, k := range []struct {
		kind, what, do string
		severity       Severity
	}{
		{"user", "the ranks are in different user namespaces: MPI may fail where it copies from process to process (CMA) or opens another process's memory file; this program does neither",
			mpiRemedy, Warning},
		{"pid", "the ranks are in different process namespaces, which does no harm here: no process number is exchanged; Open MPI 4 can break on it where it uses shared memory", vaderRemedy + ", if MPI breaks", Info},
		{"net", "the ranks are in different network namespaces, where abstract sockets do not reach; they met over a folder (socket_dir)", "", Info},
		{"ipc", "the ranks are in different IPC namespaces: MPI or NCCL may not find each other's shared memory; this program needs none", "", Info},
	} {
		e, differs, known := differ(k.kind)
		f := Finding{ID: "namespaces." + k.kind, Severity: k.severity, What: k.what, Evidence: e, Do: k.do}
		switch {
		case !known:
			f = Finding{ID: f.ID, Severity: Warning, Outcome: Unknown, What: "whether the ranks share the " + k.kind + " namespace", Evidence: e}
		case !differs:
			continue
		}
		if f.Do != "" {
			f.By = failure.User
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		out = append(out, Finding{ID: "namespaces", Severity: OK, Outcome: Yes, What: "the ranks share the user, process, network and IPC namespaces",
			Evidence: evidence(fmt.Sprint(all[0]["net"]), "/proc/self/ns/net")})
	}
	return out
}

// confinement reports seccomp, and the one call that container runtimes are
// known to forbid and NCCL uses.
func confinement(s *System) []Finding {
	const id = "seccomp"
	status, err := s.read("/proc/self/status")
	if err != nil {
		return []Finding{unsure(id, "whether a seccomp filter is on", err, "/proc/self/status")}
	}
	mode := strings.TrimSpace(strings.TrimPrefix(firstLineWith(status, "Seccomp:"), "Seccomp:"))
	f := Finding{ID: id, Severity: Info, What: "no seccomp filter", Evidence: evidence("Seccomp: "+mode, "/proc/self/status")}
	switch mode {
	case "":
		return []Finding{{ID: id, Severity: Info, Outcome: Unknown, What: "whether a seccomp filter is on", Evidence: evidence("no line Seccomp", "/proc/self/status")}}
	case "0":
		return []Finding{f}
	}
	f.What = "a seccomp filter is on; what it forbids shows in the probes below"
	if _, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, 0, 0, 0, 0, 0, 0); errno == unix.EPERM {
		f.What = "a seccomp filter is on and forbids get_mempolicy, which NCCL uses for host memory; this program does not"
		f.Evidence = append(f.Evidence, Evidence{"EPERM", "get_mempolicy"})
		f.Do, f.By = "for NCCL: --cap-add SYS_NICE at the container, or NCCL_CUMEM_HOST_ENABLE=0", failure.User
	}
	return []Finding{f}
}

// ownUserNamespace says whether this process is in a user namespace other than
// the host's, as far as its map of users shows.
func (s *System) ownUserNamespace() bool {
	ids, err := s.read("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(ids), " ") != "0 0 4294967295"
}

//go:build linux

package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// launcher says what started the ranks and which MPI library they use, or would
// use. A library that does not belong to its launcher keeps the ranks from
// meeting, which the finding "ranks" tells.
func (d *doctor) launcher(ev mpiboot.Evidence) []Finding {
	f := Finding{ID: "launcher", Severity: Info}
	for _, field := range []string{"Rank", "Size", "LocalRank", "LocalSize"} {
		// Rank numbers differ between ranks, and would keep equal findings apart.
		if name := ev.From[field]; name != "" {
			value := name
			if field == "Size" || field == "LocalSize" {
				value += "=" + d.system.getenv(name)
			}
			// The own launcher has one variable for both kinds of a number.
			if e := (Evidence{value, "environment"}); !slices.Contains(f.Evidence, e) {
				f.Evidence = append(f.Evidence, e)
			}
		}
	}
	switch ev.Launcher {
	case "":
		return nil // it could not be told, and another finding says why
	case mpiboot.LauncherNone:
		f.What = "started by hand, as one process"
		if ev.Note != "" {
			f.Severity, f.What = Warning, ev.Note
			f.Do, f.By = "use srun (see docs/slurm.md), or --np N", failure.User
		}
	default:
		f.What = "started by " + map[string]string{
			mpiboot.LauncherOpenMPI: "Open MPI's mpirun", mpiboot.LauncherMPICH: "an mpiexec of the MPICH family",
			mpiboot.LauncherSlurm: "srun --mpi=" + ev.PMI, mpiboot.LauncherLocal: "this program's own --np"}[ev.Launcher]
		if ev.Size > 0 {
			f.What += " as one of " + count(ev.Size, "rank")
		}
	}
	out := []Finding{f}
	if d.world != nil && ev.LocalRank >= 0 && ev.LocalRank != d.world.Node().Rank() {
		out = append(out, Finding{ID: "launcher.local-rank", Severity: Warning, Outcome: No,
			What:     fmt.Sprintf("the launcher counts this rank as local rank %d, but it is %d among the ranks of its host", ev.LocalRank, d.world.Node().Rank()),
			Evidence: evidence(ev.From["LocalRank"]+"="+fmt.Sprint(ev.LocalRank), "environment"),
			Do:       "if the ranks are in containers with host names of their own, see the finding ranks; otherwise nothing", By: failure.User})
	}
	if d.world != nil && ev.LocalSize > 0 && ev.LocalSize != d.world.Node().Size() {
		out = append(out, Finding{ID: "launcher.local-size", Severity: Warning, Outcome: No,
			What:     fmt.Sprintf("the launcher says that it started %s on this host, and %d met", count(ev.LocalSize, "rank"), d.world.Node().Size()),
			Evidence: evidence(ev.From["LocalSize"]+"="+fmt.Sprint(ev.LocalSize), "environment", fmt.Sprint(d.world.Node().Size()), "ranks with this one's host name and boot id"),
			Do:       "if the ranks are in containers with host names of their own, see the finding ranks; otherwise see that no stale variable is exported", By: failure.User})
	}
	if d.world == nil && ev.Size > 1 {
		return out // whether MPI works is what the finding "ranks" is about
	}
	return append(out, d.library())
}

// library is the MPI library: the one in use, or the one that would be found.
func (d *doctor) library() Finding {
	const id = "mpi"
	if d.world != nil && d.world.Library() != "" {
		return Finding{ID: id, Severity: OK, Outcome: Yes, What: "MPI works", Evidence: evidence(d.world.Library(), "MPI_Get_library_version")}
	}
	b := d.Config.Bootstrap
	lib, err := mpi.Open(mpi.Search{File: b.MPILibrary, Dirs: mpi.SearchDirs(d.system.getenv)})
	if err != nil {
		return Finding{ID: id, Severity: Info, Outcome: No, What: "no MPI library is found here; ranks on one node need none with --np", Evidence: evidence(err.Error(), "dlopen"),
			Do: "for mpirun or srun: load the MPI module, bind the host's library into the container, or set mpi_library under [bootstrap]", By: failure.User}
	}
	return Finding{ID: id, Severity: Info, What: "an MPI library would be found; it is not in use, and only under its launcher can be seen whether it works",
		Evidence: evidence(lib.Version()+" ("+lib.File()+")", "dlopen")}
}

// descriptors passes a file descriptor between all ranks of the node.
func descriptors(ctx context.Context, node *mpiboot.Node, socketDir string) Finding {
	const id = "descriptors"
	socket := "abstract Unix sockets"
	if socketDir != "" {
		socket = "Unix sockets in " + socketDir
	}
	if err := roundTrip(ctx, node); err != nil {
		f := fromError(id, "memory handles cannot be passed between the ranks", err, allModes, "passing a memory file over "+socket)
		if f.Do == "" {
			f.Do, f.By = "raise the limit on open files (ulimit -n); look at the container's seccomp profile; set socket_dir under [bootstrap] to a folder that all ranks share", failure.User
		}
		return f
	}
	return Finding{ID: id, Severity: OK, Outcome: Yes, What: "descriptors pass between all ranks by SCM_RIGHTS: no ptrace permission, no pidfd_getfd and no IMEX channel is needed",
		Evidence: evidence(fmt.Sprintf("%d ranks, each read every other's memory file", node.Size()), socket)}
}

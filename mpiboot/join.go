//go:build linux

package mpiboot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// DefaultTimeout is how long a rank waits for another where Options do not say.
const DefaultTimeout = 30 * time.Second

// Options are the [bootstrap] part of the configuration.
type Options struct {
	Launcher   string        // one of the Launcher constants; "" is "auto"
	MPILibrary string        // file of the MPI library; "" to look for one
	SocketDir  string        // directory for the sockets; "" for abstract names
	Timeout    time.Duration // bound of every wait for other ranks; 0 is DefaultTimeout
	Stderr     io.Writer     // for what Finish and Abort have to say; nil is os.Stderr
	// Environ is where the launcher's variables are looked for, in the form of
	// os.Environ; nil is the process's own. With the variables of Launch, ranks
	// can be goroutines of one process.
	Environ []string
	// Build names this program's build. Ranks of different builds are refused
	// when they connect; "" is compared like any other.
	Build string
	// Stage, when set, is told every stage before this rank enters it, with the
	// rank as far as it is known. For tests, which let a rank die there.
	Stage func(rank int, stage string)
}

// Join finds this process's place and connects it to the others. A process
// joins once. ExitCodeOf gives the exit code of an error.
//
// On an error the World is nil, except where MPI is running and other ranks may
// wait for this one: end with w.Abort(ExitCodeOf(err), err), which is right
// in both cases.
func Join(ctx context.Context, o Options) (*World, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	ev, err := detect(o.Environ, o.Launcher)
	if err != nil {
		return nil, err
	}
	h, err := thisHost()
	if err != nil {
		return nil, failure.Wrap(failure.Internal, err, "cannot tell which host this is")
	}
	w := &World{evidence: ev, rank: ev.Rank, timeout: o.Timeout, stderr: o.Stderr, stage: o.Stage, exit: os.Exit}
	if w.timeout <= 0 {
		w.timeout = DefaultTimeout
	}
	if w.stderr == nil {
		w.stderr = os.Stderr
	}
	byMPI := ev.Launcher != LauncherNone && ev.Launcher != LauncherLocal
	switch {
	case ev.Launcher == LauncherLocal:
		return w.joinLocal(ctx, o, h, variables(o.Environ)[EnvUniqueID])
	case byMPI && (ev.Size != 1 || o.MPILibrary != ""):
		return w.joinMPI(ctx, o, h)
	}
	// One process needs no MPI, whatever started it, and then cannot fail for
	// want of one.
	return w.joinLocal(ctx, o, h, NewUniqueID().String())
}

// maxLocal is far above the ranks of any host, and keeps a strange environment
// from filling the memory.
const maxLocal = 1 << 12

// joinLocal connects the ranks of Launch, and a world of one to nobody.
func (w *World) joinLocal(ctx context.Context, o Options, h host, id string) (*World, error) {
	var err error
	if w.id, err = ParseUniqueID(id); err != nil {
		return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("environment variable %s=%q cannot be used", EnvUniqueID, id), Err: err,
			Do: "let the program set it: --np N", By: failure.User}
	}
	w.rank, w.size = w.evidence.Rank, w.evidence.Size
	if w.size > maxLocal {
		return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("environment variable %s=%d cannot be used", EnvSize, w.size), Why: fmt.Sprintf("this program starts at most %d ranks", maxLocal),
			Do: "let the program set it: --np N", By: failure.User}
	}
	cfg := meshConfig{id: w.id, me: w.rank, host: h.Name, timeout: w.timeout, build: o.Build, log: w.stderr, enter: w.enter}
	for r := range w.size {
		cfg.world = append(cfg.world, r)
		cfg.sockets = append(cfg.sockets, socketName(o.SocketDir, w.id, r))
		w.hosts = append(w.hosts, h)
	}
	if w.size == 1 {
		w.node = newNode(cfg, make([]*peer, 1))
		return w, nil
	}
	l, err := listen(cfg.sockets[w.rank])
	if err != nil {
		return nil, err
	}
	w.node, err = connect(ctx, cfg, l)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// joinMPI learns rank and size from MPI, checks them, and connects the ranks
// of each host.
func (w *World) joinMPI(ctx context.Context, o Options, h host) (*World, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ev := w.evidence
	if ev.PMI == "none" && ev.Size > 1 {
		return nil, &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("srun started %d ranks that have no way to find each other", ev.Size),
			Where: h.Name, Why: "neither PMIX_RANK nor PMI_RANK is set: srun ran with --mpi=none, or the container dropped the environment",
			Do: "use srun --mpi=pmix with Open MPI or --mpi=pmi2 with MPICH (srun --mpi=list shows what there is); in a container keep the environment", By: failure.User}
	}
	lib, err := mpi.Open(mpi.Search{File: o.MPILibrary, Prefer: familyOf(ev), Dirs: mpi.SearchDirs(os.Getenv)})
	if err != nil {
		return nil, &failure.Error{Code: failure.Unavailable, What: fmt.Sprintf("cannot open an MPI library for the %s launcher", ev.Launcher), Where: h.Name, Err: err,
			Do: "load the MPI module, or bind the library into the container, or set mpi_library under [bootstrap]; on one node --np needs no MPI", By: failure.User}
	}
	w.lib = lib
	if lib.ABI() == mpi.OpenMPI {
		if err := strangeToPMIx(ev, o.Environ, h.Name); err != nil {
			return nil, err
		}
	}
	if ev.PMI == "pmi2" && lib.ABI() == mpi.OpenMPI {
		// It ends the process by _exit, after which nothing can be said.
		fmt.Fprintf(w.stderr, "nvls-allreduce: srun offers PMI-2, which %s may not speak: if MPI_Init ends this process, %s\n", lib.Version(), remedy(ev))
	}
	env := variables(o.Environ)
	around := look(env)
	if err := around.refusal(ev, lib, lib.ABI(), env, h); err != nil {
		return nil, err
	}
	w.hints = around.hints(lib.ABI(), env)
	if ev.Launcher == LauncherMPICH && ev.LocalRank <= 0 {
		// Its launcher reads nothing any more after an abort.
		for _, hint := range w.hints {
			fmt.Fprintf(w.stderr, "nvls-allreduce: %s: if MPI ends this process now, %s\n", hint.seen, hint.do)
		}
	}
	if ev.Launcher == LauncherOpenMPI && ev.LocalSize == ev.Size && lib.ABI() == mpi.OpenMPI {
		if err := finalizeAlone(env); err != nil {
			return nil, err
		}
	}
	w.enter(StageInit)
	comm, err := lib.Init(ctx, endedInInit(ev, lib, h, w.hints), w.crashedInMPI(h, StageInit))
	if err != nil {
		e := &failure.Error{Code: failure.CodeOf(err), What: "MPI could not be initialized", Err: err,
			Where: fmt.Sprintf("rank %d on %s, %s, %s", ev.Rank, h.Name, lib.Version(), lib.File()), Do: remedy(ev), By: failure.User}
		if e.Code == failure.Timeout {
			e.Do = "see what the other ranks printed; if they were only slow, raise timeout under [bootstrap]"
		}
		explain(e, w.hints)
		return nil, e
	}
	if err := checkWorld(ev, comm.Rank(), comm.Size(), lib, h); err != nil {
		comm.Finalize(ctx)
		return nil, err
	}
	w.comm, w.rank, w.size = comm, comm.Rank(), comm.Size()
	w.hosts = make([]host, w.size)
	w.hosts[w.rank] = h

	var id UniqueID
	if w.rank == 0 {
		id = NewUniqueID()
	}
	w.enter("unique id")
	var b []byte
	err = comm.Guarded(ctx, w.crashedInMPI(h, "unique id"), func() (err error) {
		b, err = comm.Bcast(ctx, "unique id", 0, id[:])
		return err
	})
	if err != nil {
		return w, w.failedMPI(h, err)
	}
	copy(w.id[:], b)

	// From here an error of this rank alone waits until the vote.
	name := socketName(o.SocketDir, w.id, w.rank)
	l, mine := listen(name)
	if mine == nil {
		h.Socket = name
	}
	record, err := json.Marshal(h)
	if err != nil {
		return w, failure.Wrap(failure.Internal, err, "host record")
	}
	w.enter("hosts")
	var records [][]byte
	err = comm.Guarded(ctx, w.crashedInMPI(h, "hosts"), func() (err error) {
		records, err = comm.Allgather(ctx, "hosts", record)
		return err
	})
	if err != nil {
		return w, w.failedMPI(h, err)
	}
	ballotRanks := make([]int, w.size)
	for r := range records {
		ballotRanks[r] = r
		if err := json.Unmarshal(records[r], &w.hosts[r]); err != nil {
			return w, failure.Wrap(failure.Internal, err, "the host record of rank %d cannot be read", r)
		}
	}
	if mine == nil {
		w.node, mine = w.connectHost(ctx, o, l)
	}
	ballot, err := json.Marshal(Verdict{Rank: w.rank, OK: mine == nil, Text: errorText(mine), Code: failure.CodeOf(mine)})
	if err != nil {
		return w, failure.Wrap(failure.Internal, err, "ballot")
	}
	// The slowest rank gives up on its peers when ctx ends, so the vote needs
	// time of its own.
	voteCtx, cancelVote := context.WithTimeout(context.WithoutCancel(ctx), w.timeout)
	defer cancelVote()
	w.enter("vote on the connections")
	ballots, err := comm.Allgather(voteCtx, "vote on the connections", ballot)
	if err != nil {
		// What this rank found says which rank is missing; the vote does not.
		return w, w.failedMPI(h, errors.Join(mine, err))
	}
	if err := outcome(stageMesh, ballotRanks, ballots); err != nil {
		if w.node != nil {
			w.node.leave(failure.CodeOf(err))
		}
		if o.SocketDir == "" {
			if e := separateNetworks(w.hosts, w.rank, err); e != nil {
				err = e
			}
		}
		// All ranks know, so all leave without an MPI_Abort. MPI_Finalize may be without
		// a wait in which messages still get through.
		comm.Barrier(voteCtx, "end of the vote")
		comm.Finalize(voteCtx)
		return nil, err
	}
	return w, nil
}

// asyncFinalize is Open MPI's parameter by which a rank leaves MPI_Finalize without
// waiting there for the others.
const asyncFinalize = "OMPI_MCA_async_mpi_finalize"

// finalizeAlone makes MPI_Finalize of Open MPI wait for no other rank, unless the user
// decided about it. That wait is a fence of PMIx in mpirun, and PMIx (4.2.2; by their
// sources 5.0 and 6.1 too) does not stand ranks ending in it: when it learns at once
// that the last rank which had not come has ended, and one which had, it answers the
// fence twice. mpirun then hangs or crashes on freed memory, where it was ending the
// job after a timeout.
// All ranks are on one host, where they meet by World.Node before and after: no message
// of MPI is under way in Finish.
func finalizeAlone(env map[string]string) error {
	if _, set := env[asyncFinalize]; set {
		return nil
	}
	if err := os.Setenv(asyncFinalize, "1"); err != nil {
		return failure.Wrap(failure.Internal, err, "setting %s", asyncFinalize)
	}
	return nil
}

// connectHost connects the ranks that share this one's host.
func (w *World) connectHost(ctx context.Context, o Options, l *net.UnixListener) (*Node, error) {
	cfg := meshConfig{id: w.id, host: w.Host(), timeout: w.timeout, build: o.Build, log: w.stderr, enter: w.enter}
	for r, h := range w.hosts {
		if h.Identity != w.hosts[w.rank].Identity {
			continue
		}
		if h.Socket == "" {
			l.Close()
			return nil, failure.New(failure.Internal, "rank %d does not listen", r)
		}
		if r == w.rank {
			cfg.me = len(cfg.world)
		}
		cfg.world = append(cfg.world, r)
		cfg.sockets = append(cfg.sockets, h.Socket)
	}
	return connect(ctx, cfg, l)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return shorten(err.Error(), 16<<10)
}

func (w *World) failedMPI(h host, err error) error {
	e := &failure.Error{Code: failure.CodeOf(err), What: "the ranks could not be introduced to each other",
		Where: fmt.Sprintf("rank %d on %s, %s, %s", w.rank, h.Name, w.lib.Version(), w.lib.File()), Err: err,
		Do: "see what the other ranks printed; if they were only slow, raise timeout under [bootstrap]", By: failure.User}
	explain(e, w.hints)
	return e
}

// crashedInMPI is what the user reads if the library crashes in one of its first
// calls.
func (w *World) crashedInMPI(h host, stage string) string {
	e := &failure.Error{What: fmt.Sprintf("the MPI library crashed at stage %q", stage),
		Where: fmt.Sprintf("rank %d on %s, %s, %s", w.rank, h.Name, w.lib.Version(), w.lib.File()),
		Do:    "try another program with this MPI library; on one node --np needs no MPI", By: failure.User}
	explain(e, w.hints)
	return lastWords(e)
}

// familyOf is the family of MPI libraries that can talk to the launcher.
func familyOf(ev Evidence) mpi.ABI {
	switch {
	case ev.Launcher == LauncherOpenMPI, ev.PMI == "pmix":
		return mpi.OpenMPI
	case ev.Launcher == LauncherMPICH, ev.PMI == "pmi2":
		return mpi.MPICH
	}
	return 0
}

// launcherName says how the ranks were started, for messages.
func launcherName(ev Evidence) string {
	switch ev.Launcher {
	case LauncherOpenMPI:
		return "Open MPI's mpirun"
	case LauncherMPICH:
		return "an mpiexec of the MPICH family"
	case LauncherSlurm:
		return "srun --mpi=" + ev.PMI
	}
	return ev.Launcher
}

// remedy names the way out of a launcher and a library that do not fit.
func remedy(ev Evidence) string {
	switch {
	case ev.Launcher == LauncherOpenMPI:
		return "start it with the mpirun of this library, or set mpi_library under [bootstrap] to the libmpi.so.40 of the Open MPI whose mpirun was used"
	case ev.Launcher == LauncherMPICH:
		return "start it with the mpirun of this library, or set mpi_library under [bootstrap] to the libmpich.so.12 or libmpi.so.12 of the MPI whose mpiexec was used"
	case ev.PMI == "pmix":
		return "use an MPI built with PMIx (Open MPI), or srun --mpi=pmi2 for MPICH, or set mpi_library under [bootstrap]"
	}
	return "use srun --mpi=pmix for Open MPI, or an MPICH library with --mpi=pmi2, or set mpi_library under [bootstrap]"
}

// checkWorld refuses a world that is not the launcher's. A library that does
// not understand its launcher does not fail: it makes every rank a world of
// one. Where the launcher does not tell the size, all ranks but 0 notice.
func checkWorld(ev Evidence, rank, size int, lib library, h host) error {
	e := &failure.Error{Code: failure.Unavailable,
		Where: fmt.Sprintf("rank %d on %s, %s, %s", ev.Rank, h.Name, lib.Version(), lib.File()),
		Why:   "launcher and library do not belong together",
		Do:    remedy(ev), By: failure.User}
	switch {
	case ev.Size > 0 && ev.Size != size:
		e.What = fmt.Sprintf("%s started %d ranks (%s=%d), but the MPI library sees a world of %d", launcherName(ev), ev.Size, ev.From["Size"], ev.Size, size)
	case ev.Size < 0 && size == 1 && ev.Rank > 0:
		e.What = fmt.Sprintf("%s started this process as rank %d (%s), but the MPI library sees a world of 1", launcherName(ev), ev.Rank, ev.From["Rank"])
	default:
		return nil
	}
	return e
}

// library is what messages tell of an MPI library.
type library interface {
	Version() string
	File() string
}

// endedInInit is what the user reads if the library ends the process.
func endedInInit(ev Evidence, lib library, h host, hints []hint) string {
	e := &failure.Error{What: "the MPI library ended this process inside MPI_Init",
		Where: fmt.Sprintf("rank %d on %s, %s, %s", ev.Rank, h.Name, lib.Version(), lib.File()),
		Why:   "it does not speak the interface that " + launcherName(ev) + " offers, or found it broken; its own words are above",
		Do:    remedy(ev), By: failure.User}
	explain(e, hints)
	return lastWords(e)
}

// lastWords is the line that is printed where only C code can print.
func lastWords(e *failure.Error) string {
	return fmt.Sprintf("nvls-allreduce: %s (exit code %d)\n", strings.ReplaceAll(e.Error(), "\n", " "), failure.Unavailable)
}

//go:build linux

package doctor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// askWitness makes a probe process the witness: it holds a report, and prints it
// when the doctor ends before it said that all is well.
const askWitness = "witness"

// wellMark is what the doctor writes after the report when it needs no witness
// any more.
var wellMark = []byte("\x00well")

// witness watches over MPI_Init, in which an MPI library may end the process: it
// starts a process that then tells what was found so far. The function that it
// gives back ends the watch. MPICH's launcher reads nothing any more after an
// abort; under it mpiboot.Join says beforehand what is to be known.
func (d *doctor) witness(ev mpiboot.Evidence) (well func()) {
	byMPI := ev.Launcher == mpiboot.LauncherOpenMPI || ev.Launcher == mpiboot.LauncherMPICH || ev.Launcher == mpiboot.LauncherSlurm
	if !byMPI || ev.Size == 1 || ev.Rank > 0 || len(d.Probe) == 0 {
		return func() {}
	}
	d.size = max(ev.Size, 1)
	text, err := d.render(d.report(merge([]int{0}, [][]Finding{slices.Concat(d.findings, d.launcher(ev), []Finding{d.endedInInit()})})))
	if err != nil {
		return func() {}
	}
	cmd := exec.Command(d.Probe[0], append(slices.Clone(d.Probe[1:]), request{Ask: askWitness}.argument())...)
	cmd.Env = d.system.Environ
	cmd.Stdout, cmd.Stderr = d.Stdout, d.Stderr
	// A session of its own: launchers end the process group of a rank.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(d.Stderr, "nvls-allreduce: should MPI end this process, nobody will tell: %v\n", err)
		return func() {}
	}
	_, err = in.Write(text)
	return func() {
		if err == nil {
			_, err = in.Write(wellMark)
		}
		in.Close()
		cmd.Wait()
	}
}

// endedInInit is the finding of a process that MPI ended.
func (d *doctor) endedInInit() Finding {
	f := costs("ranks", "this rank was ended before MPI_Init returned: by the MPI library, which says why in words of its own, or by the launcher because another rank ended", allModes,
		"see what MPI printed; if library and launcher do not belong together, set mpi_library under [bootstrap]; on one node --np needs no MPI", failure.User,
		Evidence{"the process is gone, and MPI_Init had not returned", "a second process that watched"})
	for _, limit := range d.findings {
		if limit.ID == "limits.files" && limit.Severity == Warning {
			f.Evidence = append(f.Evidence, Evidence{limit.What, "the finding limits.files"})
			f.Do = moreFiles + "; if that does not help: " + f.Do
		}
	}
	if ids, err := d.system.read("/proc/self/uid_map"); err == nil && d.system.ownUserNamespace() {
		f.Evidence = append(f.Evidence, Evidence{"a user namespace of its own: " + ids, "/proc/self/uid_map"})
		f.Do = "if MPI speaks of shared memory or of /proc, which user namespaces separate: set " + mpiRemedy + "; on one node --np needs no MPI"
	}
	if up, err := interfacesUp(); err == nil && len(up) == 0 {
		f.Evidence = append(f.Evidence, Evidence{"no network interface is up", "the finding network"})
		f.Do = noInterfaceRemedy + "; on one node --np needs no MPI"
	}
	return f
}

// beWitness is the other process.
func beWitness(stdin io.Reader, stdout io.Writer) failure.Code {
	// What ends the rank must not end its witness first.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	text, err := io.ReadAll(stdin)
	if err != nil || bytes.HasSuffix(text, wellMark) {
		return failure.OK
	}
	if _, err := stdout.Write(text); err != nil {
		fmt.Fprintf(os.Stderr, "nvls-allreduce: the doctor's report could not be written: %v\n", err)
		return failure.Internal
	}
	return failure.Unavailable
}

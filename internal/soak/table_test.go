//go:build linux

package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the tests of a whole soak leave for the document.
var (
	matrixTable []*cell
	placesTable []*place
	driverTable []*driverFault
)

const (
	document = "../../docs/failures.md"
	// fuzzed is what "make fuzz" printed, for as long as its first line says.
	fuzzed = "testdata/fuzz.txt"
)

// began is when the soak did.
var began = time.Now()

// what says how a run of the matrix ended, in a few words.
func (c *cell) what() string {
	switch {
	case len(c.problems) > 0:
		return "WRONG"
	case c.outcome.exit == 0:
		return "0"
	case c.named():
		return fmt.Sprint(c.outcome.exit)
	}
	return fmt.Sprintf("%d*", c.outcome.exit)
}

// row gives the cells of one launcher and point, a column for each action: what
// happened with rank 1 as the victim, and with rank 0.
func row(cells []*cell, l string, pt point) []string {
	var columns []string
	for _, a := range actions {
		var both []string
		for _, v := range victims {
			for _, c := range cells {
				if c.launcher.name == l && c.point == pt && c.action == a && c.victim == v {
					both = append(both, c.what())
				}
			}
		}
		columns = append(columns, strings.Join(both, " / "))
	}
	return columns
}

// TestZWriteDocument writes docs/failures.md from a whole soak. Its name makes it
// the last.
func TestZWriteDocument(t *testing.T) {
	if !everything() || os.Getenv("NVLS_ALLREDUCE_SOAK_ONLY") != "" || matrixTable == nil || placesTable == nil || driverTable == nil {
		t.Skip("only after a whole soak (make soak)")
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Failures and how runs end\n")
	p("Written by `make soak`, which took %.0f minutes on %d cores. Every cell is a run of the real program with one fault; internal/soak says how", time.Since(began).Minutes(), runtime.NumCPU())
	p("each is judged: every other rank is gone within the timeouts (here %v for ranks, %v for the device) plus %v, no process and no file", bootstrapTimeout, deviceTimeout, slack)
	p("is left, the message names stage and rank, all ranks have one exit code, exit code 0 is only for a complete result, and what was measured is")
	p("on disk and marked: `running` if rank 0 went without a word, `failed` or `interrupted` if it could still write.\n")
	p("`NVLS_ALLREDUCE_SOAK=all NVLS_ALLREDUCE_SOAK_ONLY='stop of rank 0 at verify' go test -v -timeout 2h ./internal/soak` runs the rows that match.\n")

	longest := time.Duration(0)
	for _, c := range matrixTable {
		if c.outcome.exit != 0 && c.slow == 0 {
			longest = max(longest, c.outcome.others)
		}
	}
	p("## A rank dies or falls silent\n")
	p("%d runs, %d not as they should be. The longest time until every other rank was gone: %.1f s.", len(matrixTable), failed(matrixTable), longest.Seconds())
	if n := slowed(matrixTable); n > 0 {
		p("%d of them with 2 to 8 times the timeouts: the machine had other work, and the ranks had not come to the stage in time.", n)
	}
	outlived := 0
	for _, c := range matrixTable {
		if c.outcome.outlived {
			outlived++
		}
	}
	p("A rank that is late sleeps in the middle of a call, where only its launcher can end it. Where that has gone without doing so, the rank wakes,")
	p("finds the others gone and ends: it is given its delay and %v for that, beyond the %v that other processes have. Ranks that needed it: %d.", slack, soon, outlived)
	p("mpirun of Open MPI 4.1.4 can hang or crash when it ends ranks: if a rank that others wait for in a fence of PMIx ends in the same moment as one")
	p("that waits there, PMIx (4.2.2; 5.0 and 6.1 by their sources) answers the fence twice, on freed memory. It did so in 1 of 6 to 20 runs of `stop` and `late` at MPI_Finalize.")
	p("Therefore MPI_Finalize waits for nobody where all ranks are on one host: `OMPI_MCA_async_mpi_finalize=1`, unless the user set it. What remains")
	p("are fences that Open MPI needs: in MPI_Init, if it does not return in time, and in MPI_Finalize over UCX. No rank is left then; a batch system's")
	p("time limit or `timeout -k 10 SECONDS mpirun …` ends mpirun. MPICH's mpiexec waits for a rank that stops after MPI_Finalize, and needs the same.")
	p("")
	p("At a stage, to rank 1 / to rank 0, which has the outputs: kill (SIGKILL), stop (SIGSTOP), exit (exit code 1 without a word), close (its")
	p("connections to other ranks), late (10 s), nofile (no descriptor can be opened from then on); and from then on no space where the results")
	p("are (disk) or in /dev/shm (shm). A cell has the launcher's exit codes; `*`: the launcher ended all ranks before one could speak, or they")
	p("waited in MPI, which tells the stage but not who is missing; `0`: the fault did no harm, the result is complete.")
	var launchers []string
	for _, c := range matrixTable {
		if !slices.Contains(launchers, c.launcher.name) {
			launchers = append(launchers, c.launcher.name)
		}
	}
	for _, l := range launchers {
		p("\n### %s\n\n| stage | %s |\n|---|%s", l, strings.Join(actions, " | "), strings.Repeat("---|", len(actions)))
		for _, pt := range points {
			if columns := row(matrixTable, l, pt); strings.Join(columns, "") != "" {
				p("| %s | %s |", pt.stage, strings.Join(columns, " | "))
			}
		}
	}
	p("\n## Full places and other builds\n\n| fault | launcher | exit code |\n|---|---|---|")
	for _, x := range placesTable {
		what := fmt.Sprint(x.outcome.exit)
		if len(x.problems) > 0 {
			what = "WRONG"
		}
		p("| %s | %s | %s |", x.name, x.launcher.name, what)
	}
	p("\n## The driver fails\n")
	wrong := 0
	type key struct{ stage, what, fallback string }
	var keys []key
	runs, ends := map[key]int{}, map[key]map[string]int{}
	for _, f := range driverTable {
		k := key{f.stage, fmt.Sprint(f.code), f.fallback}
		if f.do != "" {
			k.what = f.do
		}
		if runs[k]++; ends[k] == nil {
			keys, ends[k] = append(keys, k), map[string]int{}
		}
		end := fmt.Sprint(f.outcome.exit)
		if len(f.problems) > 0 {
			wrong++
			end = "WRONG"
		}
		ends[k][end]++
	}
	p("%d runs, %d not as they should be: `sim.faults` on 3 ranks of the own launcher, each call on each rank that makes it.\n", len(driverTable), wrong)
	p("| stage | CUDA error or what happens | fallback | runs | exit code: runs |\n|---|---|---|---|---|")
	for _, k := range keys {
		var words []string
		for end, n := range ends[k] {
			words = append(words, fmt.Sprintf("%s: %d", end, n))
		}
		slices.Sort(words)
		p("| %s | %s | %s | %d | %s |", k.stage, k.what, k.fallback, runs[k], strings.Join(words, ", "))
	}
	p("\n## Bad bytes\n")
	duration, counts := fuzzCounts(t)
	p("`make fuzz FUZZTIME=%s | tee internal/soak/testdata/fuzz.txt`, with 8 GB of address space for each: no panic, no run that takes more.\n", duration)
	p("| fuzz target | inputs tried |\n|---|---|")
	for _, f := range fuzzTargets(t) {
		if counts[f] == "" {
			t.Errorf("%s has no count for %s", fuzzed, f)
		}
		p("| %s | %s |", f, counts[f])
	}
	p("\nStrangers on a rank's socket (another run, no hello, too long, with descriptors, another user by SO_PEERCRED) are refused and logged: mpiboot/stranger_test.go.")
	if err := os.WriteFile(document, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fuzzCounts reads for how long "make fuzz" ran each target, and how many inputs it
// tried, by target.
func fuzzCounts(t *testing.T) (duration string, counts map[string]string) {
	text, err := os.ReadFile(fuzzed)
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 1:
			duration = strings.TrimPrefix(f[0], "FUZZTIME=")
		case len(f) == 4 && f[3] == "executions":
			counts[strings.TrimPrefix(filepath.Dir(f[0]), "./")+" "+strings.TrimSuffix(f[1], ":")] = f[2]
		}
	}
	return duration, counts
}

// fuzzTargets lists the fuzz targets of the project by folder and name.
func fuzzTargets(t *testing.T) []string {
	var out []string
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range fuzzTarget.FindAllSubmatch(text, -1) {
			out = append(out, strings.TrimPrefix(filepath.Dir(path), "../../")+" "+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

//go:build linux

package soak

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// The timeouts that runs are configured with, and what they may take beyond.
const (
	bootstrapTimeout = 6 * time.Second
	deviceTimeout    = 3 * time.Second
	slack            = 5 * time.Second
	// startBound is until the fault happens.
	startBound = 90 * time.Second
)

// othersBound is the longest time from the fault until every other rank is gone.
func (j job) othersBound() time.Duration {
	return j.times(bootstrapTimeout+deviceTimeout) + slack
}

// jobBound is that until the launcher is gone. The own launcher gives ranks 5 s,
// then SIGTERM, then 10 s; Slurm as long, or its KillWait.
func (j job) jobBound() time.Duration {
	return j.othersBound() + 6*time.Second + max(10*time.Second, j.launcher.killWait)
}

// soon is how long after the launcher its last process may be there.
const soon = 3 * time.Second

// lateBy is how late a rank is with the action late, as internal/bench has it.
const lateBy = 10 * time.Second

// leftUntil is when nothing of the job may be left any more: soon after its
// launcher ended. A rank that is late sleeps in the middle of a driver call, and
// while it does nothing in it can end it, only its launcher; one that was told to
// abort by the other ranks may be gone by then without having done so. It wakes,
// finds the others gone and ends: that much it is given.
func (j job) leftUntil(fault, launcherEnded time.Time) time.Time {
	end := launcherEnded.Add(soon)
	if woken := fault.Add(lateBy + slack); strings.Contains(j.fault, ":late:") && woken.After(end) {
		end = woken
	}
	return end
}

// times is a timeout as the job has it.
func (j job) times(d time.Duration) time.Duration { return d * time.Duration(max(1, j.slow)) }

const config = `[run]
mode = ["nvls-zero-copy", "nvls-copy-in", "ring"]
fallback = %q
device = "sim"
[sweep]
min_bytes = "1K"
max_bytes = "1K"
[timing]
warmup = 0
iters = 1
per_iteration = false
timeout = "%v"
[bootstrap]
timeout = "%v"
[sim]
faults = [%s]
`

// job is one run of the program, from a folder of its own by which its processes
// are known.
type job struct {
	launcher launcher
	fault    string   // NVLS_ALLREDUCE_FAULT
	fallback string   // "": never
	faults   []string // sim.faults
	program  string   // "": faulty
	other    string   // program of the rank odd; "": the same
	odd      int
	disk     string // size of the file system that the results are on; "": the machine's
	shm      string // size of the ranks' /dev/shm; "": the test's
	slow     int    // all timeouts are so many times longer; 0: once
	fill     string // what the action fill fills: "disk", "shm", or "" for neither
}

// outcome is how a job ended.
type outcome struct {
	exit   int
	said   string
	fired  bool          // the fault happened
	stray  []string      // files beside the result
	others time.Duration // from the fault, or from the start without, until every other rank was gone
	took   time.Duration // and until the launcher was
	run    *result.Run   // nil: no result on disk
	left   []int         // processes that were left
	// outlived says that a rank was late, still there soon after the launcher, and
	// ended by itself.
	outlived bool
	stuck    bool // it had to be killed
}

var firedLine = regexp.MustCompile(`fault: rank \d+, pid (\d+):`)

func (j job) run(t *testing.T) outcome {
	dir, err := os.MkdirTemp(filepath.Dir(program), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// A link has a name of its own in /proc/PID/exe.
	link := func(program, name string) string {
		path := filepath.Join(dir, name)
		if err := os.Link(program, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if j.program == "" {
		j.program = faulty
	}
	if j.fallback == "" {
		j.fallback = "never"
	}
	var quoted []string
	for _, f := range j.faults {
		quoted = append(quoted, strconv.Quote(f))
	}
	toml := filepath.Join(dir, "run.toml")
	if err := os.WriteFile(toml, fmt.Appendf(nil, config, j.fallback, j.times(deviceTimeout), j.times(bootstrapTimeout), strings.Join(quoted, ", ")), 0o644); err != nil {
		t.Fatal(err)
	}
	results, shm := filepath.Join(dir, "results"), filepath.Join(dir, "shm")
	for folder, size := range map[string]string{results: j.disk, shm: j.shm} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if size != "" {
			if err := syscall.Mount("soak", folder, "tmpfs", 0, "size="+size); err != nil {
				t.Fatal(err)
			}
			defer syscall.Unmount(folder, unix.MNT_DETACH)
		}
	}
	json := filepath.Join(results, "result.json")
	argv := []string{link(j.program, "first"), "--config", toml, "-J", json}
	if j.other != "" {
		argv = j.launcher.twoPrograms(argv, link(j.other, "second"), j.odd)
	}
	folder := map[string]string{"disk": results, "shm": "/dev/shm"}[j.fill]
	var around []string
	if j.shm != "" {
		around = []string{"unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", `mount --bind "$0" /dev/shm && exec "$@"`, shm}
	}
	command := j.launcher.command(t, around, argv)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = programtest.Environ(j.launcher.env, "NVLS_ALLREDUCE_FAULT="+j.fault, "NVLS_ALLREDUCE_FAULT_FOLDER="+folder)
	if j.other != "" && j.launcher.words == nil {
		id := make([]byte, 16)
		rand.Read(id)
		cmd.Env = append(cmd.Env, fmt.Sprintf("NVLS_ALLREDUCE_SIZE=%d", j.launcher.np), fmt.Sprintf("NVLS_ALLREDUCE_UNIQUE_ID=%x", id))
	}
	var out programtest.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { cmd.Wait(); close(over) }()

	o := outcome{}
	begin, faultyPID, othersGone := start, 0, time.Time{}
	for running := true; running; {
		select {
		case <-over:
			running = false
		case <-time.After(50 * time.Millisecond): // a look at all processes is not cheap
		}
		if !o.fired {
			if m := firedLine.FindStringSubmatch(out.String()); m != nil {
				o.fired, begin = true, time.Now()
				faultyPID, _ = strconv.Atoi(m[1])
			}
		}
		others := 0
		for _, pid := range processes(dir) {
			if pid != faultyPID && pid != cmd.Process.Pid {
				others++
			}
		}
		if others > 0 {
			othersGone = time.Time{}
		} else if othersGone.IsZero() {
			othersGone = time.Now()
		}
		if limit := begin.Add(j.jobBound()); time.Now().After(limit) && (o.fired || time.Since(start) > startBound) {
			o.stuck = true
			cmd.Process.Kill()
			<-over
			running = false
		}
	}
	o.took = time.Since(begin)
	if o.others = o.took; !othersGone.IsZero() {
		o.others = max(0, othersGone.Sub(begin))
	}
	ended := time.Now()
	for end := j.leftUntil(begin, ended); ; time.Sleep(20 * time.Millisecond) {
		if o.left = processes(dir); len(o.left) == 0 || time.Now().After(end) {
			break
		}
	}
	o.outlived = len(o.left) == 0 && time.Since(ended) > soon
	for _, pid := range o.left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	o.exit, o.said = cmd.ProcessState.ExitCode(), out.String()
	if _, err := os.Stat(json); err == nil {
		if o.run, err = result.ReadFile(json); err != nil {
			o.said += "\nthe result cannot be read: " + err.Error()
		}
	}
	beside, _ := os.ReadDir(results)
	for _, f := range beside {
		if f.Name() != filepath.Base(json) && f.Name() != "fill" {
			o.stray = append(o.stray, f.Name())
		}
	}
	return o
}

// processes finds those that run a file in dir and have not ended.
func processes(dir string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, l := range links {
		if exe, err := os.Readlink(l); err != nil || !strings.HasPrefix(exe, dir+"/") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(l), "stat"))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(l)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// each runs f for the numbers below n, so many at a time: a broken job mostly waits.
func each(n, width int, f func(i int)) {
	gate := make(chan struct{}, width)
	var wg sync.WaitGroup
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			f(i)
		})
	}
	wg.Wait()
}

// width is how many jobs of one launcher, or of several in a sample, run at once.
func width() int {
	if everything() {
		return 12
	}
	return 4
}

// The programs: as users build it, and with the faults of internal/bench.
var program, faulty string

func everything() bool { return os.Getenv("NVLS_ALLREDUCE_SOAK") == "all" }

func TestMain(m *testing.M) { programtest.Main(m, &program, &faulty) }

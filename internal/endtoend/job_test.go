//go:build linux

package endtoend

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// limit is the longest time that a job may take, on a machine with other work.
const limit = 3 * time.Minute

// job is a run of the program.
type job struct {
	launcher launcher
	np       int
	program  string // "": the program as users build it
	flags    string // separated by spaces
	config   string // TOML; "": none
	env      []string
}

// outcome is how a job ended.
type outcome struct {
	exit           int
	stdout, stderr string
	run            *result.Run // nil: no result was written
	took           time.Duration
}

// said is all that the job printed.
func (o outcome) said() string { return o.stdout + o.stderr }

// process is a job that was started.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr programtest.Output
	json           string
	started        time.Time
	ended          chan error
}

// start starts the job on the software device, with its result in a JSON file.
func (j job) start(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, json: filepath.Join(t.TempDir(), "result.json")}
	argv := []string{j.program, "--device", "sim"}
	if j.program == "" {
		argv[0] = program
	}
	if j.config != "" {
		argv = append(argv, "--config", writeFile(t, "config.toml", j.config))
	}
	flags := strings.Fields(j.flags)
	if !slices.Contains(flags, "-J") {
		argv = append(argv, "-J", p.json)
	}
	cmd := j.launcher.command(t, j.np, append(argv, flags...))
	cmd.Env = programtest.Environ(cmd.Env, j.env...)
	p.begin(cmd)
	return p
}

// run starts the job and waits for its end.
func (j job) run(t *testing.T) outcome {
	t.Helper()
	return j.start(t).wait(limit)
}

// command runs a command line that is not made by a launcher of this package.
func command(t *testing.T, env []string, argv ...string) outcome {
	t.Helper()
	p := &process{t: t, json: filepath.Join(t.TempDir(), "result.json")}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = programtest.Environ(nil, env...)
	p.begin(cmd)
	return p.wait(limit)
}

// begin starts the command and arranges that nothing is left of it.
func (p *process) begin(cmd *exec.Cmd) {
	p.t.Helper()
	p.cmd, p.ended, p.started = cmd, make(chan error, 1), time.Now()
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.WaitDelay = 5 * time.Second
	// Should the test be killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("%v\n%s\n%s", cmd.Args, shorten(p.stdout.String()), shorten(p.stderr.String()))
		}
	})
	leftovers.Check(p.t, program, faulty)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
}

// wait waits for the end of the job. After the limit the job's processes are
// made to say what they do, and killed.
func (p *process) wait(limit time.Duration) outcome {
	p.t.Helper()
	var err error
	select {
	case err = <-p.ended:
	case <-time.After(limit):
		for _, pid := range leftovers.Processes(program, faulty) {
			syscall.Kill(pid, syscall.SIGQUIT)
		}
		time.AfterFunc(2*time.Second, func() { p.cmd.Process.Kill() })
		<-p.ended
		p.t.Fatalf("%v has not ended within %v\n%s\n%s", p.cmd.Args, limit, p.stdout.String(), p.stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		p.t.Fatalf("%v: %v", p.cmd.Args, err)
	}
	o := outcome{exit: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String(), took: time.Since(p.started)}
	if _, err := os.Stat(p.json); err == nil {
		if o.run, err = result.ReadFile(p.json); err != nil {
			p.t.Fatal(err)
		}
	}
	return o
}

// await polls for a condition while the job runs.
func (p *process) await(what string, limit time.Duration, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%v: %s did not come within %v", p.cmd.Args, what, limit)
		}
	}
}

// want checks the exit code, and that each of the parts is in what was printed.
func (o outcome) want(t *testing.T, exit int, parts ...string) {
	t.Helper()
	if o.exit != exit {
		t.Errorf("exit code %d, want %d", o.exit, exit)
	}
	said := o.said()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in\n%s", part, shorten(said))
		}
	}
}

// shorten keeps both ends of a long text.
func shorten(s string) string {
	const half = 3000
	if len(s) <= 2*half {
		return s
	}
	return s[:half] + "\n[…]\n" + s[len(s)-half:]
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

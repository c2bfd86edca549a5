//go:build linux

package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// told is what the doctor learned of one probe process.
type told struct {
	Rank  int // in the probe's group
	Stage string
	End   *ending // nil when it did not get to tell
	How   string  // how it ended otherwise: "killed after 45s", "signal: segmentation fault"
	Late  bool    // it was ended by the watchdog
	Never bool    // it could not be started
	Lacks string  // with Never, what there was too little of: "files", "processes", ""
	Alone bool    // it was ended because another one could not be started
	Said  string  // the first that it printed on standard error
}

// abandon is how long a killed process may take to vanish. One that is stuck in
// a driver call may not, and is left behind.
const abandon = 2 * time.Second

// lacks says what kept a process from being started, "" where it is neither.
func lacks(err error) string {
	switch {
	case tooManyFiles(err):
		return "files"
	case errors.Is(err, unix.EAGAIN):
		return "processes"
	}
	return ""
}

// start runs one rank of a probe's group to its end, or to the deadline.
// argv is the command without its last argument. started is called once, with
// whether there is a process; the end of ctx ends it.
func start(ctx context.Context, argv, environ []string, r request, id mpiboot.UniqueID, rank, size int, deadline time.Duration, started func(ok bool)) told {
	t := told{Rank: rank}
	cmd := exec.Command(argv[0], append(slices.Clone(argv[1:]), r.argument())...)
	cmd.Env = append(withoutRank(environ), fmt.Sprintf("%s=%d", mpiboot.EnvRank, rank), fmt.Sprintf("%s=%d", mpiboot.EnvSize, size), fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, id))
	// Should the doctor be killed, so is its probe process. The kernel sends the
	// signal when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var said head
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	started(err == nil)
	if err != nil {
		t.Never, t.Lacks, t.How = true, lacks(err), "it could not be started: "+err.Error()
		return t
	}
	lines := make(chan answer, 64)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20) // the text of an error of many ranks is long
		for s.Scan() {
			var a answer
			if json.Unmarshal(s.Bytes(), &a) == nil {
				lines <- a
			}
		}
	}()
	watchdog := time.NewTimer(deadline)
	defer watchdog.Stop()
	gone := make(chan error, 1)
	ended := false
	for !ended {
		select {
		case a, ok := <-lines:
			switch {
			case !ok:
				ended = true
			case a.End != nil:
				t.End, ended = a.End, true
			default:
				t.Stage = a.Stage
			}
		case <-watchdog.C:
			t.Late = true
			ended = true
		case <-ctx.Done():
			t.Alone = true
			ended = true
		}
	}
	if t.Late || t.Alone {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	go func() { gone <- cmd.Wait() }()
	select {
	case err = <-gone:
		t.Said = said.lines()
	case <-time.After(abandon):
		// It told all that it will, and hangs: perhaps inside the driver.
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		select {
		case err = <-gone:
		case <-time.After(abandon):
			err = errors.New("it does not end even when killed: it is stuck in the kernel, and was left behind")
		}
	}
	if t.End == nil {
		t.How = "it ended without a result"
		if err != nil {
			t.How = err.Error()
		}
		switch {
		case t.Alone:
			t.How = "it was ended because another one could not be started"
		case t.Late:
			t.How = fmt.Sprintf("it was ended after %v (%s)", deadline, t.How)
		}
	}
	return t
}

// withoutRank drops the variables of an own launcher above.
func withoutRank(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == mpiboot.EnvRank || name == mpiboot.EnvSize || name == mpiboot.EnvUniqueID
	})
}

// head keeps the beginning of what is written: the first words of a crash are
// those that matter.
type head struct{ b []byte }

const headBytes = 2 << 10

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), headBytes-len(h.b))]...)
	return len(b), nil
}

// lines gives the first few lines.
func (h *head) lines() string {
	words := strings.SplitN(strings.TrimSpace(strings.ToValidUTF8(string(h.b), "")), "\n", 4)
	return strings.Join(words[:min(3, len(words))], "; ")
}

// team runs a group of probe processes and tells all ranks of the node what
// became of them. Alone, this process starts one for each device; among other
// ranks, each starts its own.
func (d *doctor) team(ctx context.Context, ask string) ([]told, error) {
	id := mpiboot.NewUniqueID()
	node := d.world.Node()
	shared, err := node.Bcast(ctx, "name the probe "+ask, 0, []byte(id.String()))
	if err != nil {
		return nil, err
	}
	if id, err = mpiboot.ParseUniqueID(string(shared)); err != nil {
		return nil, err
	}
	r := d.request(ask)
	own := []int{node.Rank()}
	size := node.Size()
	if size == 1 {
		size = d.teamSize
		own = own[:0]
		for rank := range size {
			own = append(own, rank)
		}
	}
	with, cancel := context.WithCancel(ctx)
	defer cancel()
	started, done := make(chan bool, len(own)), make(chan told, len(own))
	for _, rank := range own {
		go func() {
			done <- start(with, d.Probe, d.system.Environ, r, id, rank, size, d.deadline(), func(ok bool) { started <- ok })
		}()
	}
	all := true
	for range own {
		all = <-started && all
	}
	// The others would wait for one that never comes.
	everywhere, err := gather(ctx, node, "start the probe "+ask, []bool{all})
	if err != nil || slices.Contains(everywhere, false) {
		cancel()
	}
	var mine []told
	for range own {
		mine = append(mine, <-done)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(mine, func(a, b told) int { return a.Rank - b.Rank })
	return gather(ctx, node, "results of the probe "+ask, mine)
}

// gather joins the lists of all ranks of the node.
func gather[T any](ctx context.Context, node *mpiboot.Node, stage string, mine []T) ([]T, error) {
	body, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	all, err := node.Allgather(ctx, stage, body)
	if err != nil {
		return nil, err
	}
	var out []T
	for r, b := range all {
		var theirs []T
		if err := json.Unmarshal(b, &theirs); err != nil {
			return nil, failure.Wrap(failure.Internal, err, "what local rank %d found cannot be read", r)
		}
		out = append(out, theirs...)
	}
	return out, nil
}

//go:build linux

package mpiboot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// pair connects two ranks, of which rank 0 listens at l already and logs.
func pair(t *testing.T, cfg meshConfig, l *net.UnixListener, log *journal, builds ...string) ([]*Node, []error) {
	t.Helper()
	nodes := make([]*Node, 2)
	errs := parallel(2, func(r int) (err error) {
		c, own := meshOf(2, r, "", 10*time.Second, t), l
		c.id, c.log = cfg.id, log
		if len(builds) > 0 {
			c.build = builds[r]
		}
		if r == 1 {
			if own, err = listen(c.sockets[1]); err != nil {
				return err
			}
		}
		nodes[r], err = connect(bg, c, own)
		return err
	})
	return nodes, errs
}

// Callers that are turned away are told of: of another run, with a message that is
// no hello, with descriptors or more bytes than a hello has.
func TestStrangersAreLogged(t *testing.T) {
	cfg := meshOf(2, 0, "", 10*time.Second, t)
	l, err := listen(cfg.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	call := func() *net.UnixConn {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: cfg.sockets[0], Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	id := NewUniqueID()
	body, err := json.Marshal(hello{ID: id, Rank: 1, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := (&message{kind: kindHello, body: body}).split()
	if err != nil {
		t.Fatal(err)
	}
	for _, packet := range [][]byte{
		[]byte("GET / HTTP/1.1"),
		(&frame{kind: kindHello, total: maxHello + 1, chunk: []byte("x")}).append(nil),
		(&frame{kind: kindHello, total: 1, filesTotal: maxFilesTotal}).append(nil),
		wrong[0].append(nil),
	} {
		if _, err := call().Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	log := &journal{}
	meetAfter(t, cfg, l, log, 4)
	for _, want := range []string{"not a packet of this program", "4097 bytes", "4096 descriptors", "in run " + id.String()} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, log.String())
		}
	}
}

// meetAfter connects two ranks, of which rank 1 comes when rank 0 has turned away
// so many strangers: until then the mesh is not complete. The ranks then work.
func meetAfter(t *testing.T, cfg meshConfig, l *net.UnixListener, log *journal, strangers int) {
	t.Helper()
	nodes := make([]*Node, 2)
	errs := parallel(2, func(r int) (err error) {
		c := cfg
		c.log, c.me = log, r
		own := l
		if r == 1 {
			for end := time.Now().Add(cfg.timeout / 2); strings.Count(log.String(), "turned away") < strangers && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			}
			if own, err = listen(c.sockets[1]); err != nil {
				return err
			}
		}
		nodes[r], err = connect(bg, c, own)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	all(t, nodes, func(n *Node) error { defer n.leave(0); return n.Barrier(bg, "after the strangers") })
}

// Another user's process is turned away by what the kernel says of it, before a
// byte of it is read.
func TestAnotherUserIsRefused(t *testing.T) {
	if name := os.Getenv("MPIBOOT_TEST_CALL"); name != "" {
		conn, err := net.Dial("unixpacket", name)
		if err != nil {
			t.Fatal(err)
		}
		conn.Read(make([]byte, 1)) // until it is turned away
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	cfg := meshOf(2, 0, "", 40*time.Second, t)
	l, err := listen(cfg.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	// A descriptor, because the other user may not reach the file.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	ctx, cancel := context.WithTimeout(bg, cfg.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", "-test.run=^TestAnotherUserIsRefused$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "MPIBOOT_TEST_CALL="+cfg.sockets[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot run as another user: %v", err)
	}
	defer cmd.Wait()
	log := &journal{}
	meetAfter(t, cfg, l, log, 1)
	if want := "turned away a caller at " + cfg.sockets[0] + ": the other end belongs to user 65534, this process to user 0"; !strings.Contains(log.String(), want) {
		t.Errorf("no %q in %q", want, log.String())
	}
}

// Ranks of different builds are told so, both of them, and nobody waits.
func TestAnotherBuildIsRefused(t *testing.T) {
	cfg := meshOf(2, 0, "", 10*time.Second, t)
	l, err := listen(cfg.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, errs := pair(t, cfg, l, &journal{}, "v1", "v2")
	for r, err := range errs {
		if failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), "another build") || !strings.Contains(err.Error(), "v1") || !strings.Contains(err.Error(), "v2") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if took := time.Since(start); took > programtest.Within(5*time.Second) {
		t.Errorf("it took %v", took)
	}
}

// A wait ends when another rank brings an error to the vote that follows, and the
// vote has that rank's error and code, not the consequence.
func TestObjectionEndsWait(t *testing.T) {
	cfg := meshOf(2, 0, "", 10*time.Second, t)
	l, err := listen(cfg.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	nodes, errs := pair(t, cfg, l, &journal{})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	votes := parallel(2, func(r int) error {
		defer nodes[r].leave(0)
		if r == 1 {
			return nodes[r].Vote(bg, "run", failure.New(failure.Device, "trap"))
		}
		ctx, stop := nodes[r].Watch(bg)
		defer stop()
		<-ctx.Done()
		return nodes[r].Vote(bg, "run", failure.Wrap(failure.Timeout, context.Cause(ctx), "not done"))
	})
	for r, err := range votes {
		var v *VoteError
		if !errors.As(err, &v) || v.ExitCode() != failure.Device || !strings.Contains(err.Error(), ": trap") || strings.Contains(err.Error(), "not done") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Whatever the launcher's variables say, they are read or refused.
func FuzzDetect(f *testing.F) {
	for _, env := range [][]string{envOpenMPI, envHydra, envSlurmPMI2, envSlurmPMIx, envLocal, envBatch} {
		f.Add(strings.Join(env, "\n"), "")
	}
	f.Add("SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_STEP_TASKS_PER_NODE=2(x99999999999),1\nSLURM_NODEID=3", LauncherSlurm)
	f.Fuzz(func(t *testing.T, environ, as string) {
		ev, err := detect(strings.Split(environ, "\n"), as)
		if err != nil {
			if c := failure.CodeOf(err); c != failure.Usage && c != failure.Unavailable {
				t.Errorf("%v has code %d", err, c)
			}
			return
		}
		if ev.Rank < -1 || ev.Size < -1 || ev.Size == 0 || ev.Size > 0 && ev.Rank >= ev.Size || ev.LocalSize > 0 && ev.LocalRank >= ev.LocalSize {
			t.Errorf("%q as %q is %+v", environ, as, ev)
		}
	})
}

// Ballots come from other ranks: any bytes make a verdict or an error.
func FuzzBallots(f *testing.F) {
	f.Add([]byte(`{"Rank":0,"OK":true}`), []byte(`{"Rank":1,"Text":"no","Code":2,"Follows":true}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		err := outcome("s", []int{0, 1}, [][]byte{a, b})
		var v *VoteError
		if errors.As(err, &v) {
			_, _, _ = v.Error(), v.ExitCode(), v.Failed()
		}
	})
}

//go:build linux

package mpiboot

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// Callers that are not of this run are turned away and told of, and the run goes on:
// one of another run, one with a message that is no hello, with descriptors or more
// bytes than a hello has, and one that says nothing.
func TestStrangersAreLogged(t *testing.T) {
	g := gathering{ranks: 2, timeout: 10 * time.Second, log: &journal{}}
	socket := g.early(t)
	call := func() *net.UnixConn {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
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
	packets := [][]byte{
		[]byte("GET / HTTP/1.1"),
		(&frame{kind: kindVote}).append(nil),
		(&frame{kind: kindHello, total: maxHello + 1, chunk: []byte("x")}).append(nil),
		(&frame{kind: kindHello, total: 1, filesTotal: maxFilesTotal}).append(nil),
		wrong[0].append(nil),
	}
	for _, packet := range packets {
		if _, err := call().Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	call() // says nothing
	g.afterStrangers(t, len(packets))
	for _, want := range []string{"not a packet of this program", "4097 bytes", "4096 descriptors", "in run " + id.String()} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("no %q in\n%s", want, g.log)
		}
	}
}

// afterStrangers connects the ranks, of which rank 1 comes when rank 0 has turned
// away so many strangers: until then the mesh is not complete. The ranks then work.
func (g gathering) afterStrangers(t *testing.T, strangers int) {
	t.Helper()
	g.before = func(r int) error {
		for end := time.Now().Add(g.timeout / 2); r == 1 && strings.Count(g.log.String(), "turned away") < strangers && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		return nil
	}
	all(t, g.together(t), func(n *Node) error { return n.Barrier(bg, "after the strangers") })
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
	g := gathering{ranks: 2, timeout: 40 * time.Second, log: &journal{}}
	socket := g.early(t)
	// A descriptor, because the other user may not reach the file.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	ctx, cancel := context.WithTimeout(bg, g.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", "-test.run=^TestAnotherUserIsRefused$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "MPIBOOT_TEST_CALL="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot run as another user: %v", err)
	}
	defer cmd.Wait()
	g.afterStrangers(t, 1)
	if want := "turned away a caller at " + socket + ": the other end belongs to user 65534, this process to user 0"; !strings.Contains(g.log.String(), want) {
		t.Errorf("no %q in %q", want, g.log)
	}
}

// Ranks of different builds are told so, both of them, and nobody waits.
func TestAnotherBuildIsRefused(t *testing.T) {
	start := time.Now()
	_, errs := gathering{ranks: 2, timeout: 10 * time.Second, log: &journal{}, builds: []string{"v1", "v2"}}.meet(t)
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
	nodes := mesh(t, 2, "", 10*time.Second)
	votes := parallel(2, func(r int) error {
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

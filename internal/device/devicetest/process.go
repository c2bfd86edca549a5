package devicetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Variables by which a child process knows its role. Its descriptor 3 is the
// socket to the parent; those that follow are the Subject's files.
const (
	rankVariable     = "NVLS_DEVICETEST_RANK"
	sizeVariable     = "NVLS_DEVICETEST_SIZE"
	scenarioVariable = "NVLS_DEVICETEST_SCENARIO"
	filesVariable    = "NVLS_DEVICETEST_FILES"
)

func inChild() bool { return os.Getenv(rankVariable) != "" }

// inProcesses runs a scenario with processes as ranks. This process only passes
// on what they exchange.
func inProcesses(t *testing.T, s Subject, size int, name string) {
	t.Helper()
	var shared []*os.File
	if s.Share != nil {
		shared = s.Share(t)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(t.Name(), "/")
	sockets := make([]*os.File, size)
	children := make([]*exec.Cmd, size)
	outputs := make([]bytes.Buffer, size)
	for i := range size {
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		sockets[i] = ours
		c := exec.Command(self, "-test.run=^"+top+"$", "-test.count=1", "-test.timeout=60s")
		c.Env = append(os.Environ(),
			rankVariable+"="+strconv.Itoa(i), sizeVariable+"="+strconv.Itoa(size),
			scenarioVariable+"="+name, filesVariable+"="+strconv.Itoa(len(shared)),
			// The race detector lets a process sleep for a second at its end.
			"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
		c.ExtraFiles = append([]*os.File{theirs}, shared...)
		c.Stdout, c.Stderr = &outputs[i], &outputs[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children[i] = c
		theirs.Close()
	}
	hub := make(chan error, 1)
	go func() { hub <- serveHub(sockets) }()

	var all sync.WaitGroup
	for i, c := range children {
		all.Go(func() {
			if err := c.Wait(); err != nil {
				t.Errorf("rank %d as a process: %v\n%s", i, err, outputs[i].String())
			}
		})
	}
	all.Wait()
	if err := <-hub; err != nil {
		t.Errorf("passing descriptors between processes: %v", err)
	}
}

// runChild is a rank in a process of its own.
func runChild(t *testing.T, s Subject) {
	number, err := strconv.Atoi(os.Getenv(rankVariable))
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.Atoi(os.Getenv(sizeVariable))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(os.Getenv(filesVariable))
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for i := range n {
		files = append(files, os.NewFile(uintptr(4+i), "inherited"))
	}
	name := os.Getenv(scenarioVariable)
	p, ok := scenarios[name]
	if !ok {
		if p, ok = faults[name]; !ok {
			p, ok = multicastScenarios[name]
		}
	}
	if !ok {
		t.Fatalf("there is no scenario %q", name)
	}
	r := &rank{Device: s.Open(t, files, number, size), number: number, size: size,
		link: &wire{socket: os.NewFile(3, "hub"), size: size}}
	if err := r.play(p); err != nil {
		t.Fatal(err)
	}
}

// wire is a child's link: one message to the hub with at most one descriptor,
// one message back with a byte per rank that says who brought one.
type wire struct {
	socket *os.File
	size   int
}

func (w *wire) meet(f *os.File) ([]*os.File, error) {
	msg, rights := []byte{0}, []byte(nil)
	if f != nil {
		msg[0], rights = 1, unix.UnixRights(int(f.Fd()))
	}
	fd := int(w.socket.Fd())
	if err := unix.Sendmsg(fd, msg, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return nil, fmt.Errorf("to the hub: %w", err)
	}
	msg, fds, err := receive(fd, w.size)
	if err != nil {
		return nil, fmt.Errorf("from the hub: %w", err)
	}
	if len(msg) != w.size {
		return nil, errAborted
	}
	files := make([]*os.File, w.size)
	for i, has := range msg {
		if has != 0 {
			files[i] = os.NewFile(uintptr(fds[0]), "received")
			fds = fds[1:]
		}
	}
	return files, nil
}

// serveHub passes on what the ranks bring, round by round, until one hangs up;
// then it hangs up on all.
func serveHub(sockets []*os.File) error {
	defer func() {
		for _, s := range sockets {
			s.Close()
		}
	}()
	for {
		var all []byte
		var fds []int
		for _, s := range sockets {
			msg, got, err := receive(int(s.Fd()), 1)
			if err != nil {
				return err
			}
			if len(msg) == 0 {
				closeAll(fds)
				return nil
			}
			all = append(all, msg[0])
			fds = append(fds, got...)
		}
		for _, s := range sockets {
			if err := unix.Sendmsg(int(s.Fd()), all, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil && err != unix.EPIPE {
				closeAll(fds)
				return err
			}
		}
		closeAll(fds)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// receive takes one message of at most n bytes and n descriptors.
func receive(fd, n int) ([]byte, []int, error) {
	if err := readable(fd); err != nil {
		return nil, nil, err
	}
	msg, oob := make([]byte, n), make([]byte, unix.CmsgSpace(4*n))
	got, oobn, _, _, err := unix.Recvmsg(fd, msg, oob, unix.MSG_CMSG_CLOEXEC)
	if err == unix.ECONNRESET {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var fds []int
	parts, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for _, p := range parts {
		more, err := unix.ParseUnixRights(&p)
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, more...)
	}
	return msg[:got], fds, nil
}

// readable waits for a message or the end of the connection.
func readable(fd int) error {
	deadline := time.Now().Add(2 * patience)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("nothing came within %v", 2*patience)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err == unix.EINTR || err == nil && n == 0 {
			continue
		}
		return err
	}
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "hub"), os.NewFile(uintptr(fds[1]), "rank"), nil
}

//go:build linux

package mpiboot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// peer is another rank of this host, and the connection to it.
type peer struct {
	rank int // in the world
	conn *net.UnixConn
	asm  assembler
	buf  []byte
	oob  []byte

	send sync.Mutex // a message's packets must not mix with another's

	// Below: guarded by the mailbox.
	queue []*message
	gone  error         // why nothing more will come; nil while it may
	order int           // the how-manyth peer to go
	left  *failure.Code // the code it announced before it went
}

func newPeer(rank int, conn *net.UnixConn) *peer {
	return &peer{rank: rank, conn: conn, asm: assembler{stranger: true}, buf: make([]byte, headerBytes+maxStage+maxChunk), oob: make([]byte, unix.CmsgSpace(4*maxFiles))}
}

// write sends a message before the deadline.
func (p *peer) write(m *message, deadline time.Time) error {
	frames, err := m.split()
	if err != nil {
		return err
	}
	p.send.Lock()
	defer p.send.Unlock()
	if err := p.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	files := m.files
	for _, f := range frames {
		var oob []byte
		if f.files > 0 {
			fds := make([]int, f.files)
			for i, file := range files[:f.files] {
				fds[i] = int(file.Fd())
			}
			files = files[f.files:]
			oob = unix.UnixRights(fds...)
		}
		if _, _, err := p.conn.WriteMsgUnix(f.append(nil), oob, nil); err != nil {
			return err
		}
	}
	return nil
}

// read waits for the next whole message. The end of the connection is io.EOF.
func (p *peer) read() (*message, error) {
	for {
		n, oobn, flags, _, err := p.conn.ReadMsgUnix(p.buf, p.oob)
		if err != nil {
			// A peer that leaves without having read all we sent makes the kernel
			// report a reset before it hands out what the peer had sent.
			if errors.Is(err, syscall.ECONNRESET) {
				n, oobn, flags, _, err = p.conn.ReadMsgUnix(p.buf, p.oob)
			}
			if errors.Is(err, io.EOF) || err != nil && hungUp(err) {
				err = io.EOF
			}
			if err != nil {
				p.asm.close()
				return nil, err
			}
		}
		files, err := received(p.oob[:oobn], p.rank)
		if err == nil && flags&unix.MSG_CTRUNC != 0 {
			err = errors.New("descriptors were lost: this process has too many open files (ulimit -n)")
		}
		var f frame
		if err == nil {
			f, err = parseFrame(p.buf[:n])
		}
		var m *message
		if err == nil {
			m, err = p.asm.add(f, files)
		}
		if err != nil {
			closeFiles(files)
			p.asm.close()
			return nil, err
		}
		if m != nil {
			return m, nil
		}
	}
}

// hungUp says whether an error of a socket means that either end was closed.
func hungUp(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// received takes the descriptors out of a control message. They are
// close-on-exec: the net package asks the kernel for that.
func received(oob []byte, from int) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	var files []*os.File
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeFiles(files)
			return nil, fmt.Errorf("SCM_RIGHTS: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), fmt.Sprintf("descriptor from rank %d", from)))
		}
	}
	return files, nil
}

// checkUser asks the kernel whose process is at the other end. User namespaces
// do not matter: the kernel translates the id into ours.
func checkUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("SO_PEERCRED: %w", credErr)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("the other end belongs to user %d, this process to user %d", cred.Uid, os.Geteuid())
	}
	return nil
}

// hello is the body of the first message in either direction.
type hello struct {
	ID    UniqueID
	Rank  int
	Size  int // of the mesh
	Build string
}

// buildError says that two ranks run different builds of the program, whose
// kernels and messages need not fit.
type buildError struct{ theirs, mine string }

func (e *buildError) Error() string {
	return fmt.Sprintf("it runs another build of this program: %s; this rank: %s", e.theirs, e.mine)
}

// greet exchanges hellos and returns the peer's. The one that dialed speaks
// first.
func (p *peer) greet(mine hello, dialed bool, deadline time.Time) (hello, error) {
	body, err := json.Marshal(mine)
	if err != nil {
		return hello{}, err
	}
	say := func() error { return p.write(&message{kind: kindHello, body: body}, deadline) }
	if dialed {
		if err := say(); err != nil {
			return hello{}, err
		}
	}
	if err := p.conn.SetReadDeadline(deadline); err != nil {
		return hello{}, err
	}
	m, err := p.read()
	if err != nil {
		return hello{}, err
	}
	closeFiles(m.files)
	var theirs hello
	if err := json.Unmarshal(m.body, &theirs); m.kind != kindHello || err != nil {
		return hello{}, fmt.Errorf("the first message is %v, not a hello", m.kind)
	}
	if theirs.ID != mine.ID || theirs.Size != mine.Size {
		return hello{}, fmt.Errorf("hello from rank %d of %d in run %v; this is run %v with %d ranks on the host", theirs.Rank, theirs.Size, theirs.ID, mine.ID, mine.Size)
	}
	if !dialed {
		if err := say(); err != nil {
			return hello{}, err
		}
	}
	// Only now, so that the one that dialed learns it too.
	if theirs.Build != mine.Build {
		return theirs, &buildError{theirs.Build, mine.Build}
	}
	p.asm.stranger = false
	return theirs, p.conn.SetReadDeadline(time.Time{})
}

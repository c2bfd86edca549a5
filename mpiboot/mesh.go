//go:build linux

package mpiboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// stageMesh names the set-up of the mesh in errors.
const stageMesh = "connecting the ranks of this host"

// socketName is where a rank listens. Without a directory the name is
// abstract: it lives in the network namespace, which containers on one host
// usually share, vanishes with its owner and cannot be guessed.
func socketName(dir string, id UniqueID, rank int) string {
	if dir == "" {
		return fmt.Sprintf("@nvls-allreduce.%v.%d", id, rank)
	}
	return filepath.Join(dir, fmt.Sprintf("nvls-%x.%d", id[:6], rank))
}

// listen opens this rank's socket.
func listen(name string) (*net.UnixListener, error) {
	// The kernel's sun_path has 108 bytes with its final zero.
	if len(name) > 107 {
		return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("socket name %s is %d bytes long", name, len(name)),
			Why: "Linux allows 107", Do: "set a shorter socket_dir under [bootstrap]", By: failure.User}
	}
	// A socket with a path gets its mode from the descriptor when it is bound,
	// whatever the umask: only this user may connect. The kernel takes no name that
	// is there, be it a link.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); e != nil {
			return e
		}
		return err
	}}
	ln, err := private.Listen(context.Background(), "unixpacket", name)
	l, ok := ln.(*net.UnixListener)
	if err == nil && !ok {
		err = fmt.Errorf("listener is a %T", ln)
	}
	if err != nil {
		return nil, &failure.Error{Code: failure.Internal, What: "cannot listen for the other ranks of this host on " + name, Err: err,
			Do: "set socket_dir under [bootstrap] to a directory that all ranks of the host can write", By: failure.User}
	}
	return l, nil
}

// meshConfig is what one rank has to know to connect to the others of its host.
type meshConfig struct {
	id      UniqueID
	world   []int    // world ranks on this host, ascending
	me      int      // index in world
	sockets []string // by index, as socketName gave them to each
	host    string   // for messages
	timeout time.Duration
	build   string             // Options.Build
	log     io.Writer          // for callers that were turned away; nil for none
	enter   func(stage string) // nil for none
}

// maxRefusals is how many callers that were turned away are told of.
const maxRefusals = 8

// connect links this rank with every other of the host: it calls those below
// it and is called by those above. It closes l, which also removes its path.
func connect(ctx context.Context, cfg meshConfig, l *net.UnixListener) (*Node, error) {
	if cfg.enter != nil {
		cfg.enter(stageMesh)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout)
	defer cancel()
	defer l.Close()
	start := time.Now()
	deadline, _ := ctx.Deadline()
	mine := hello{ID: cfg.id, Rank: cfg.me, Size: len(cfg.world), Build: cfg.build}

	var mu sync.Mutex
	peers := make([]*peer, len(cfg.world))
	turned := 0         // callers
	var refused []error // connections that were not from a rank of this run
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if len(refused) < maxRefusals {
			refused = append(refused, err)
		}
	}
	turnAway := func(err error) {
		note(err)
		mu.Lock()
		defer mu.Unlock()
		if turned++; cfg.log != nil && turned <= maxRefusals && ctx.Err() == nil {
			fmt.Fprintf(cfg.log, "nvls-allreduce: rank %d on %s turned away a caller at %s: %v\n", cfg.world[cfg.me], cfg.host, cfg.sockets[cfg.me], err)
		}
	}
	others := make([]error, len(cfg.world)) // ranks of this run that run another build
	arrived := make(chan struct{}, len(cfg.world))
	enter := func(i int, p *peer) {
		mu.Lock()
		defer mu.Unlock()
		if peers[i] != nil {
			p.conn.Close()
			return
		}
		peers[i] = p
		arrived <- struct{}{}
	}
	// A rank of another build has come all the same: nobody waits for it.
	differs := func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if peers[i] == nil && others[i] == nil {
			others[i] = err
			arrived <- struct{}{}
		}
	}
	for i := range cfg.me {
		go func() {
			if p, err := dial(ctx, cfg, i, mine, deadline); errors.As(err, new(*buildError)) {
				differs(i, err)
			} else if err != nil {
				note(err)
			} else {
				enter(i, p)
			}
		}()
	}
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				p := newPeer(-1, conn)
				err := checkUser(conn)
				var theirs hello
				if err == nil {
					theirs, err = p.greet(mine, false, deadline)
				}
				if (err == nil || errors.As(err, new(*buildError))) && (theirs.Rank <= cfg.me || theirs.Rank >= len(cfg.world)) {
					err = fmt.Errorf("hello from local rank %d, which has no reason to call local rank %d", theirs.Rank, cfg.me)
				}
				if errors.As(err, new(*buildError)) {
					conn.Close()
					differs(theirs.Rank, err)
					return
				}
				if err != nil {
					conn.Close()
					turnAway(err)
					return
				}
				p.rank = cfg.world[theirs.Rank]
				enter(theirs.Rank, p)
			}()
		}
	}()
	complete := true
	for range len(cfg.world) - 1 {
		select {
		case <-arrived:
			continue
		case <-ctx.Done():
			complete = false
		}
		break
	}
	l.Close()
	mu.Lock()
	defer mu.Unlock()
	for i, err := range others {
		if err == nil {
			continue
		}
		for _, p := range peers {
			if p != nil {
				p.conn.Close()
			}
		}
		return nil, &failure.Error{Code: failure.Usage, What: fmt.Sprintf("rank %d and rank %d are not the same program", cfg.world[cfg.me], cfg.world[i]),
			Where: fmt.Sprintf("rank %d on %s", cfg.world[cfg.me], cfg.host), Err: err, Do: "start every rank from the same file", By: failure.User}
	}
	if complete {
		return newNode(cfg, peers), nil
	}
	pe := &PeersError{Stage: stageMesh, Op: "mesh", Waited: time.Since(start), Cause: context.Cause(ctx)}
	for i, p := range peers {
		if p != nil {
			p.conn.Close()
		} else if i != cfg.me {
			pe.Missing = append(pe.Missing, cfg.world[i])
		}
	}
	// A rank that arrives from now on finds its place taken.
	for i := range peers {
		if peers[i] == nil {
			peers[i] = &peer{}
		}
	}
	e := pe.explain(cfg.world[cfg.me], cfg.host)
	e.Do = "see what those ranks printed; if they run in containers with networks of their own, set socket_dir under [bootstrap] to a directory that all ranks share"
	e.By = failure.User
	if len(refused) > 0 {
		e.Err = fmt.Errorf("%w; also: %w", pe, errors.Join(refused...))
	}
	return nil, e
}

// dial calls the rank with index i until it listens.
func dial(ctx context.Context, cfg meshConfig, i int, mine hello, deadline time.Time) (*peer, error) {
	var d net.Dialer
	pause := 2 * time.Millisecond
	for {
		conn, err := d.DialContext(ctx, "unixpacket", cfg.sockets[i])
		if err == nil {
			uc := conn.(*net.UnixConn)
			p := newPeer(cfg.world[i], uc)
			err = checkUser(uc)
			var theirs hello
			if err == nil {
				theirs, err = p.greet(mine, true, deadline)
			}
			if err == nil && theirs.Rank != i {
				err = fmt.Errorf("local rank %d answers at the socket of local rank %d", theirs.Rank, i)
			}
			if err != nil {
				uc.Close()
				return nil, fmt.Errorf("rank %d at %s: %w", cfg.world[i], cfg.sockets[i], err)
			}
			return p, nil
		}
		// Not there yet, or its queue of callers is full.
		if !slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.ENOENT, syscall.EAGAIN}, func(e error) bool { return errors.Is(err, e) }) {
			return nil, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		case <-ctx.Done():
			return nil, err
		}
	}
}

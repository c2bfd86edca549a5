package devicetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// part is what one rank does in a scenario.
type part func(*rank)

func names(parts map[string]part) []string { return slices.Sorted(maps.Keys(parts)) }

// link lets the ranks of a group meet. A meeting ends with an error when a rank
// does not come in time or has failed.
type link interface {
	// meet waits for all ranks and gives each the files that all brought, nil
	// for a rank that brought none. The caller keeps f and owns the answer.
	meet(f *os.File) ([]*os.File, error)
}

// barrier waits for all ranks.
func (r *rank) barrier() { r.exchange(nil) }

// exchange gives every rank a copy of every rank's file.
func (r *rank) exchange(f *os.File) []*os.File {
	files, err := r.link.meet(f)
	r.ok(err, "meeting the other ranks")
	return files
}

// solo runs a part with a single rank.
func solo(t *testing.T, s Subject, p part) {
	t.Helper()
	play(t, s, 1, p)
}

// inProcess runs a scenario with goroutines as ranks.
func inProcess(t *testing.T, s Subject, size int, name string) {
	t.Helper()
	play(t, s, size, scenarios[name])
}

func play(t *testing.T, s Subject, size int, p part) {
	t.Helper()
	playOn(t, openRanks(t, s, size), p)
}

func openRanks(t *testing.T, s Subject, size int) []*rank {
	t.Helper()
	var files []*os.File
	if s.Share != nil {
		files = s.Share(t)
	}
	m := newMeeting(size)
	ranks := make([]*rank, size)
	for i := range ranks {
		ranks[i] = &rank{Device: s.Open(t, files, i, size), number: i, size: size, link: &seat{m: m, rank: i}}
	}
	return ranks
}

func playOn(t *testing.T, ranks []*rank, p part) {
	t.Helper()
	errs := make([]error, len(ranks))
	var all sync.WaitGroup
	for i, r := range ranks {
		all.Go(func() {
			errs[i] = r.play(p)
			if errs[i] != nil {
				r.link.(*seat).m.abort()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

var errAborted = errors.New("another rank failed")

// meeting is where goroutines meet.
type meeting struct {
	mu      sync.Mutex
	brought []*os.File
	waiting int
	round   *round
	aborted chan struct{}
	once    sync.Once
}

// round is one meeting; its files are there when done is closed.
type round struct {
	done  chan struct{}
	files []*os.File
	err   error
}

func newMeeting(size int) *meeting {
	return &meeting{brought: make([]*os.File, size), round: &round{done: make(chan struct{})}, aborted: make(chan struct{})}
}

func (m *meeting) abort() { m.once.Do(func() { close(m.aborted) }) }

// seat is one rank's place.
type seat struct {
	m    *meeting
	rank int
}

func (s *seat) meet(f *os.File) ([]*os.File, error) {
	m := s.m
	m.mu.Lock()
	now := m.round
	m.brought[s.rank] = f
	m.waiting++
	if m.waiting == len(m.brought) {
		// The last one copies for all, while every owner still waits.
		now.files = make([]*os.File, len(m.brought)*len(m.brought))
		for to := range m.brought {
			for from, b := range m.brought {
				if b != nil && now.err == nil {
					now.files[to*len(m.brought)+from], now.err = duplicate(b)
				}
			}
		}
		m.brought = make([]*os.File, len(m.brought))
		m.waiting = 0
		m.round = &round{done: make(chan struct{})}
		close(now.done)
	}
	n := len(m.brought)
	m.mu.Unlock()
	select {
	case <-now.done:
		return now.files[s.rank*n : (s.rank+1)*n], now.err
	case <-m.aborted:
		return nil, errAborted
	case <-time.After(patience):
		return nil, fmt.Errorf("not all ranks came within %v", patience)
	}
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

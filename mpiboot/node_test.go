//go:build linux

package mpiboot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

func TestNodeOperations(t *testing.T) {
	for n := 1; n <= 8; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			nodes := mesh(t, n, "", 10*time.Second)
			all(t, nodes, func(n *Node) error {
				// In a world of this node alone, Node is the Comm.
				n.world = nil
				for r := range nodes {
					n.world = append(n.world, r)
				}
				w := &World{rank: n.me, size: len(nodes), node: n}
				for range 3 {
					if err := everything(bg, w); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func TestNodeBigMessages(t *testing.T) {
	nodes := mesh(t, 4, "", 20*time.Second)
	all(t, nodes, func(n *Node) error {
		// Far above a socket's buffer, from everybody at once: whoever sends
		// before it receives must not block.
		mine := bytes.Repeat([]byte{byte('a' + n.Rank())}, 3<<20+n.Rank())
		got, err := n.Allgather(bg, "big", mine)
		if err != nil {
			return err
		}
		for r, b := range got {
			if want := bytes.Repeat([]byte{byte('a' + r)}, 3<<20+r); !bytes.Equal(b, want) {
				return fmt.Errorf("%d bytes from %d differ", len(b), r)
			}
		}
		return nil
	})
}

func TestNodeManyFiles(t *testing.T) {
	nodes := mesh(t, 3, "", 10*time.Second)
	all(t, nodes, func(n *Node) error {
		var files []*os.File
		if n.Rank() == 1 {
			for i := range 2*maxFiles + 3 {
				f, err := memfd(fmt.Sprint(i))
				if err != nil {
					return err
				}
				defer f.Close()
				files = append(files, f)
			}
		}
		got, err := n.BcastFiles(bg, "many", 1, files)
		if err != nil || len(got) != 2*maxFiles+3 {
			return fmt.Errorf("%d files, %v", len(got), err)
		}
		if n.Rank() != 1 {
			for i, f := range got {
				if err := checkFile(f, fmt.Sprint(i)); err != nil {
					return err
				}
			}
		}
		return n.Barrier(bg, "read")
	})
}

func TestNodeVoteSameOnAll(t *testing.T) {
	nodes := mesh(t, 4, "", 10*time.Second)
	outcomes := parallel(4, func(r int) error {
		switch r {
		case 1:
			return nodes[r].Vote(bg, "bind", failure.New(failure.Device, "CUDA_ERROR_SYSTEM_NOT_READY"))
		case 3:
			return nodes[r].Vote(bg, "bind", errors.New("other"))
		}
		return nodes[r].Vote(bg, "bind", nil)
	})
	want := &VoteError{Stage: "bind", Verdicts: []Verdict{{Rank: 10, OK: true}, {Rank: 11, Text: "CUDA_ERROR_SYSTEM_NOT_READY", Code: failure.Device},
		{Rank: 12, OK: true}, {Rank: 13, Text: "other", Code: failure.Internal}}}
	for r, err := range outcomes {
		var ve *VoteError
		if !errors.As(err, &ve) {
			t.Fatalf("rank %d: %v", r, err)
		}
		if diff := cmp.Diff(want, ve); diff != "" {
			t.Errorf("rank %d: %s", r, diff)
		}
	}
	if diff := cmp.Diff([]int{11, 13}, want.Failed()); diff != "" || want.ExitCode() != failure.Device {
		t.Error(diff, want.ExitCode())
	}
}

func TestNodeLateRank(t *testing.T) {
	nodes := mesh(t, 3, "", time.Second)
	errs := parallel(2, func(r int) error { return nodes[r].Barrier(bg, "ready") }) // rank 12 does not come
	for r, err := range errs {
		var pe *PeersError
		if !errors.As(err, &pe) {
			t.Fatalf("rank %d: %v", r, err)
		}
		if diff := cmp.Diff([]int{12}, pe.Missing); diff != "" || len(pe.Gone)+len(pe.OutOf) > 0 {
			t.Errorf("rank %d: %s %+v", r, diff, pe)
		}
		if failure.CodeOf(err) != failure.Timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank %d: code %d, %v", r, failure.CodeOf(err), err)
		}
		for _, part := range []string{`barrier at stage "ready" did not complete`, fmt.Sprintf("rank %d on h", 10+r), "rank 12 did not answer within ", "raise timeout"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("rank %d: no %q in %v", r, part, err)
			}
		}
	}
}

func TestNodeCancelled(t *testing.T) {
	nodes := mesh(t, 2, "", time.Minute)
	ctx, cancel := context.WithCancelCause(bg)
	time.AfterFunc(20*time.Millisecond, func() { cancel(failure.New(failure.Terminated, "SIGTERM")) })
	start := time.Now()
	err := nodes[0].Barrier(ctx, "ready")
	if failure.CodeOf(err) != failure.Terminated || time.Since(start) > programtest.Within(5*time.Second) {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// drop closes a rank's connections as its death would.
func drop(n *Node) {
	for _, p := range n.peers {
		if p != nil {
			p.conn.Close()
		}
	}
}

func TestNodeDeath(t *testing.T) {
	for _, when := range []string{"before", "during"} {
		t.Run(when, func(t *testing.T) {
			nodes := mesh(t, 4, "", time.Minute)
			if when == "before" {
				drop(nodes[2])
			} else {
				time.AfterFunc(50*time.Millisecond, func() { drop(nodes[2]) })
			}
			errs := parallel(4, func(r int) error {
				if r == 2 {
					return nil
				}
				return nodes[r].Barrier(bg, "ready")
			})
			for _, r := range []int{0, 1, 3} {
				var pe *PeersError
				if !errors.As(errs[r], &pe) {
					t.Fatalf("rank %d: %v", r, errs[r])
				}
				if diff := cmp.Diff([]Departure{{Rank: 12}}, pe.Gone); diff != "" {
					t.Errorf("rank %d: %s", r, diff)
				}
				if !strings.Contains(errs[r].Error(), "rank 12 closed its connection (it ended)") {
					t.Errorf("rank %d: %v", r, errs[r])
				}
			}
		})
	}
}

// What a rank sent before it died counts.
func TestNodeDeathAfterSending(t *testing.T) {
	nodes := mesh(t, 2, "", time.Minute)
	if _, err := nodes[0].Bcast(bg, "last words", 0, []byte("w")); err != nil {
		t.Fatal(err)
	}
	drop(nodes[0])
	if b, err := nodes[1].Bcast(bg, "last words", 0, nil); err != nil || string(b) != "w" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := nodes[1].Bcast(bg, "next", 0, nil); err == nil {
		t.Error("a dead rank sent more")
	}
	// A root hears of the death from its own sending.
	if _, err := nodes[1].Bcast(bg, "own", 1, nil); err == nil || !strings.Contains(err.Error(), "rank 10 closed") {
		t.Errorf("got %v", err)
	}
}

func TestNodeLeavesWithCode(t *testing.T) {
	nodes := mesh(t, 3, "", time.Minute)
	nodes[1].leave(failure.WrongData)
	err := nodes[0].Barrier(bg, "ready")
	if failure.CodeOf(err) != failure.WrongData || !strings.Contains(err.Error(), "rank 11 left with exit code 7") {
		t.Errorf("code %d: %v", failure.CodeOf(err), err)
	}
}

func TestNodeOutOfStep(t *testing.T) {
	nodes := mesh(t, 2, "", 10*time.Second)
	errs := parallel(2, func(r int) error {
		if r == 1 {
			return nodes[1].Vote(bg, "map", nil)
		}
		return nodes[0].Barrier(bg, "bind")
	})
	want := []string{
		`rank 11 is at stage "map" (vote, step 1) while rank 10 is at "bind" (barrier, step 1)`,
		`rank 10 is at stage "bind" (barrier, step 1) while rank 11 is at "map" (vote, step 1)`,
	}
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), want[r]) || failure.CodeOf(err) != failure.Internal {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestNodeSkippedStep(t *testing.T) {
	nodes := mesh(t, 3, "", 10*time.Second)
	errs := parallel(3, func(r int) error {
		if r == 2 {
			return nodes[2].Barrier(bg, "second") // forgot the first
		}
		if err := nodes[r].Barrier(bg, "first"); err != nil {
			return err
		}
		return nodes[r].Barrier(bg, "second")
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "step 1") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestNodeExchangeNil(t *testing.T) {
	nodes := mesh(t, 3, "", 10*time.Second)
	errs := parallel(3, func(r int) error {
		var mine *os.File
		if r != 1 {
			f, err := memfd("x")
			if err != nil {
				return nil // so that the test fails below
			}
			defer f.Close()
			mine = f
		}
		_, err := nodes[r].ExchangeFiles(bg, "handles", mine)
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 11 brought no descriptor") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	errs = parallel(3, func(r int) error {
		_, err := nodes[r].BcastFiles(bg, "mc", 0, []*os.File{nil})
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "file 0 of 1 is nil") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestNodeReduceUneven(t *testing.T) {
	nodes := mesh(t, 2, "", 10*time.Second)
	errs := parallel(2, func(r int) error {
		_, err := nodes[r].AllreduceFloat64(bg, "times", mpi.Sum, make([]float64, 1+r))
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "values") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestMeshInDirectory(t *testing.T) {
	dir, err := os.MkdirTemp("", "mesh")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	nodes := mesh(t, 4, dir, 10*time.Second)
	all(t, nodes, func(n *Node) error { return nodeFiles(bg, n) })
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	long := filepath.Join(dir, strings.Repeat("x", 100))
	if _, err := listen(socketName(long, NewUniqueID(), 0)); failure.CodeOf(err) != failure.Usage || !strings.Contains(err.Error(), "socket_dir") {
		t.Errorf("long name: %v", err)
	}
	if _, err := listen(socketName(filepath.Join(dir, "none"), NewUniqueID(), 0)); err == nil || !strings.Contains(err.Error(), "socket_dir") {
		t.Errorf("no directory: %v", err)
	}
}

func TestMeshMissingRank(t *testing.T) {
	absent := errors.New("does not come")
	_, errs := gathering{ranks: 3, timeout: time.Second, before: func(r int) error {
		if r == 1 {
			return absent
		}
		return nil
	}}.meet(t)
	for _, r := range []int{0, 2} {
		err := errs[r]
		if failure.CodeOf(err) != failure.Timeout || !strings.Contains(err.Error(), "rank 11 did not connect within") || strings.Contains(err.Error(), "rank 12 did") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// What a barrier costs bounds how finely a benchmark can use it.
func BenchmarkBarrier(b *testing.B) {
	const n = 4
	id := NewUniqueID()
	worlds := make([]*World, n)
	env := func(r int) []string {
		return []string{fmt.Sprintf("%s=%d", EnvRank, r), fmt.Sprintf("%s=%d", EnvSize, n), fmt.Sprintf("%s=%v", EnvUniqueID, id)}
	}
	if err := errors.Join(parallel(n, func(r int) (err error) {
		worlds[r], err = Join(bg, Options{Environ: env(r)})
		return err
	})...); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := errors.Join(parallel(n, func(r int) error {
		for range b.N {
			if err := worlds[r].Node().Barrier(bg, "bench"); err != nil {
				return err
			}
		}
		return nil
	})...); err != nil {
		b.Fatal(err)
	}
	parallel(n, func(r int) error { worlds[r].Finish(0); return nil })
}

// The mode of a socket with a path is not left to the umask.
func TestSocketIsPrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	name := socketName(t.TempDir(), NewUniqueID(), 0)
	l, err := listen(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	// A link that lies in wait is not followed.
	trap := socketName(t.TempDir(), NewUniqueID(), 0)
	if err := os.Symlink("elsewhere", trap); err != nil {
		t.Fatal(err)
	}
	if l, err := listen(trap); err == nil {
		l.Close()
		t.Error("a socket was made through a link")
	}
}

// Of the ranks that end a job each knows whether one before it does too, even when
// all announce it at once; and the others see them go.
func TestAborting(t *testing.T) {
	nodes := mesh(t, 4, "", 10*time.Second)
	if nodes[3].aborting() {
		t.Error("nobody has announced anything")
	}
	codes := map[int]failure.Code{0: failure.Terminated, 1: failure.Timeout, 2: failure.Device}
	parallel(3, func(r int) error { nodes[r].announce(codes[r]); return nil })
	<-nodes[3].lost
	deadline := time.Now().Add(10 * time.Second)
	for r, want := range []bool{false, false, true, true} {
		for nodes[r].aborting() != want && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if nodes[r].aborting() != want {
			t.Errorf("rank %d: another one is aborting before it: %v, want %v", r, !want, want)
		}
	}
}

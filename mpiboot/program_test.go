//go:build linux

package mpiboot

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot/mpi"
)

// The test binary is its own job: with this as its first argument it is one
// rank, and the second argument says what that rank does.
const rankProgram = "rank-program"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == rankProgram {
		runRank(os.Args[2], os.Args[3:])
	}
	leftovers.Isolate()
	os.Exit(m.Run())
}

// runRank never returns.
func runRank(scenario string, args []string) {
	ctx := context.Background()
	o := Options{Timeout: 20 * time.Second, SocketDir: os.Getenv("TEST_SOCKET_DIR"), MPILibrary: os.Getenv("TEST_MPI_LIBRARY")}
	if s := os.Getenv("TEST_TIMEOUT"); s != "" {
		o.Timeout, _ = time.ParseDuration(s)
	}
	if scenario == "launch" {
		np, _ := strconv.Atoi(args[0])
		exit, err := Launch(ctx, np, append([]string{os.Args[0], rankProgram}, args[1:]...), nil, os.Stdout, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(exit)
	}
	if scenario == "early" && os.Getenv(EnvRank) == "1" {
		os.Exit(6) // a usage error, before Join
	}
	if ev, _ := Detect(os.Environ()); scenario == "late" && ev.Rank == 1 {
		time.Sleep(time.Hour)
	}
	if scenario == "apart" { // rank 1 goes no further than to a stage; args: its name
		o.Stage = func(rank int, stage string) {
			if rank == 1 && stage == args[0] {
				time.Sleep(time.Hour)
			}
		}
	}
	w, err := Join(ctx, o)
	if err != nil {
		w.Abort(failure.CodeOf(err), err)
	}
	fmt.Printf("rank %d of %d by %s in %v\n", w.Rank(), w.Size(), w.Launcher(), w.ID())
	code := failure.OK
	switch scenario {
	case "hello", "early", "late":
		err = everything(ctx, w)
	case "codes": // args: the code of each rank
		c, _ := strconv.Atoi(args[w.Rank()])
		code = failure.Code(c)
	case "hosts":
		err = w.RequireOneNode()
	case "abort": // rank 1 fails alone while the others wait in a barrier
		if w.Rank() == 1 {
			w.Abort(failure.WrongData, failure.New(failure.WrongData, "rank 1 alone found this"))
		}
		time.Sleep(time.Hour)
	case "watchdog": // rank 0 aborts while its MPI thread is in a collective
		if w.Rank() == 0 {
			time.AfterFunc(300*time.Millisecond, func() { w.Abort(failure.Device, failure.New(failure.Device, "the kernel hangs")) })
			err = w.Comm().Barrier(ctx, "never complete")
			break
		}
		time.Sleep(time.Hour)
	case "term": // every rank aborts because of SIGTERM
		w.Abort(failure.Terminated, failure.New(failure.Terminated, "ended by SIGTERM"))
	case "absent": // rank 1 does not come to Finish; args: the code of the others
		if w.Rank() == 1 {
			time.Sleep(time.Hour)
		}
		c, _ := strconv.Atoi(args[0])
		code = failure.Code(c)
	case "die": // rank 1 is killed while the others wait
		if w.Rank() == 1 {
			unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		err = w.Node().Barrier(ctx, "after the death")
		w.Abort(failure.CodeOf(err), err)
	case "usr1":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGUSR1)
		unix.Kill(os.Getpid(), unix.SIGUSR1)
		select {
		case <-c:
			fmt.Println("SIGUSR1 arrived")
		case <-time.After(time.Minute):
			code = failure.Timeout
		}
		if nilDereference() != nil {
			fmt.Println("nil dereference recovered")
		}
	case "wait": // until a signal
		c := make(chan os.Signal, 4)
		signal.Notify(c, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
		if err = w.Node().Barrier(ctx, "ready"); err != nil {
			break
		}
		if w.Rank() == 0 {
			fmt.Println("ready")
		}
		for s := range c {
			fmt.Printf("rank %d got %v\n", w.Rank(), s)
			if s == unix.SIGTERM {
				code = failure.Terminated
				break
			}
		}
	case "apart":
	case "deaf": // ignores SIGTERM; rank 0 fails
		signal.Ignore(unix.SIGTERM)
		fmt.Printf("pid %d\n", os.Getpid())
		if err = w.Node().Barrier(ctx, "all are deaf"); err != nil {
			break
		}
		if w.Rank() == 0 && len(args) > 0 {
			os.Exit(5)
		}
		time.Sleep(time.Hour)
	case "lines":
		for i := range 200 {
			fmt.Printf("rank %d line %d %s|", w.Rank(), i, strings.Repeat(string(rune('a'+w.Rank())), 50))
			fmt.Printf("%s\n", strings.Repeat(string(rune('a'+w.Rank())), 50))
		}
		fmt.Printf("rank %d has no end", w.Rank())
	default:
		code = failure.Usage
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "rank %d: %v\n", w.Rank(), err)
		code = failure.CodeOf(err)
	}
	os.Exit(int(w.Finish(code)))
}

func nilDereference() (v any) {
	defer func() { v = recover() }()
	var p *int
	*p = 1
	return nil
}

// everything goes through all operations and checks what they give.
func everything(ctx context.Context, w *World) error {
	c, n := w.Comm(), w.Node()
	if c.Rank() != w.Rank() || c.Size() != w.Size() {
		return fmt.Errorf("Comm is rank %d of %d", c.Rank(), c.Size())
	}
	if err := c.Barrier(ctx, "barrier"); err != nil {
		return err
	}
	for root := range w.Size() {
		want := strings.Repeat(fmt.Sprintf("from %d;", root), 1000*root)
		var mine []byte
		if w.Rank() == root {
			mine = []byte(want)
		}
		if got, err := c.Bcast(ctx, "bcast", root, mine); err != nil || string(got) != want {
			return fmt.Errorf("Bcast from %d: %.20q, %v", root, got, err)
		}
	}
	all, err := c.Allgather(ctx, "gather", []byte(strings.Repeat("x", w.Rank())))
	if err != nil {
		return err
	}
	for r, b := range all {
		if string(b) != strings.Repeat("x", r) {
			return fmt.Errorf("Allgather: %q from %d", b, r)
		}
	}
	r, s := int64(w.Rank()), int64(w.Size())
	for _, t := range []struct {
		op   mpi.Op
		want []int64
	}{{mpi.Max, []int64{s - 1, 0}}, {mpi.Min, []int64{0, 1 - s}}, {mpi.Sum, []int64{s * (s - 1) / 2, -s * (s - 1) / 2}}} {
		got, err := c.AllreduceInt64(ctx, "ints", t.op, []int64{r, -r})
		if err != nil || got[0] != t.want[0] || got[1] != t.want[1] {
			return fmt.Errorf("AllreduceInt64 %v: %v, want %v; %v", t.op, got, t.want, err)
		}
		f, err := c.AllreduceFloat64(ctx, "floats", t.op, []float64{float64(r) / 2})
		if err != nil || f[0] != float64(t.want[0])/2 {
			return fmt.Errorf("AllreduceFloat64 %v: %v; %v", t.op, f, err)
		}
	}
	if err := nodeFiles(ctx, n); err != nil {
		return err
	}
	var mine error
	if n.Rank() == n.Size()-1 {
		mine = failure.New(failure.Unavailable, "last rank says no")
	}
	if err := n.Vote(ctx, "vote", mine); failure.CodeOf(err) != failure.Unavailable {
		return fmt.Errorf("vote: %v", err)
	}
	return n.Vote(ctx, "vote", nil)
}

// nodeFiles passes memory files around and reads them at the other side.
func nodeFiles(ctx context.Context, n *Node) error {
	mine, err := memfd(fmt.Sprintf("memory of %d", n.Rank()))
	if err != nil {
		return err
	}
	defer mine.Close()
	files, err := n.ExchangeFiles(ctx, "exchange", mine)
	if err != nil {
		return err
	}
	for i, f := range files {
		if i == n.Rank() {
			if f != nil {
				return fmt.Errorf("own entry is %v", f)
			}
			continue
		}
		if err := checkFile(f, fmt.Sprintf("memory of %d", i)); err != nil {
			return err
		}
	}
	// All have read before the next operation's files come.
	for root := range n.Size() {
		var give []*os.File
		if root == n.Rank() {
			give = []*os.File{mine, mine}
		}
		got, err := n.BcastFiles(ctx, "bcast files", root, give)
		if err != nil {
			return err
		}
		if len(got) != 2 {
			return fmt.Errorf("%d files from root %d", len(got), root)
		}
		if root == n.Rank() {
			if got[0] != mine {
				return fmt.Errorf("the root did not get its own file")
			}
			continue
		}
		for _, f := range got {
			if err := checkFile(f, fmt.Sprintf("memory of %d", root)); err != nil {
				return err
			}
		}
	}
	return n.Barrier(ctx, "files done")
}

func memfd(content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memfd")
	_, err = f.WriteString(content)
	return f, err
}

// checkFile reads the whole file without moving its offset, which the two
// processes share, and closes it.
func checkFile(f *os.File, want string) error {
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		return fmt.Errorf("received descriptor: flags %#x, %v: not close-on-exec", flags, err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	if err != nil || string(b) != want {
		return fmt.Errorf("file reads %q, %v; want %q", b, err, want)
	}
	return nil
}

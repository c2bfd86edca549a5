package nccl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// parts are what children do.
var parts = map[string]func(context.Context, *rank) error{
	"open":      openAndClose,
	"symmetric": symmetric,
	"reduce":    reduce,
	"types":     types,
	"hang":      hang,
	"twice":     twice,
	"listen":    listen,
}

func openAndClose(ctx context.Context, r *rank) error {
	a, err := Open(ctx, r.Group, r.options())
	if err != nil {
		return err
	}
	fmt.Printf("version %s off %q\n", a.Version(), a.NVLSOff())
	return a.Close(ctx)
}

// reduce runs all-reduces from several threads and from a graph, and looks at the
// data.
func reduce(ctx context.Context, r *rank) error {
	a, err := Open(ctx, r.Group, r.options())
	if err != nil {
		return err
	}
	m, err := r.Alloc(ctx, "test", 1<<20)
	if err != nil {
		return err
	}
	const n = 1000
	data := bytes.Repeat([]byte{1, 2, 3, 4}, n)
	if err := r.Device().CopyToDevice(m.Local(), data); err != nil {
		return err
	}
	call := collective.Call{Send: m.At(0), Recv: m.At(512 << 10), Count: n, DType: collective.Float, Op: collective.Sum}
	p, err := a.Prepare(call)
	if err != nil {
		return err
	}
	// A thread that has never seen the context.
	enqueued := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		enqueued <- p.Enqueue(r.Stream())
	}()
	if err := <-enqueued; err != nil {
		return err
	}
	received := func(what string) error {
		if err := r.Wait(ctx); err != nil {
			return err
		}
		got := make([]byte, len(data))
		if err := r.Device().CopyToHost(got, call.Recv.Local()); err != nil {
			return err
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("%s: wrong data", what)
		}
		return nil
	}
	if err := received("launch"); err != nil {
		return err
	}
	if err := r.Device().CopyToDevice(call.Recv.Local(), make([]byte, len(data))); err != nil {
		return err
	}
	if err := r.Stream().BeginCapture(); err != nil {
		return err
	}
	if err := p.Enqueue(r.Stream()); err != nil {
		return err
	}
	g, err := r.Stream().EndCapture()
	if err != nil {
		return err
	}
	if received("capture") == nil {
		return errors.New("a call ran while it was recorded")
	}
	if err := r.Stream().LaunchGraph(g); err != nil {
		return err
	}
	if err := received("graph"); err != nil {
		return err
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Enqueue(r.Stream()); err != nil {
			panic(err)
		}
	}); n != 0 {
		return fmt.Errorf("%v allocations a call", n)
	}
	return errors.Join(g.Close(), m.Close(ctx), a.Close(ctx))
}

func TestAllReduce(t *testing.T) {
	o := child(t, "reduce")
	if !o.done {
		t.Fatal(o.output)
	}
	calls := o.calls()
	want := []string{"load", "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce"}
	if diff := cmp.Diff(want, calls[:min(len(want), len(calls))]); diff != "" || calls[len(calls)-1] != "ncclCommDestroy" {
		t.Errorf("calls: %v", calls)
	}
	for _, l := range o.log {
		if strings.Contains(l, "context=0") {
			t.Errorf("no context was current in: %s", l)
		}
		if strings.HasPrefix(l, "ncclCommInitRank") && !strings.Contains(l, "ranks=1 rank=0") {
			t.Error(l)
		}
		if strings.HasPrefix(l, "ncclAllReduce") && !strings.Contains(l, "count=1000 dtype=7 op=0") {
			t.Error(l)
		}
	}
}

// types runs every data type and operation once, in the order of the lists.
func types(ctx context.Context, r *rank) error {
	a, err := Open(ctx, r.Group, r.options())
	if err != nil {
		return err
	}
	m, err := r.Alloc(ctx, "test", 1<<20)
	if err != nil {
		return err
	}
	for _, d := range collective.DTypes() {
		for _, op := range collective.Ops() {
			p, err := a.Prepare(collective.Call{Send: m.At(0), Recv: m.At(0), Count: 1, DType: d, Op: op})
			if err != nil {
				return err
			}
			if err := p.Enqueue(r.Stream()); err != nil {
				return fmt.Errorf("%v %v: %w", op, d, err)
			}
		}
	}
	return errors.Join(r.Wait(ctx), m.Close(ctx), a.Close(ctx))
}

// TestTypes compares with the numbers of nccl.h.
func TestTypes(t *testing.T) {
	o := child(t, "types")
	if !o.done {
		t.Fatal(o.output)
	}
	// ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64,
	// ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16; ncclSum, ncclProd,
	// ncclMax, ncclMin, ncclAvg.
	dtype := map[string]int{"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "half": 6, "float": 7, "double": 8, "bfloat16": 9}
	op := map[string]int{"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
	var want, got []string
	for _, d := range collective.DTypes() {
		for _, o := range collective.Ops() {
			want = append(want, fmt.Sprintf("count=1 dtype=%d op=%d", dtype[d.String()], op[o.String()]))
		}
	}
	for _, l := range o.log {
		if strings.HasPrefix(l, "ncclAllReduce") {
			i := strings.Index(l, "count=")
			got = append(got, strings.TrimSuffix(l[i:], " context=1"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAverages(t *testing.T) {
	for _, tt := range []struct {
		ranks int
		d     collective.DType
		op    collective.Op
		ok    bool
	}{
		{3, collective.Float, collective.Avg, false},
		{6, collective.BFloat16, collective.Avg, false},
		{3, collective.Int32, collective.Avg, true},
		{3, collective.Float, collective.Sum, true},
		{8, collective.Half, collective.Avg, true},
	} {
		if err := Supports(Mode, tt.ranks, tt.d, tt.op); (err == nil) != tt.ok || err != nil && failure.CodeOf(err) != failure.Unavailable {
			t.Errorf("%v of %v on %d ranks: %v", tt.op, tt.d, tt.ranks, err)
		}
	}
}

// symmetric runs a call in NCCL's own buffers, and asks for one outside them.
func symmetric(ctx context.Context, r *rank) error {
	const region = 1 << 20
	s, err := OpenSymmetric(ctx, r.Group, region, r.options())
	if err != nil {
		return err
	}
	fmt.Printf("version %s off %q\n", s.Version(), s.NVLSOff())
	at := func(offset uint64) collective.Buffer {
		return collective.Buffer{Address: s.Region() + device.Ptr(offset)}
	}
	data := bytes.Repeat([]byte{7}, region/2)
	if err := r.Device().CopyToDevice(s.Region(), data); err != nil {
		return err
	}
	call := collective.Call{Send: at(0), Recv: at(region / 2), Count: region / 8, DType: collective.Float, Op: collective.Sum}
	p, err := s.Prepare(call)
	if err != nil {
		return err
	}
	if err := errors.Join(p.Enqueue(r.Stream()), r.Wait(ctx)); err != nil {
		return err
	}
	got := make([]byte, len(data))
	if err := r.Device().CopyToHost(got, call.Recv.Local()); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("wrong data")
	}
	call.Count++ // one element beyond the end
	if _, err := s.Prepare(call); failure.CodeOf(err) != failure.Usage {
		return fmt.Errorf("beyond the region: %v", err)
	}
	call.Count, call.Send = 1, collective.Buffer{Address: s.Region() - 4}
	if _, err := s.Prepare(call); failure.CodeOf(err) != failure.Usage {
		return fmt.Errorf("before the region: %v", err)
	}
	return s.Close(ctx)
}

func TestSymmetric(t *testing.T) {
	o := child(t, "symmetric")
	if !o.done {
		t.Fatal(o.output)
	}
	want := []string{"load", "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclMemAlloc", "ncclCommWindowRegister", "ncclAllReduce",
		"ncclCommWindowDeregister", "ncclMemFree", "ncclCommDestroy"}
	if diff := cmp.Diff(want, o.calls()); diff != "" {
		t.Error(diff)
	}
	if log := strings.Join(o.log, "\n"); !strings.Contains(log, "bytes=1048576 flags=1") {
		t.Errorf("not registered as a symmetric window:\n%s", log)
	}
}

func TestTwoRanks(t *testing.T) {
	both := pair(t, "open", [2][]string{})
	var ids []string
	for i, o := range both {
		if !o.done {
			t.Fatalf("rank %d: %s", i, o.output)
		}
		for _, l := range o.log {
			if strings.HasPrefix(l, "ncclCommInitRank") {
				_, id, _ := strings.Cut(l, "id=")
				ids = append(ids, id)
				if !strings.Contains(l, fmt.Sprintf("ranks=2 rank=%d ", i)) {
					t.Error(l)
				}
			}
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("unique ids differ: %v", ids)
	}
}

// TestOneRankFails: the ranks decide together, and the one whose communicator came
// about gives it up.
func TestOneRankFails(t *testing.T) {
	both := pair(t, "open", [2][]string{1: {"FAKENCCL_FAIL=ncclCommInitRank=5", "FAKENCCL_LAST=no socket interface found"}})
	for _, o := range both {
		o.failedWith(t, failure.Unavailable, "rank 1", "ncclCommInitRank: error 5 (invalid usage): no socket interface found", "NCCL_SOCKET_IFNAME=lo")
	}
	if c := both[0].calls(); c[len(c)-1] != "ncclCommAbort" {
		t.Errorf("rank 0 did not give up its communicator: %v", c)
	}
	if c := both[1].calls(); c[len(c)-1] != "ncclCommInitRank" {
		t.Errorf("rank 1 had no communicator: %v", c)
	}
}

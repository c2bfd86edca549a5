package collective_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// Calls that no mode takes.
func TestCallRefusals(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		m := r.Alloc(2 << 20)
		all := reducers(r, m)
		size := m.Bytes()
		for _, c := range []struct {
			call collective.Call
			want string
		}{
			{collective.Call{Send: m.At(2), Recv: m.At(1024), Count: 1, DType: collective.Float}, "send buffer at .* aligned to its element of 4 bytes"},
			{collective.Call{Send: m.At(0), Recv: m.At(1028), Count: 1, DType: collective.Double}, "receive buffer at .* aligned to its element of 8 bytes"},
			{collective.Call{Send: m.At(0), Recv: m.At(size - 16), Count: 5, DType: collective.Float}, "receive buffer of 20 bytes at offset"},
			{collective.Call{Send: m.At(size + 16), Recv: m.At(0), Count: 0, DType: collective.Float}, "send buffer of 0 bytes at offset"},
			{collective.Call{Send: m.At(16), Recv: m.At(0), Count: 1 << 62, DType: collective.Double}, "does not fit"}, // its size in bytes overflows
			{collective.Call{Send: m.At(0), Recv: m.At(16), Count: 5, DType: collective.Float}, "overlap"},
			{collective.Call{Send: m.At(16), Recv: m.At(0), Count: 5, DType: collective.Float}, "overlap"},
		} {
			for _, a := range all {
				if _, err := a.Prepare(c.call); failure.CodeOf(err) != failure.Usage || !matches(c.want, err) {
					r.Fatalf("%s: code %d, expected %q: %v", a.Mode(), failure.CodeOf(err), c.want, err)
				}
			}
		}
		// Side by side is no overlap.
		for _, a := range all {
			if _, err := a.Prepare(collective.Call{Send: m.At(0), Recv: m.At(16), Count: 4, DType: collective.Float}); err != nil {
				r.Fatalf("%s: %v", a.Mode(), err)
			}
		}
		closeAll(r, all)
		r.Close(m)
	})
}

// Modes that reach into peers' buffers refuse memory that peers cannot reach, and
// name those that take it; which are all the others.
func TestPlainMemoryIsRefused(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		all := reducers(r, m)
		plain, free := r.PlainArena(2 << 20)
		for _, a := range all {
			c := collective.Call{Send: plain.Take(16, 0), Recv: m.At(0), Count: 4, DType: collective.Float}
			_, err := a.Prepare(c)
			c.Send, c.Recv = c.Recv, c.Send
			_, err2 := a.Prepare(c)
			switch a.Mode() {
			case "nvls-copy-in", "p2p-copy-in", "p2p-packet":
				if err != nil || err2 != nil {
					r.Fatalf("%s: %v, %v", a.Mode(), err, err2)
				}
			default:
				for _, e := range []error{err, err2} {
					if failure.CodeOf(e) != failure.Usage || !matches(a.Mode()+" needs buffers in symmetric memory.*nvls-copy-in and p2p-copy-in take any buffer", e) {
						r.Fatalf("%s: code %d: %v", a.Mode(), failure.CodeOf(e), e)
					}
				}
			}
		}
		free()
		closeAll(r, all)
		r.Close(m)
	})
}

// Tunings that no kernel can run with are refused, or cut to what the mode has
// room for; they never reach the device.
func TestTuningIsChecked(t *testing.T) {
	grouptest.Run(t, 2, nil, func(r *grouptest.Rank) {
		m := r.Alloc(1)
		for _, tuning := range []collective.Tuning{{Blocks: 257}, {Threads: 1024}, {Blocks: 1, Threads: 4}} {
			all := []collective.AllReducer{fallback.NewRing(r.Group, tuning), nvls.NewZeroCopy(r.Group, tuning), fallback.NewP2P(r.Group, fallback.TwoShot, tuning), fallback.NewP2P(r.Group, fallback.OneShot, tuning)}
			r.OK(all[1].(*nvls.ZeroCopy).Register(context.Background(), m), "Register")
			for _, a := range all {
				_, err := a.Prepare(collective.Call{Send: m.At(0), Recv: m.At(0), Count: 1 << 18, DType: collective.Float})
				if failure.CodeOf(err) != failure.Usage || !matches("at most 256 blocks and from 8 to 512 threads", err) {
					r.Fatalf("%s with %+v: %v", a.Mode(), tuning, err)
				}
			}
			closeAll(r, all)
		}
		r.Close(m)
	})
}

// Whoever makes the grid, one whose blocks do not all run at once is no launch: it
// would wait for blocks that cannot start until the kernel's deadline.
func TestGridRunsAtOnce(t *testing.T) {
	for _, c := range []struct {
		family   collective.KernelFamily
		geometry collective.Geometry
		perSM    int // blocks that run on a multiprocessor; 0 for what is usual
		most     int // 0: it is taken
	}{
		{kernels.Ring, collective.Geometry{Blocks: 4, Threads: 512}, 0, 0},
		{kernels.Ring, collective.Geometry{Blocks: 5, Threads: 512}, 0, 4},
		{kernels.Ring, collective.Geometry{Blocks: 8, Threads: 256}, 0, 0},
		{kernels.Ring, collective.Geometry{Blocks: 9, Threads: 256}, 0, 8},
		{kernels.Ring, collective.Geometry{Blocks: 33, Threads: 32}, 0, 32},
		{kernels.Ring, collective.Geometry{Blocks: 9, Threads: 64}, 2, 8},
		{kernels.PushBulk, collective.Geometry{Blocks: 5, Threads: 64}, 0, 4}, // shared memory for one
	} {
		grouptest.Run(t, 2, func(_ int, o *collective.Options) { o.Sim.BlocksPerSM = c.perSM }, func(r *grouptest.Rank) {
			m := r.Alloc(1)
			call := collective.Call{Send: m.At(0), Recv: m.At(0), Count: 1, DType: collective.Float}
			p, err := r.NewLaunch(c.family, call, c.geometry, kernels.Args{})
			switch want := fmt.Sprintf("%d blocks of %d threads cannot run: a GPU here runs %d such blocks at once", c.geometry.Blocks, c.geometry.Threads, c.most); {
			case c.most == 0:
				r.OK(err, "%+v", c)
				r.OK(p.Close(), "close")
			case failure.CodeOf(err) != failure.Usage || !matches(want, err):
				r.Fatalf("%+v: %v", c, err)
			}
			r.Close(m)
		})
	}
}

// A group of one copies, whatever the mode, and needs no peers' memory for it.
func TestGroupOfOne(t *testing.T) {
	grouptest.Run(t, 1, nil, func(r *grouptest.Rank) {
		plain, free := r.PlainArena(2 << 20)
		for _, a := range reducers(r) {
			s := r.Start(a, grouptest.Case{Send: plain.Take(400, 4), Recv: plain.Take(400, 8), Count: 100, DType: collective.Float, Op: collective.Avg})
			r.Wait()
			s.Verify()
			s.Close()
			if s.Prepared.Algorithm() != "copy" {
				r.Fatalf("%s: algorithm %q", a.Mode(), s.Prepared.Algorithm())
			}
			r.Close(a)
		}
		free()
	})
}

// What Open cannot do is the same error on every rank.
func TestOpenRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		set  func(rank int, o *collective.Options)
		code failure.Code
		want string
	}{
		{"device", 2, func(_ int, o *collective.Options) { o.Device = "simm" }, failure.Usage, `unknown device "simm".*cuda or sim`},
		{"too many ranks", 9, func(int, *collective.Options) {}, failure.Unavailable, "9 ranks on one node, at most 8"},
		{"too few devices", 3, func(_ int, o *collective.Options) { o.Sim.Devices = 2 }, failure.Unavailable, "3 local ranks but only 2 devices.*--share-gpu"},
		{"one device", 2, func(_ int, o *collective.Options) { o.Sim.Devices = 1 }, failure.Unavailable, "ranks 0 and 1 are on one GPU.*--gpu-bind=none"},
		{"options of the software device", 2, func(_ int, o *collective.Options) { o.Sim.Devices = 65 }, failure.Usage, "rank 0.*65 devices: 1 to 64 are possible"},
		{"memory", 2, func(_ int, o *collective.Options) { o.Sim.MemoryBytes = 2 << 20 }, failure.Device, "allocating [0-9]+ bytes for signals and scratch.*bytes are free.*--staging"},
		{"context", 2, func(rank int, o *collective.Options) {
			o.Sim.Fail = failing(rank == 1, "cuDevicePrimaryCtxRetain", device.Unknown)
		}, failure.Device, "rank 1 of 2.*cuDevicePrimaryCtxRetain: error 999"},
		{"signals", 2, func(rank int, o *collective.Options) { o.Sim.Fail = failing(rank == 1, "cuMemcpyHtoD", device.Unknown) }, failure.Device, "set up signals.*rank 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, mappings := countFiles(t), countMappings(t)
			errs := make([]error, c.n)
			grouptest.Worlds(t, c.n, func(w *mpiboot.World) error {
				o := grouptest.Options()
				c.set(w.Rank(), &o)
				g, err := collective.Open(context.Background(), w, o)
				if g != nil {
					return fmt.Errorf("a group was opened: %v", g.Close(context.Background()))
				}
				errs[w.Rank()] = err
				return nil
			})
			for r, err := range errs {
				if failure.CodeOf(err) != c.code || !matches(c.want, err) {
					t.Errorf("rank %d: code %d, expected %q: %v", r, failure.CodeOf(err), c.want, err)
				}
				if fmt.Sprint(err) != fmt.Sprint(errs[0]) {
					t.Errorf("rank %d has another error than rank 0: %v and %v", r, err, errs[0])
				}
			}
			if f, m := countFiles(t), countMappings(t); f != files || m != mappings {
				t.Errorf("%d descriptors and %d mappings before, %d and %d after", files, mappings, f, m)
			}
		})
	}
}

// failing makes every call of a name fail with code.
func failing(here bool, call string, code device.Code) func(string, int) device.Code {
	if !here {
		return nil
	}
	return func(c string, _ int) device.Code {
		if c == call {
			return code
		}
		return 0
	}
}

// Allocation that fails on one rank fails on all, at whichever step, and leaves
// nothing.
func TestAllocFailsOnAllRanks(t *testing.T) {
	for _, call := range []string{"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemMap", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"} {
		for _, at := range []int{1, 2} { // the first call of the name, or the next
			armed := make([]bool, 3)
			calls := 0
			grouptest.Run(t, 3, func(rank int, o *collective.Options) {
				if rank == 1 {
					o.Sim.Fail = func(c string, _ int) device.Code {
						if !armed[rank] || c != call {
							return 0
						}
						if calls++; calls == at {
							return device.OutOfMemory
						}
						return 0
					}
				}
			}, func(r *grouptest.Rank) {
				before, _, err := r.Device().MemInfo()
				r.OK(err, "MemInfo")
				r.Barrier()
				armed[r.Rank()] = true
				m, err := r.Group.Alloc(context.Background(), "the victim", 1)
				armed[r.Rank()] = false
				if at == 2 && (call == "cuMemGetAllocationGranularity" || call == "cuMemCreate" || call == "cuMemExportToShareableHandle") {
					r.OK(err, "%s is called once", call)
					r.Close(m)
					return
				}
				if failure.CodeOf(err) != failure.Device || !matches("rank 1 of 3.*"+call, err) || !matches("the victim", err) {
					r.Fatalf("%s fails: code %d: %v", call, failure.CodeOf(err), err)
				}
				r.Barrier()
				if after, _, err := r.Device().MemInfo(); err != nil || after != before {
					r.Fatalf("%s fails: %d bytes were free, now %d, %v", call, before, after, err)
				}
				r.Barrier()
			})
		}
	}
}

// Several ranks on one device: all that needs no multicast works.
func TestSharedGPU(t *testing.T) {
	grouptest.Run(t, 3, func(_ int, o *collective.Options) { o.ShareGPU, o.Sim.Devices = true, 1 }, func(r *grouptest.Rank) {
		if !r.SharesGPU() {
			r.Fatalf("the group does not know that it shares a GPU")
		}
		m := r.Alloc(1)
		arena := grouptest.NewArena(m)
		for _, a := range fallbacks(r) {
			r.Check(a, grouptest.Case{Send: arena.Take(4000, 0), Recv: arena.Take(4000, 0), Count: 1000, DType: collective.Float})
			r.Close(a)
		}
		r.Close(m)
	})
}

func matches(want string, err error) bool {
	return err != nil && regexp.MustCompile(want).MatchString(err.Error())
}

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
)

func free(t *testing.T, d device.Device) uint64 {
	t.Helper()
	n, _, err := d.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	s := create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	d := open(t, s, 1)
	d0 := open(t, s, 0)
	before := free(t, d0)
	for range 3 {
		c, errs := child(t, s, "hold")
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 8)
		if _, err := stdout.Read(line); err != nil || !strings.HasPrefix(string(line), "holding") {
			t.Fatalf("the child says %q, %v\n%s", line, err, errs)
		}
		if got := free(t, d0); got != before-64*sim.Granule {
			t.Errorf("while the child lives %d bytes are free, expected %d", got, before-64*sim.Granule)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		if got := free(t, d0); got != before {
			t.Errorf("after the child was killed %d bytes are free, before it came %d", got, before)
		}
	}
	// All multicast slots are there again too.
	var all []device.Multicast
	for range 128 {
		mc, err := d.CreateMulticast(2, sim.Granule)
		if err != nil {
			t.Fatalf("multicast object %d: %v", len(all), err)
		}
		all = append(all, mc)
	}
	_, err := d.CreateMulticast(2, sim.Granule)
	wantCode(t, err, device.OutOfMemory)
	if !strings.Contains(err.Error(), "128") {
		t.Errorf("the error does not name the number of slots: %v", err)
	}
	for _, mc := range all {
		if err := mc.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Processes killed in the middle of whatever they do to the shared tables leave
// neither a lock nor memory behind, nor anything of theirs to the next owner.
func TestKilledAtAnyMoment(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	d := open(t, s, 0)
	before := free(t, d)
	for range 8 {
		var children []*exec.Cmd
		for range 3 {
			c, errs := child(t, s, "churn for ever")
			stdout, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdout.Read(make([]byte, 8)); err != nil {
				t.Fatalf("the child does not start: %v\n%s", err, errs)
			}
			children = append(children, c)
		}
		time.Sleep(time.Duration(rand.IntN(20000)) * time.Microsecond)
		for _, c := range children {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range children {
			if err := c.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("a child ended by itself: %v\n%s", err, c.Stderr)
			}
		}
		if got := free(t, d); got != before {
			t.Fatalf("%d bytes are free after all were killed, %d before", got, before)
		}
	}
	if err := errors.Join(churn(d), churnMulticast(d)); err != nil {
		t.Error(err)
	}
}

func TestEightProcessesAllocate(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	d := open(t, s, 0)
	before := free(t, d)
	var all sync.WaitGroup
	for range 8 {
		c, errs := child(t, s, "churn")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := c.Wait(); err != nil {
				t.Errorf("%v: %s", err, errs)
			}
		})
	}
	all.Wait()
	if got := free(t, d); got != before {
		t.Errorf("%d bytes are free afterwards, %d before", got, before)
	}
}

// A descriptor under way keeps memory alive, and its end frees it.
func TestDescriptorKeepsMemory(t *testing.T) {
	s := create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	d := open(t, s, 0)
	before := free(t, d)
	m, err := d.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	closed(t, m)
	if got := free(t, d); got != before-sim.Granule {
		t.Errorf("with a descriptor open %d bytes are free, expected %d", got, before-sim.Granule)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(fds[0], []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	if got := free(t, d); got != before-sim.Granule {
		t.Errorf("with a descriptor in a socket %d bytes are free, expected %d", got, before-sim.Granule)
	}
	unix.Close(fds[0])
	unix.Close(fds[1])
	// The kernel closes descriptors that nobody received at its own time.
	deadline := time.Now().Add(5 * time.Second)
	for free(t, d) != before {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are free after the last descriptor closed, expected %d", free(t, d), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestForeignDescriptors(t *testing.T) {
	a, b := create(t, sim.Options{Devices: 1, MemoryBytes: gib}), create(t, sim.Options{Devices: 1, MemoryBytes: gib})
	da, db := open(t, a, 0), open(t, b, 0)
	if a.ID() == b.ID() || da.Info().UUID == db.Info().UUID {
		t.Error("two sessions have the same names")
	}
	m, err := da.Alloc(sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	mc, err := da.CreateMulticast(1, sim.Granule)
	if err != nil {
		t.Fatal(err)
	}
	export := func(e interface{ Export() (*os.File, error) }) *os.File {
		f, err := e.Export()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	memory, object := export(m), export(mc)
	for name, c := range map[string]struct {
		d    device.Device
		f    *os.File
		mc   bool
		says string
	}{
		"another session":        {db, memory, false, "another session"},
		"the session's own file": {da, a.Files()[0], false, "no exported object"},
		"a device's memory file": {da, a.Files()[1], false, "no exported memory"},
		"a multicast object":     {da, object, false, "multicast object"},
		"memory as multicast":    {da, memory, true, "it is memory"},
		"standard input":         {da, os.Stdin, false, "no exported memory"},
	} {
		var err error
		if c.mc {
			_, err = c.d.ImportMulticast(c.f, 1, sim.Granule)
		} else {
			_, err = c.d.Import(c.f, sim.Granule)
		}
		wantCode(t, err, device.InvalidHandle)
		if !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: the error does not say %q: %v", name, c.says, err)
		}
	}
}

func TestAttachRefusesOtherFiles(t *testing.T) {
	a, b := create(t, sim.Options{Devices: 2, MemoryBytes: gib}), create(t, sim.Options{Devices: 2, MemoryBytes: gib})
	fa, fb := a.Files(), b.Files()
	for name, files := range map[string][]*os.File{
		"none":                    nil,
		"control file only":       fa[:1],
		"one device missing":      fa[:2],
		"devices swapped":         {fa[0], fa[2], fa[1]},
		"device of other session": {fa[0], fa[1], fb[2]},
		"no control file":         {fa[1], fa[1], fa[2]},
	} {
		if s, err := sim.Attach(files); err == nil {
			t.Errorf("%s: attached", name)
			s.Close()
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]sim.Options{
		"devices":     {Devices: 65},
		"negative":    {Devices: -1},
		"memory":      {MemoryBytes: sim.Granule + 1},
		"too much":    {MemoryBytes: 1 << 50},
		"granularity": {MulticastMinimum: 4096},
		"recommended": {MulticastMinimum: 4 << 20, MulticastRecommended: 6 << 20},
		"SMs":         {SMs: -1},
	} {
		if s, err := sim.Create(o); err == nil {
			t.Errorf("%s: %+v was accepted", name, o)
			s.Close()
		}
	}
}

// Everything that a session opened is closed, also what its user forgot.
func TestCloseLeaksNothing(t *testing.T) {
	use := func() {
		s, err := sim.Create(sim.Options{Devices: 2, MemoryBytes: gib})
		if err != nil {
			t.Fatal(err)
		}
		p, err := sim.Attach(s.Files())
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Driver().Open(0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Alloc(sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		mc, err := d.CreateMulticast(1, sim.Granule)
		if err != nil {
			t.Fatal(err)
		}
		st, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		at, err := m.Map()
		if err != nil {
			t.Fatal(err)
		}
		_, mapErr := mapAfterAdd(mc)
		if err := errors.Join(mapErr, mc.Bind(0, m, 0, sim.Granule), st.Set32(at, 1, 100)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Close(), p.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	use() // what the runtime keeps from the first time on
	fds, maps := census(t)
	for range 5 {
		use()
	}
	if f, m := census(t); len(f) != len(fds) || m != maps {
		t.Errorf("%d descriptors and %d mappings of sessions before, afterwards %d and %d: %v", len(fds), maps, len(f), m, f)
	}
}

func mapAfterAdd(mc device.Multicast) (device.Ptr, error) {
	if err := mc.AddDevice(); err != nil {
		return 0, err
	}
	return mc.Map()
}

// census lists this process's descriptors and counts mappings of sessions.
func census(t *testing.T) (fds []string, mappings int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name()) // one of them was the folder itself
		fds = append(fds, to)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return fds, strings.Count(string(maps), "nvls-sim")
}

func TestSessionsLeaveNoFiles(t *testing.T) {
	list := func() (names []string) {
		for _, dir := range []string{"/dev/shm", os.TempDir()} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if strings.Contains(e.Name(), "nvls-sim") {
					names = append(names, e.Name())
				}
			}
		}
		return names
	}
	s := create(t, sim.Options{Name: "here"})
	if got := list(); len(got) != 0 {
		t.Errorf("a session made the files %v", got)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(maps), "nvls-sim-here") {
		t.Error("the session's name is not among the mappings")
	}
	if n := len(s.Driver().Devices()); n != 8 {
		t.Errorf("%d devices by default, expected 8", n)
	}
}

func wantCode(t *testing.T, err error, want device.Code) {
	t.Helper()
	if got, ok := device.CodeOf(err); !ok || got != want {
		t.Errorf("error %v, expected one with code %d", err, want)
	}
}

func waited(t *testing.T, s device.Stream) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return s.Wait(ctx)
}

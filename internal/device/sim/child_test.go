package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
)

// roleVariable makes the test binary play a process of a test instead of
// running tests. The session's files follow descriptor 2; their number is in
// countVariable.
const (
	roleVariable  = "NVLS_SIM_TEST_ROLE"
	countVariable = "NVLS_SIM_TEST_FILES"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play is what a child process does.
func play(role string) error {
	n, err := strconv.Atoi(os.Getenv(countVariable))
	if err != nil {
		return err
	}
	var files []*os.File
	for i := range n {
		files = append(files, os.NewFile(uintptr(3+i), "session"))
	}
	s, err := sim.Attach(files)
	if err != nil {
		return err
	}
	d, err := s.Driver().Open(0)
	if err != nil {
		return err
	}
	switch role {
	case "hold":
		return hold(d)
	case "churn for ever":
		fmt.Println("churning")
		for {
			if err := errors.Join(churn(d), churnMulticast(d)); err != nil {
				return err
			}
		}
	case "churn":
		if err := churn(d); err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
		return s.Close()
	}
	return fmt.Errorf("no role %q", role)
}

// hold takes memory, a multicast slot with a binding, and a descriptor of each,
// says so, and waits to be killed.
func hold(d device.Device) error {
	m, err := d.Alloc(64 * sim.Granule)
	if err != nil {
		return err
	}
	if _, err := m.Map(); err != nil {
		return err
	}
	mc, err := d.CreateMulticast(1, sim.Granule)
	if err != nil {
		return err
	}
	if err := errors.Join(mc.AddDevice(), mc.Bind(0, m, 0, sim.Granule)); err != nil {
		return err
	}
	for _, e := range []interface{ Export() (*os.File, error) }{m, mc} {
		if _, err := e.Export(); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	time.Sleep(time.Minute)
	return errors.New("was not killed")
}

// churn allocates and frees, and checks that nobody else has the same memory.
func churn(d device.Device) error {
	pid := uint32(os.Getpid())
	type piece struct {
		m device.Memory
		p device.Ptr
	}
	var held []piece
	for i := range 200 {
		m, err := d.Alloc(uint64(1+i%3) * sim.Granule)
		if err != nil {
			return err
		}
		p, err := m.Map()
		if err != nil {
			return err
		}
		var word [4]byte
		if err := d.CopyToHost(word[:], p); err != nil {
			return err
		}
		if word != [4]byte{} {
			return fmt.Errorf("new memory holds %v", word)
		}
		if err := d.CopyToDevice(p, []byte(strconv.Itoa(int(pid)))); err != nil {
			return err
		}
		held = append(held, piece{m, p})
		if len(held) > 8 {
			if err := release(d, held[0].m, held[0].p, pid); err != nil {
				return err
			}
			held = held[1:]
		}
	}
	for _, h := range held {
		if err := release(d, h.m, h.p, pid); err != nil {
			return err
		}
	}
	return nil
}

// churnMulticast makes, binds and drops multicast objects of one device.
func churnMulticast(d device.Device) error {
	m, err := d.Alloc(sim.Granule)
	if err != nil {
		return err
	}
	for range 20 {
		mc, err := d.CreateMulticast(1, sim.Granule)
		if err != nil {
			return err
		}
		if err := errors.Join(mc.AddDevice(), mc.Bind(0, m, 0, sim.Granule), mc.Unbind(0, sim.Granule), mc.Close()); err != nil {
			return err
		}
	}
	return m.Close()
}

func release(d device.Device, m device.Memory, p device.Ptr, pid uint32) error {
	want := []byte(strconv.Itoa(int(pid)))
	got := make([]byte, len(want))
	if err := d.CopyToHost(got, p); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("process %s finds %s in its memory", want, got)
	}
	return errors.Join(m.Unmap(), m.Close())
}

// child starts a process with a role in the session.
func child(t *testing.T, s *sim.Session, role string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	c := exec.Command(self)
	c.Env = append(os.Environ(), roleVariable+"="+role, countVariable+"="+strconv.Itoa(len(s.Files())))
	c.ExtraFiles = s.Files()
	c.Stderr = out
	return c, out
}

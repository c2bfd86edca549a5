package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

func TestMemory(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	granularity := must(g.Granularity())

	for _, n := range []uint64{0, 1, granularity + 4096} {
		if _, err := g.Alloc(n); !isCode(err, device.InvalidValue) || !strings.Contains(err.Error(), "granularity") {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	if _, err := g.Alloc(2 << 30); !isCode(err, device.OutOfMemory) || !strings.Contains(err.Error(), "805306368 of 1073741824 free") {
		t.Errorf("Alloc of too much: %v", err)
	}

	m := must(g.Alloc(2 * granularity))
	p := must(m.Map())
	if _, err := m.Map(); err == nil {
		t.Error("mapped twice")
	}
	host := bytes.Repeat([]byte{1}, int(2*granularity))
	if err := g.CopyToHost(host, p); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(host, make([]byte, len(host))) {
		t.Error("new memory is not zero")
	}

	file := must(m.Export())
	peer := must(g.Import(file, m.Bytes()))
	file.Close()
	q := must(peer.Map())
	if err := g.CopyToDevice(p+4096, []byte("written by the owner")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if err := g.CopyToHost(got, q+4096); err != nil {
		t.Fatal(err)
	}
	if string(got) != "written by the owner" {
		t.Errorf("the peer reads %q", got)
	}

	if err := m.Close(); !isCode(err, device.IllegalState) {
		t.Errorf("closed while mapped: %v", err)
	}
	f.forget(t)
	if err := errors.Join(m.Unmap(), m.Close(), peer.Unmap(), peer.Close()); err != nil {
		t.Fatal(err)
	}
	teardown := []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}
	// The goroutine may be on a new thread, where a context is set first.
	calls := slices.DeleteFunc(f.calls(t), func(s string) bool { return s == "cuCtxSetCurrent" })
	if diff := cmp.Diff(append(teardown, teardown...), calls); diff != "" {
		t.Error(diff)
	}
	if err := m.Unmap(); err == nil {
		t.Error("unmapped twice")
	}
	if err := m.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// What was made before a failing step is taken back.
func TestMemoryFailures(t *testing.T) {
	buildShared(t, "libfakecuda.so", fakeSource)
	for _, tt := range []struct {
		fail, call string
		code       device.Code
		undone     []string
	}{
		{"cuMemAddressReserve=2", "cuMemAddressReserve", device.OutOfMemory, []string{"cuMemRelease"}},
		{"cuMemMap=401", "cuMemMap", device.IllegalState, []string{"cuMemAddressFree", "cuMemRelease"}},
		{"cuMemSetAccess=1", "cuMemSetAccess", device.InvalidValue, []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}},
		{"cuMemsetD32Async=700", "cuMemsetD32Async", device.IllegalAddress, []string{"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}},
	} {
		t.Run(tt.fail, func(t *testing.T) {
			f := newFake(t, tt.fail)
			_, g := f.open(t, "")
			_, err := g.Alloc(2 << 20)
			var e *device.Error
			if !errors.As(err, &e) || e.Call != tt.call || e.Code != tt.code || e.Device != g.Info().UUID || e.Name == "" {
				t.Errorf("got %+v", err)
			}
			calls := slices.DeleteFunc(f.calls(t), func(s string) bool { return s == "cuCtxSetCurrent" })
			if got := calls[max(0, len(calls)-len(tt.undone)):]; !slices.Equal(got, tt.undone) {
				t.Errorf("last calls %v, want %v", got, tt.undone)
			}
		})
	}
}

// An exported descriptor does not leak into programs that this one starts.
func TestExportCloseOnExec(t *testing.T) {
	f := newFake(t, "")
	_, g := f.open(t, "")
	m := must(g.Alloc(2 << 20))
	defer m.Close()
	file := must(m.Export())
	defer file.Close()
	info := string(must(os.ReadFile(filepath.Join("/proc/self/fdinfo", fmt.Sprint(file.Fd())))))
	var flags uint64
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			fmt.Sscanf(v, "%o", &flags)
		}
	}
	if flags&0o2000000 == 0 {
		t.Errorf("O_CLOEXEC is not set: %s", info)
	}
}

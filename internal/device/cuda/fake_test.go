package cuda

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// The C sources are embedded so that a test binary can be carried to another
// machine.
var (
	//go:embed testdata/fakecuda.c
	fakeSource string
	//go:embed testdata/audit.c
	auditSource string
)

var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "cuda-test") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := buildDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var built sync.Map // name of a shared object -> func() (string, error)

// buildShared compiles a C source to a shared object, once, and skips the test
// where there is no C compiler.
func buildShared(t testing.TB, name, source string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("the fake libcuda needs gcc, which is not here")
	}
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		dir, err := buildDir()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		cmd := exec.Command(gcc, "-O1", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("gcc: %w\n%s", err, out)
		}
		return path, nil
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// fake is the fake libcuda with its log.
type fake struct {
	path, log string
}

// newFake prepares the fake for the next Open. fail is its FAKECUDA_FAIL.
func newFake(t testing.TB, fail string) *fake {
	t.Helper()
	f := &fake{path: buildShared(t, "libfakecuda.so", fakeSource), log: filepath.Join(t.TempDir(), "calls")}
	t.Setenv("FAKECUDA_LOG", f.log)
	t.Setenv("FAKECUDA_FAIL", fail)
	return f
}

// calls gives the entry points called so far, in order.
func (f *fake) calls(t testing.TB) []string { return readLines(t, f.log) }

// forget empties the log.
func (f *fake) forget(t testing.TB) {
	if err := os.Truncate(f.log, 0); err != nil {
		t.Fatal(err)
	}
}

func readLines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(bytes.TrimSpace(b)))
}

// open opens the fake and its first device, and closes both at the end.
func (f *fake) open(t testing.TB, multicastOff string) (*Driver, *gpu) {
	t.Helper()
	drv, err := Open(Options{Library: f.path, MulticastOff: multicastOff, NVML: noNVML()})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if err := drv.Close(); err != nil {
			t.Error(err)
		}
	})
	return drv.(*Driver), dev.(*gpu)
}

// must fails the test on an error and passes the value on.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fakePTX names the kernels that the fake executes.
const fakePTX = `
.entry add_one(
.entry busy(
.entry fault(
.entry nothing(
`

func kernel(t testing.TB, g *gpu, name string) device.Function {
	t.Helper()
	m, err := g.LoadModule(fakePTX)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := m.Function(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// words packs arguments of a kernel of the fake.
func words(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

func isCode(err error, code device.Code) bool {
	c, ok := device.CodeOf(err)
	return ok && c == code
}

package nccl

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/site"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// A process opens one NCCL, and that reads its environment once. So each test
// runs in a process of its own: the test binary again, with one rank's part.

const (
	envPart    = "NCCL_TEST_PART"    // the part of children to run
	envSwitch  = "NCCL_TEST_SWITCH"  // Options.MulticastOff of the group
	envLibrary = "NCCL_TEST_LIBRARY" // Options.Library
)

//go:embed testdata/fakenccl.c
var fakeSource string

var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "nccl-test") })

func TestMain(m *testing.M) {
	if part := os.Getenv(envPart); part != "" {
		if err := runPart(part); err != nil {
			fmt.Printf("FAILED code %d: %v\n", failure.CodeOf(err), err)
			os.Exit(1)
		}
		fmt.Println("DONE")
		os.Exit(0)
	}
	code := m.Run()
	if dir, err := buildDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// rank is one rank's group in a process of its own.
type rank struct {
	*collective.Group
	hung chan error // what Options.Hung was given
}

func (r *rank) options() Options {
	return Options{Library: os.Getenv(envLibrary), Setup: time.Second, Hung: func(err error) { r.hung <- err }}
}

func runPart(name string) error {
	part, ok := parts[name]
	if !ok {
		return fmt.Errorf("no part %q", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, err := mpiboot.Join(ctx, mpiboot.Options{Timeout: 20 * time.Second, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	g, err := collective.Open(ctx, w, collective.Options{Device: "cuda", MulticastOff: os.Getenv(envSwitch), Timeout: time.Second, ShareGPU: true})
	if err != nil {
		return err
	}
	if err := part(ctx, &rank{g, make(chan error, 1)}); err != nil {
		return err
	}
	if err := g.Close(ctx); err != nil {
		return err
	}
	w.Finish(failure.OK)
	return nil
}

// outcome is what one child did.
type outcome struct {
	done   bool
	output string
	log    []string // of the fake NCCL
}

// calls are the names of the calls in the log, in order.
func (o outcome) calls() []string {
	var out []string
	for _, l := range o.log {
		name, _, _ := strings.Cut(l, " ")
		out = append(out, name)
	}
	return out
}

// failedWith tells whether the child's error has the code and all words.
func (o outcome) failedWith(t *testing.T, code failure.Code, words ...string) {
	t.Helper()
	for _, w := range append(words, fmt.Sprintf("FAILED code %d:", code)) {
		if o.done || !strings.Contains(o.output, w) {
			t.Errorf("%q is missing in:\n%s", w, o.output)
		}
	}
}

// child runs a part as one rank, with variables added to the environment.
func child(t *testing.T, part string, env ...string) outcome {
	t.Helper()
	return <-start(t, part, env...)
}

// pair runs a part as two ranks; the i-th of each adds its own variables.
func pair(t *testing.T, part string, env [2][]string) [2]outcome {
	t.Helper()
	id := mpiboot.NewUniqueID()
	var running [2]chan outcome
	for i := range running {
		running[i] = start(t, part, append(env[i], fmt.Sprintf("%s=%d", mpiboot.EnvRank, i), mpiboot.EnvSize+"=2", fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, id))...)
	}
	return [2]outcome{<-running[0], <-running[1]}
}

// start runs a child against the fakes: libcuda and libnccl as the linker finds
// them, unless the variables say otherwise.
func start(t *testing.T, part string, env ...string) chan outcome {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(must(os.Executable()))
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case site.EnvMulticast, site.EnvNCCL, site.EnvTorch, site.EnvNVSHMEM, envPlugin, "LD_LIBRARY_PATH", "LD_PRELOAD":
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, envPart+"="+part, "FAKENCCL_LOG="+log, "FAKECUDA_LOG=", "FAKECUDA_FAIL=",
		"FAKECUDA_ATTR132=0", // the fake's multicast granularity makes all memory large
		"LD_LIBRARY_PATH="+filepath.Dir(fakeCUDA(t))+":"+filepath.Dir(fakeNCCL(t, "")))
	cmd.Env = append(cmd.Env, env...)
	done := make(chan outcome, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		raw, _ := os.ReadFile(log)
		o := outcome{done: err == nil && bytes.Contains(out, []byte("DONE")), output: string(out)}
		if s := strings.TrimSpace(string(raw)); s != "" {
			o.log = strings.Split(s, "\n")
		}
		done <- o
	}()
	return done
}

// fakeCUDA builds the fake libcuda of package cuda.
func fakeCUDA(t *testing.T) string {
	source, err := os.ReadFile("../device/cuda/testdata/fakecuda.c")
	if err != nil {
		t.Fatal(err)
	}
	return shared(t, "cuda", "libcuda.so.1", string(source))
}

// fakeNCCL builds the fake NCCL: variant is "" or the macro with which it is
// compiled.
func fakeNCCL(t *testing.T, variant string) string {
	source := fakeSource
	if variant != "" {
		source = "#define " + variant + "\n" + source
	}
	return shared(t, "nccl"+variant, soname, source)
}

var built sync.Map // folder -> func() (string, error)

// shared compiles a C source to folder/name, once, and skips the test where there
// is no C compiler.
func shared(t *testing.T, folder, name, source string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("the fake libraries need gcc, which is not here")
	}
	once, _ := built.LoadOrStore(folder, sync.OnceValues(func() (string, error) {
		dir, err := buildDir()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		cmd := exec.Command(gcc, "-O1", "-shared", "-fPIC", "-Wl,-soname,"+name, "-x", "c", "-o", path, "-", "-ldl")
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

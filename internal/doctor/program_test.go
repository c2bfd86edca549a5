//go:build linux

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// The test binary is the program: with one of these as its first argument it is
// the doctor, or one of its probe processes.
const (
	roleDoctor = "role-doctor"
	roleProbe  = "role-probe"
)

// Environment of the program.
const (
	// envFail makes driver calls of the software device fail in probe processes:
	// "cuMulticastBindMem=401@1:1,…", with "@RANK" for one rank, ":N" for the first
	// N calls and "#N" for the N-th. Instead of a code: hang, crash or kill.
	envFail = "DOCTOR_TEST_FAIL"
	// envAsk limits them to one of the two probes.
	envAsk = "DOCTOR_TEST_ASK"
	// envProbe is another command for probe processes.
	envProbe = "DOCTOR_TEST_PROBE"
	// envRoot is the doctor's view of the file system, "" for the real one.
	envRoot = "DOCTOR_TEST_ROOT"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleProbe:
			spec := os.Getenv(envFail)
			if ask := os.Getenv(envAsk); ask != "" && !strings.Contains(os.Args[2], `"Ask":"`+ask+`"`) {
				spec = ""
			}
			os.Exit(int(Probe(context.Background(), os.Args[2], os.Environ(), os.Stdout, os.Stderr, &sim.Options{Process: sim.Process{Fail: faults(spec)}})))
		case roleDoctor:
			os.Exit(runDoctor(os.Args[2:]))
		}
	}
	leftovers.Isolate()
	// The tests wait more than they compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	if dir, err := buildDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// runDoctor is the program's doctor; arguments are "key=value" of the
// configuration.
func runDoctor(args []string) int {
	cfg := configs.Default()
	var layer []configs.Setting
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		var value any = v
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			value = n
		}
		if v == "true" {
			value = true
		}
		layer = append(layer, configs.Setting{Key: k, Value: value, Origin: "the test"})
	}
	if err := cfg.Apply(layer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 6
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s := Host(os.Environ())
	if root := os.Getenv(envRoot); root != "" {
		s.Root = root
	}
	probe := []string{self, roleProbe}
	if os.Getenv(envProbe) != "" {
		probe = []string{os.Getenv(envProbe)}
	}
	return int(Main(context.Background(), Options{Config: cfg, JSON: true, Probe: probe, System: s, Version: "test", Stdout: os.Stdout, Stderr: os.Stderr}))
}

// faults reads envFail.
func faults(spec string) func(call string, n int) device.Code {
	rank := os.Getenv("NVLS_ALLREDUCE_RANK")
	return func(call string, n int) device.Code {
		for one := range strings.SplitSeq(spec, ",") {
			name, what, _ := strings.Cut(one, "=")
			what, times, limited := strings.Cut(what, ":")
			what, nth, exact := strings.Cut(what, "#")
			what, who, only := strings.Cut(what, "@")
			if name != call || only && who != rank {
				continue
			}
			if most, err := strconv.Atoi(times); limited && err == nil && n > most {
				continue
			}
			if exact && nth != strconv.Itoa(n) {
				continue
			}
			switch what {
			case "hang":
				select {} // this call never returns
			case "crash":
				panic("the driver breaks the process")
			case "kill":
				syscall.Kill(os.Getpid(), syscall.SIGSEGV)
				select {}
			}
			code, err := strconv.Atoi(what)
			if err != nil {
				panic("bad fault " + one)
			}
			return device.Code(code)
		}
		return 0
	}
}

// program runs the doctor as a process of its own and reads its report.
type program struct {
	args    []string // configuration
	environ []string // added to what every run has
	prefix  []string // command that starts it, for instance unshare
	cluster *slurmtest.Cluster
}

func (p program) run(t *testing.T) (*Report, int, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(append([]string{}, p.prefix...), self, roleDoctor)
	argv = append(argv, p.args...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	environ := os.Environ()
	if p.cluster != nil {
		cmd = p.cluster.Command(ctx, argv[0], argv[1:]...)
		environ, cmd.Env = cmd.Env, nil
	}
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "NVLS_ALLREDUCE_MULTICAST", "CUDA_VISIBLE_DEVICES":
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, p.environ...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	// MPI libraries write on standard output too.
	text := "\n" + stdout.String()
	start := max(strings.Index(text, "\n{\n"), 0)
	var r Report
	if e := json.NewDecoder(strings.NewReader(text[start:])).Decode(&r); e != nil {
		t.Fatalf("no report: %v, %v\n%s\n%s", e, err, &stdout, &stderr)
	}
	for _, f := range r.Findings {
		sound(t, f)
	}
	if r.Schema != Schema {
		t.Errorf("schema %q", r.Schema)
	}
	return &r, cmd.ProcessState.ExitCode(), stderr.String()
}

// verdictOf gives the verdict on a mode.
func verdictOf(t *testing.T, r *Report, mode string) ModeVerdict {
	t.Helper()
	for _, v := range r.Verdict.Modes {
		if v.Mode == mode {
			return v
		}
	}
	t.Fatalf("no verdict on %s in %+v", mode, r.Verdict)
	return ModeVerdict{}
}

var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "doctor-test") })

var built sync.Map // name of a shared object -> func() (string, error)

// buildShared compiles a C source of package cuda's tests to a shared object,
// once.
func buildShared(t *testing.T, source, name string) string {
	t.Helper()
	slurmtest.Require(t, "gcc", "gcc")
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		dir, err := buildDir()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", path, filepath.Join("../device/cuda/testdata", source)).CombinedOutput()
		if err != nil {
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

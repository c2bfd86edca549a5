//go:build linux

package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// fakeSystem is a machine of files in a folder. Names that end in / are folders.
func fakeSystem(t *testing.T, files map[string]string, environ ...string) *System {
	t.Helper()
	s := Host(environ)
	s.Root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(s.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// find gives the finding with an id.
func find(t *testing.T, findings []Finding, id string) Finding {
	t.Helper()
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.ID == id })
	if i < 0 {
		t.Fatalf("no finding %s in %+v", id, findings)
	}
	return findings[i]
}

// want checks severity, outcome and words of a finding, and what every finding
// must have.
func want(t *testing.T, f Finding, s Severity, o Outcome, words ...string) {
	t.Helper()
	if f.Severity != s || f.Outcome != o {
		t.Errorf("%s is %s, %q, want %s, %q: %s", f.ID, f.Severity, f.Outcome, s, o, f.What)
	}
	text := f.What + " " + f.Do
	for _, e := range f.Evidence {
		text += " " + e.Value
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q: %+v", f.ID, w, f)
		}
	}
	sound(t, f)
}

// sound checks the laws of findings: what fails says what it costs, what to do
// and who can; what could not be told costs nothing; everything but what was
// skipped shows evidence.
func sound(t *testing.T, f Finding) {
	t.Helper()
	if f.ID == "" || f.What == "" {
		t.Errorf("a finding without id or words: %+v", f)
	}
	if f.Severity == Failed && (len(f.Cost)+len(f.Partly) == 0 || f.Do == "" || f.By == "" || f.Outcome != No) {
		t.Errorf("%s failed without cost, remedy, who or outcome no: %+v", f.ID, f)
	}
	if f.Outcome == Unknown && (len(f.Cost) > 0 || f.Severity == OK || f.Severity == Failed) {
		t.Errorf("%s could not be told and reads as an answer: %+v", f.ID, f)
	}
	if f.Exit != 0 && len(f.Cost) == 0 {
		t.Errorf("%s costs nothing and ends a run with %d: %+v", f.ID, f.Exit, f)
	}
	if f.Severity == OK && (len(f.Cost) > 0 || f.Do != "") {
		t.Errorf("%s is ok and yet asks for something: %+v", f.ID, f)
	}
	if (f.Do == "") != (f.By == "") || f.By != "" && f.By != failure.User && f.By != failure.Administrator {
		t.Errorf("%s: what to do %q, who %q", f.ID, f.Do, f.By)
	}
	if f.Severity != Skipped && len(f.Evidence) == 0 && f.ID != "launcher" {
		t.Errorf("%s shows no evidence: %+v", f.ID, f)
	}
	for _, e := range f.Evidence {
		if e.Value == "" || e.From == "" {
			t.Errorf("%s: evidence %+v", f.ID, e)
		}
	}
}

func TestContainer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		files   map[string]string
		environ []string
		kind    string
		outcome Outcome
	}{
		{"none", map[string]string{"/proc/1/cgroup": "0::/init.scope"}, nil, "no sign", ""},
		{"apptainer", nil, []string{"APPTAINER_CONTAINER=/x.sif"}, "Apptainer", ""},
		{"singularity", nil, []string{"SINGULARITY_CONTAINER=/x.sif"}, "Singularity", ""},
		{"singularity without environment", map[string]string{"/.singularity.d/": ""}, nil, "Singularity", ""},
		{"docker", map[string]string{"/.dockerenv": ""}, nil, "Docker", ""},
		{"podman", map[string]string{"/run/.containerenv": ""}, nil, "Podman", ""},
		{"charliecloud", nil, []string{"CH_RUNNING=Weird Al Yankovic"}, "Charliecloud", ""},
		{"kubernetes", nil, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, "Kubernetes", ""},
		{"kubernetes by cgroup", map[string]string{"/proc/1/cgroup": "11:cpu:/kubepods/pod7"}, nil, "kubepods", ""},
		{"systemd-nspawn", nil, []string{"container=systemd-nspawn"}, "systemd-nspawn", ""},
		{"no cgroup file", nil, nil, "no sign", Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := find(t, []Finding{inContainer(fakeSystem(t, tt.files, tt.environ...))}, "container")
			want(t, f, Info, tt.outcome, tt.kind)
		})
	}
}

func TestSeccomp(t *testing.T) {
	want(t, confinement(fakeSystem(t, map[string]string{"/proc/self/status": "Name:\tx\nSeccomp:\t0\n"}))[0], Info, "", "no seccomp")
	want(t, confinement(fakeSystem(t, map[string]string{"/proc/self/status": "Name:\tx\nSeccomp:\t2\n"}))[0], Info, "", "Seccomp: 2", "filter is on")
	want(t, confinement(fakeSystem(t, map[string]string{"/proc/self/status": "Name:\tx\n"}))[0], Info, Unknown)
	want(t, confinement(fakeSystem(t, nil))[0], Warning, Unknown, "no such file")
}

// A filter that forbids get_mempolicy, as container runtimes have it, for real.
func TestForbiddenCall(t *testing.T) {
	const (
		loadNumber = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		jumpEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		give       = unix.BPF_RET | unix.BPF_K
		allow      = 0x7fff0000 // SECCOMP_RET_ALLOW
		refuse     = 0x00050000 // SECCOMP_RET_ERRNO
	)
	filter := []unix.SockFilter{
		{Code: loadNumber, K: 0}, // seccomp_data.nr
		{Code: jumpEqual, K: unix.SYS_GET_MEMPOLICY, Jt: 0, Jf: 1},
		{Code: give, K: refuse | uint32(unix.EPERM)},
		{Code: give, K: allow},
	}
	s := fakeSystem(t, map[string]string{"/proc/self/status": "Seccomp:\t2"})
	done := make(chan Finding)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its filter
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			t.Error(err)
		}
		done <- confinement(s)[0]
	}()
	want(t, find(t, []Finding{<-done}, "seccomp"), Info, "", "forbids get_mempolicy", "NCCL_CUMEM_HOST_ENABLE=0")
}

func TestCompareNamespaces(t *testing.T) {
	same := map[string]string{"user": "user:[1]", "pid": "pid:[2]", "net": "net:[3]", "ipc": "ipc:[4]", "mnt": "mnt:[5]"}
	with := func(kind, id string) map[string]string {
		m := map[string]string{}
		for k, v := range same {
			m[k] = v
		}
		m[kind] = id
		return m
	}
	ranks := []int{4, 5}
	want(t, find(t, compareNamespaces(ranks, []map[string]string{same, same}), "namespaces"), OK, Yes, "net:[3]")
	want(t, find(t, compareNamespaces(ranks, []map[string]string{same, with("user", "user:[9]")}), "namespaces.user"), Warning, "", "user:[9] of rank 5", "UCX_TLS=^posix,cma")
	want(t, find(t, compareNamespaces(ranks, []map[string]string{same, with("pid", "pid:[9]")}), "namespaces.pid"), Info, "", "no process number")
	want(t, find(t, compareNamespaces(ranks, []map[string]string{same, with("net", "net:[9]")}), "namespaces.net"), Info, "", "socket_dir")
	want(t, find(t, compareNamespaces(ranks, []map[string]string{same, with("ipc", "ipc:[9]")}), "namespaces.ipc"), Info, "", "shared memory")
	// Mount namespaces differ between containers as a rule and mean nothing.
	if f := compareNamespaces(ranks, []map[string]string{same, with("mnt", "mnt:[9]")}); len(f) != 1 || f[0].Severity != OK {
		t.Errorf("different mount namespaces: %+v", f)
	}
	unknown := find(t, compareNamespaces(ranks, []map[string]string{same, with("net", "")}), "namespaces.net")
	if unknown.Outcome != Unknown || unknown.Severity == OK {
		t.Errorf("an unreadable namespace reads as an answer: %+v", unknown)
	}
}

func TestLimits(t *testing.T) {
	s := fakeSystem(t, map[string]string{"/tmp/": "", "/dev/shm/": ""})
	limit := map[int]uint64{unix.RLIMIT_NOFILE: 64, unix.RLIMIT_MEMLOCK: 65536, unix.RLIMIT_AS: 1 << 30}
	s.Limit = func(r int) (unix.Rlimit, error) { return unix.Rlimit{Cur: limit[r], Max: limit[r]}, nil }
	f := limits(s)
	want(t, find(t, f, "limits.files"), Warning, "", "RLIMIT_NOFILE = 64", "ulimit -n")
	want(t, find(t, f, "limits.locked-memory"), Info, "", "65536")
	want(t, find(t, f, "limits.address-space"), Warning, "", "ulimit -v unlimited")
	want(t, find(t, f, "tmp"), OK, Yes)
	limit = map[int]uint64{unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_MEMLOCK: 1<<64 - 1, unix.RLIMIT_AS: 1<<64 - 1}
	f = limits(s)
	want(t, find(t, f, "limits.files"), OK, "")
	want(t, find(t, f, "limits.locked-memory"), OK, "", "unlimited")
	want(t, find(t, f, "limits.address-space"), OK, "")
	s.Limit = func(int) (unix.Rlimit, error) { return unix.Rlimit{}, unix.ENOSYS }
	for _, id := range []string{"limits.files", "limits.processes", "limits.file-size", "limits.locked-memory", "limits.address-space"} {
		want(t, find(t, limits(s), id), Warning, Unknown, "not implemented")
	}

	empty := limits(fakeSystem(t, nil))
	want(t, find(t, empty, "tmp"), Warning, No, "/tmp", "TMPDIR")
	want(t, find(t, empty, "shm"), Warning, Unknown, "no such file")
	elsewhere := limits(fakeSystem(t, map[string]string{"/scratch/": ""}, "TMPDIR=/scratch"))
	want(t, find(t, elsewhere, "tmp"), OK, Yes, "/scratch")
}

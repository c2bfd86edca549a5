//go:build linux

package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

func TestSimulated(t *testing.T) {
	t.Parallel()
	r, code, stderr := program{args: []string{"run.device=sim", "sim.devices=3"}}.run(t)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	want(t, find(t, r.Findings, "peers"), OK, Yes, "all pairs", "SIMULATED", "ring")
	want(t, find(t, r.Findings, "multicast"), OK, Yes, "SIMULATED", "round 2", "bfloat16")
	if !r.Simulated || !strings.HasPrefix(r.Verdict.Text, "SIMULATED") {
		t.Errorf("the verdict is not labelled: %+v", r.Verdict)
	}
	for _, mode := range allModes {
		if v := verdictOf(t, r, mode); v.Runs != Yes {
			t.Errorf("%+v", v)
		}
	}
}

// Every code of a multicast call, and what breaks without one, ends as a finding
// with its own words, while ring and p2p still work.
func TestMulticastFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fail string
		by         failure.Who
		words      []string
	}{
		{"unhealthy at create", "cuMulticastCreate=1", failure.Administrator, []string{"error 1 ", "nvls.unhealthy", "nvidia-smi -r"}},
		{"unhealthy at bind", "cuMulticastBindMem=1@1", failure.Administrator, []string{"error 1 ", "nvls.unhealthy", "fabricmanager.log"}},
		{"slots", "cuMulticastBindMem=2", failure.User, []string{"error 2 ", "nvls.slots", "128"}},
		{"not visible", "cuMemImportFromShareableHandle=101@1#3", failure.User, []string{"error 101 ", "nvls.not-visible", "--gpu-bind=none"}},
		{"system call", "cuMemExportToShareableHandle=304@0#3", failure.User, []string{"error 304 ", "nvls.system-call", "ulimit -n"}},
		{"fabric manager at add", "cuMulticastAddDevice=401@1", failure.Administrator, []string{"error 401 ", "nvls.fabric-manager", "systemctl status nvidia-fabricmanager"}},
		{"fabric manager at bind", "cuMulticastBindMem=401", failure.Administrator, []string{"error 401 ", "nvls.fabric-manager"}},
		{"not permitted", "cuMulticastCreate=800", failure.Administrator, []string{"error 800 ", "nvls.not-permitted"}},
		{"not supported", "cuMulticastCreate=801", failure.Administrator, []string{"error 801 ", "nvls.not-supported", "vGPU"}},
		{"not ready", "cuMulticastBindMem=802", failure.Administrator, []string{"802", "nvls.not-ready", "10 times"}},
		{"Xid", "cuMulticastBindMem=999@0", failure.Administrator, []string{"error 999 ", "nvls.xid", "dmesg"}},
		{"a code nobody knows", "cuMulticastBindMem=917@0", failure.User, []string{"error 917 ", "nvls.refused"}},
		{"fabric manager at map", "cuMemMap=401@1#5", failure.Administrator, []string{"error 401 ", "nvls.fabric-manager", "fabricmanager.log"}},
		{"unbind refused", "cuMulticastUnbind=1@1", failure.User, []string{"could not be taken down", "cuMulticastUnbind: error 1 "}},
		{"bind hangs", "cuMulticastBindMem=hang@1", failure.Administrator, []string{"nvls.bind-hangs", "did not answer within 2s", "rank 1"}},
		{"create hangs", "cuMulticastCreate=hang@0", failure.Administrator, []string{"rank 0", "it was ended after ", "bind and map a multicast object"}},
		{"breaks", "cuMulticastAddDevice=crash@1", failure.Administrator, []string{"broke", "rank 1", "the driver breaks the process"}},
		{"killed", "cuMulticastAddDevice=kill@0", failure.Administrator, []string{"broke", "rank 0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run.device=sim"}
			switch tt.name {
			case "bind hangs":
				args = append(args, "bootstrap.timeout=6s")
			case "create hangs":
				args = append(args, fmt.Sprint("bootstrap.timeout=", max(3*time.Second, programtest.Within(time.Second))))
			}
			r, code, _ := program{args: args, environ: []string{envFail + "=" + tt.fail, envAsk + "=multicast"}}.run(t)
			f := find(t, r.Findings, "multicast")
			want(t, f, Failed, No, tt.words...)
			if f.By != tt.by {
				t.Errorf("%q can do it, want %q: %s", f.By, tt.by, f.Do)
			}
			if strings.Join(f.Cost, " ") != strings.Join(nvlsModes, " ") {
				t.Errorf("costs %v", f.Cost)
			}
			if v := verdictOf(t, r, configs.ModeZeroCopy); v.Runs != No || v.Because[0] != "multicast" {
				t.Errorf("%+v", v)
			}
			if v := verdictOf(t, r, configs.ModeRing); v.Runs != Yes {
				t.Errorf("%+v", v)
			}
			want := failure.Unavailable
			switch tt.name {
			case "bind hangs":
				want = failure.Timeout
			case "unbind refused":
				want = failure.Device
			}
			if code != int(want) {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

// A multicast object that is not ready at once is tried again by all.
func TestMulticastReadyLater(t *testing.T) {
	t.Parallel()
	r, code, _ := program{args: []string{"run.device=sim"}, environ: []string{envFail + "=cuMulticastBindMem=802:1", envAsk + "=multicast"}}.run(t)
	want(t, find(t, r.Findings, "multicast"), OK, Yes)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What breaks without multicast costs every mode, and NVLS is not said to work.
func TestPeerFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fail string
		words      []string
	}{
		{"out of memory", "cuMemCreate=2@1", []string{"error 2"}},
		{"peer not visible", "cuMemImportFromShareableHandle=101@1", []string{"error 101", "--gpu-bind=none"}},
		{"system call", "cuMemExportToShareableHandle=304", []string{"error 304", "ulimit -n"}},
		{"not permitted", "cuMemCreate=800", []string{"error 800", "newer driver"}},
		{"no PTX compiler", "cuModuleLoadData=221", []string{"error 221", "ptxjitcompiler"}},
		{"old driver", "cuModuleLoadData=222", []string{"error 222", "newer driver"}},
		{"Xid", "cuMemMap=999@0", []string{"error 999", "Xid"}},
		{"wrong size", "cuMemCreate=1", []string{"error 1", "see the evidence"}},
		{"wrong state", "cuMemMap=401", []string{"error 401"}},
		{"not supported", "cuMemCreate=801", []string{"error 801", "vGPU"}},
		{"not ready", "cuMemMap=802", []string{"error 802", "Fabric Manager"}},
		{"a code nobody knows", "cuMemMap=917", []string{"error 917", "see the evidence"}},
		{"hangs", "cuMemMap=hang@1", []string{"did not end in time", "rank 1"}},
		{"breaks", "cuMemMap=crash@1", []string{"broke", "the driver breaks the process"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run.device=sim", "run.mode=ring"}
			if tt.name == "hangs" {
				args = append(args, fmt.Sprint("bootstrap.timeout=", max(3*time.Second, programtest.Within(time.Second))))
			}
			r, code, _ := program{args: args, environ: []string{envFail + "=" + tt.fail, envAsk + "=peers"}}.run(t)
			want(t, find(t, r.Findings, "peers"), Failed, No, tt.words...)
			if v := verdictOf(t, r, configs.ModeRing); v.Runs != No {
				t.Errorf("%+v", v)
			}
			want := failure.Device
			if tt.name == "hangs" || tt.name == "breaks" {
				want = failure.Unavailable // how a run ends is not known
			}
			if code != int(want) {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

// That a process cannot be started says nothing about NVLS. One that ends without
// a word, or speaks garbage, did not work.
func TestProbeProcess(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sev     Severity
		outcome Outcome
		words   string
	}{
		"/nonexistent/program": {Warning, Unknown, "no such file"},
		"/bin/false":           {Failed, No, "exit status 1"},
		"/bin/echo":            {Failed, No, "without a result"},
	} {
		r, code, _ := program{args: []string{"run.device=sim", "run.mode=ring"}, environ: []string{envProbe + "=" + name}}.run(t)
		want(t, find(t, r.Findings, "peers"), tt.sev, tt.outcome, tt.words)
		want(t, find(t, r.Findings, "multicast"), tt.sev, tt.outcome)
		if v := verdictOf(t, r, configs.ModeRing); v.Runs != tt.outcome || code != int(failure.Unavailable) {
			t.Errorf("%s: exit code %d, %+v", name, code, v)
		}
	}
}

// What cannot be produced with a device here, from what a probe process says.
func TestJudgements(t *testing.T) {
	good := told{End: &ending{OK: true, Done: []string{"all-reduce with NCCL 2.28.9 of libnccl.so.2"}}}
	wrong := told{Rank: 1, End: &ending{Text: "nvls-zero-copy of float gave wrong data on rank 1", Code: failure.WrongData}}
	want(t, judgeMulticast([]told{good, wrong}, false), Failed, No, "the switch gives wrong data", "SXid")
	// Error 2 is that of memory and of multicast slots; how much memory was free decides.
	full := func(free uint64) Finding {
		return judgeMulticast([]told{{End: &ending{Text: "NVLS cannot run [nvls.slots]: cuMulticastBindMem: error 2 (CUDA_ERROR_OUT_OF_MEMORY)", FreeBytes: free, TotalBytes: 80 << 30}}}, false)
	}
	want(t, full(70<<30), Failed, No, "70 GiB of device memory were free", "end other jobs on this node that use NVLS")
	want(t, full(1<<20), Failed, No, "1 MiB of device memory were free", "whose memory is used up")
	want(t, judgeNCCL("nccl", []told{good, good}), OK, Yes, "2.28.9")
	no := told{End: &ending{Text: "NCCL cannot run here", Code: failure.Unavailable, Do: "set library under [nccl]", By: failure.User}}
	want(t, find(t, []Finding{judgeNCCL("nccl-symmetric", []told{no, no})}, "nccl-symmetric"), Failed, No, "nccl-symmetric cannot be set up: NCCL cannot run here")
	want(t, judgeNCCL("nccl", []told{no, no}), Failed, No, "set library under [nccl]")
	want(t, judgeNCCL("nccl", []told{{Stage: "set NCCL up", How: "signal: killed"}, good}), Failed, No, "set NCCL up", "signal: killed")
}

// A doctor that is killed takes its probe processes along, even one that hangs in
// the driver.
func TestKilledDoctor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("DOCTOR_TEST_MARK=%s-%d", t.Name(), os.Getpid())
	cmd := exec.Command(self, roleDoctor, "run.device=sim")
	cmd.Env = append(os.Environ(), envFail+"=cuMemMap=hang", mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func(n int) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !ok(marked(t, mark)); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d processes", what, marked(t, mark))
			}
		}
	}
	await("the probe processes start", func(n int) bool { return n == 3 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	await("they end", func(n int) bool { return n == 0 })
}

// marked counts processes with a variable in their environment.
func marked(t *testing.T, mark string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, _ := os.ReadFile(f) // it may have ended
		if slices.Contains(strings.Split(string(text), "\x00"), mark) {
			n++
		}
	}
	return n
}

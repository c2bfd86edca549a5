package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/doctor"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// self is the test binary under the program's name, under which it is the program
// (testscript.Main), also in the processes that it starts.
func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), program)
	if os.Link(exe, path) == nil {
		return path
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if e := to.Close(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return path
}

// plain is this environment without what would change a run.
func plain() []string {
	var out []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "NVLS_ALLREDUCE_") {
			out = append(out, kv)
		}
	}
	return out
}

// command runs the program and gives its exit code.
func command(t *testing.T, path string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(plain(), environ...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// The doctor foretells a run with the same flags: the exit code is that of the run,
// and what it says of each wanted mode is what came of it.
func TestDoctorForetells(t *testing.T) {
	t.Parallel()
	path := self(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tuned := func(ranks int, device string) string {
		return fmt.Sprintf("schema = %q\nranks = %d\ndevice = %q\n[[choice]]\ndatatype = \"float\"\nop = \"sum\"\nmax_bytes = 1024\nmode = \"ring\"\n", "nvls-allreduce-tuning/1", ranks, device)
	}
	good, bad := write("good.toml", tuned(2, "Software GPU")), write("bad.toml", "schema = 7")
	others, elsewhere := write("three.toml", tuned(3, "Software GPU")), write("h100.toml", tuned(2, "NVIDIA H100"))
	for _, tt := range []struct {
		flags   string
		environ string
		code    failure.Code
		says    string // in the verdict
	}{
		{flags: "--mode all", code: failure.OK, says: "ring and p2p will work here"},
		{flags: "--mode nvls-zero-copy -o prod", code: failure.Unavailable, says: "the switch cannot multiply [asked.operation]"},
		{flags: "--mode nvls-copy-in -d uint8", code: failure.Unavailable, says: "8-bit"},
		{flags: "--mode nvls-zero-copy -d double -o max", code: failure.Unavailable, says: "no minimum or maximum of double"},
		{flags: "--mode nvls-copy-in -d bfloat16,int64 -o min,max,sum", code: failure.OK, says: "nvls-copy-in"},
		{flags: "--mode nvls-zero-copy,ring -d float,int32 -o min", code: failure.Unavailable, says: "nvls-zero-copy and nvls-copy-in will work here, but not for all that is asked"},
		{flags: "--mode ring,p2p,p2p-copy-in -d half,uint8 -o prod,avg", code: failure.OK, says: "p2p-copy-in will work here"},
		{flags: "--mode nvls-copy-in -o prod --fallback allow", code: failure.OK, says: "will work here"},
		{flags: "--mode auto -o prod", code: failure.OK, says: "ring and p2p will work here"},
		{flags: "--mode p2p-packet -b 520K -e 520K", code: failure.Unavailable, says: "p2p-packet will not work here: p2p-packet cannot take this size"},
		{flags: "--mode p2p-packet -b 512K -e 1M -f 2", code: failure.Unavailable, says: "p2p-packet will work here, but not for all that is asked"},
		{flags: "--mode p2p-packet -b 520K -e 520K --fallback allow", code: failure.OK},
		{flags: "--mode ring -b 32G -e 32G", code: failure.Device, says: "more device memory than is free [memory]"},
		{flags: "--mode nccl,ring", code: failure.Unavailable, says: "this is the software device"},
		{flags: "--mode nccl-symmetric --fallback allow", code: failure.OK},
		{flags: "--mode nvls-copy-in,ring --config " + write("one.toml", "[sim]\ndevices = 1\n[run]\nshare_gpu = true\n"), code: failure.Unavailable, says: "[nvls.shared-gpu]"},
		{flags: "--mode ring --config " + write("two.toml", "[sim]\ndevices = 1\n"), code: failure.Usage},
		{flags: "--mode nvls-zero-copy,ring --multicast off", code: failure.Unavailable, says: "nvls.switched-off"},
		{flags: "--mode nvls-zero-copy --multicast off --fallback allow", code: failure.OK},
		{flags: "--mode nvls-zero-copy", environ: "NVLS_ALLREDUCE_MULTICAST=off", code: failure.Unavailable, says: "NVLS_ALLREDUCE_MULTICAST=off"},
		{flags: "--mode nvls-zero-copy", environ: "NCCL_NVLS_ENABLE=0", code: failure.OK},
		{flags: "--mode ring", environ: "NVLS_ALLREDUCE_MULTICAST=perhaps", code: failure.Usage},
		{flags: "--mode auto --tuning " + good, code: failure.OK},
		{flags: "--mode ring,auto --tuning " + filepath.Join(dir, "none.toml"), code: failure.Usage, says: "cannot use the tuning file"},
		{flags: "--mode auto --tuning " + bad, code: failure.Usage, says: "[asked.tuning]"},
		{flags: "--mode ring,nvls-zero-copy,auto -o prod --tuning " + others, code: failure.Usage, says: "it is for 3 ranks"},
		{flags: "--mode auto --tuning " + elsewhere, code: failure.Usage, says: "NVIDIA H100"},
		{flags: "--mode ring -J /proc/nvls.json", code: failure.Usage},
	} {
		t.Run(tt.flags+" "+tt.environ, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--np", "2", "--device", "sim", "-n", "1", "-w", "0", "-c", "0"}
			if !strings.Contains(tt.flags, "-b ") {
				flags = append(flags, "-b", "1K", "-e", "1K")
			}
			flags = append(flags, strings.Fields(tt.flags)...)
			ran, _, why := command(t, path, []string{tt.environ}, append([]string{"run"}, flags...)...)
			told, report, stderr := command(t, path, []string{tt.environ}, append([]string{"doctor", "--json"}, flags...)...)
			if ran != int(tt.code) || told != ran {
				t.Errorf("the run ends with %d, the doctor says %d, want %d\n%s\n%s", ran, told, tt.code, why, stderr)
			}
			if report == "" && tt.says == "" {
				return // the configuration is wrong, which both say
			}
			var r doctor.Report
			if err := json.Unmarshal([]byte(report), &r); err != nil {
				t.Fatalf("%v\n%s%s", err, report, stderr)
			}
			if !strings.Contains(r.Verdict.Text, tt.says) || r.Verdict.ExitCode != tt.code {
				t.Errorf("exit code %d, %s; want %q", r.Verdict.ExitCode, r.Verdict.Text, tt.says)
			}
		})
	}
}

// One rank is what --np 1 asks for.
func TestDoctorOfOneRank(t *testing.T) {
	t.Parallel()
	code, out, _ := command(t, self(t), nil, "doctor", "--np", "1", "--device", "sim", "--mode", "p2p-packet", "-b", "1M", "-e", "1M")
	if code != 0 || !strings.Contains(out, "gpu.single: one rank, as asked") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A report that nobody can read is a failure, whatever it says.
func TestDoctorsOutput(t *testing.T) {
	t.Parallel()
	path := self(t)
	for _, tt := range []struct{ how, words string }{
		{">&-", "it is closed"},
		{">/dev/full", "no space left"},
		{"--json >/dev/full", "no space left"},
		{"| true", "broken pipe"},
		{"--np 2 >&-", "it is closed"},
		{"--np 2 >/dev/full", "no space left"},
	} {
		script := `set -o pipefail; trap '' PIPE; "$0" doctor --device sim ` + tt.how
		if tt.how == "| true" {
			script = `{ sleep 0.1; "$0" doctor --device sim; echo $? >&2; } | true`
		}
		cmd := exec.Command("bash", "-c", script, path)
		var errs bytes.Buffer
		cmd.Stderr, cmd.Env = &errs, plain()
		err := cmd.Run()
		code := cmd.ProcessState.ExitCode()
		if tt.how == "| true" {
			code = 0
			fmt.Sscan(errs.String()[max(strings.LastIndex(strings.TrimSpace(errs.String()), "\n"), 0):], &code)
		}
		if code != int(failure.Internal) || !strings.Contains(errs.String(), tt.words) {
			t.Errorf("doctor %s: exit code %d (%v)\n%s", tt.how, code, err, &errs)
		}
	}
	// /dev/null that the user names is open.
	if err := exec.Command("bash", "-c", `"$0" doctor --device sim >/dev/null`, path).Run(); err != nil {
		t.Errorf("doctor >/dev/null: %v", err)
	}
}

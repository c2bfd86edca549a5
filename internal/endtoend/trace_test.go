//go:build linux

package endtoend

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// TestDriverCalls looks at every driver call of a run: memory is shared as POSIX
// descriptors, nothing asks for a FABRIC handle, and the program's own memory
// stays in its bounds.
func TestDriverCalls(t *testing.T) {
	const mega = 1 << 20
	for _, tt := range []struct {
		mode    string
		own     uint64 // bytes beside the buffers, on each device
		command string // a call that must be there
	}{
		{"nvls-zero-copy", 4 * mega, "cuMulticastBindMem("},
		{"nvls-copy-in", 4*mega + 8*mega, "cuMulticastBindMem("},
		{"ring", 20 * mega, "cuMemImportFromShareableHandle("},
		{"p2p", 20 * mega, "cuMemImportFromShareableHandle("},
		{"p2p-copy-in", 4*mega + 8*mega, "cuMemImportFromShareableHandle("},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			o := job{launcher: local, np: 3, flags: "--mode " + tt.mode + " --staging 8M -b 4M -e 4M -c 0", config: oneTiming,
				env: []string{"NVLS_ALLREDUCE_SIM_TRACE=" + trace}}.run(t)
			o.want(t, 0)
			text := readFile(t, trace)
			if !strings.Contains(text, tt.command) || !strings.Contains(text, "cuMemExportToShareableHandle(") {
				t.Fatalf("no %s in the trace:\n%s", tt.command, shorten(text))
			}
			if regexp.MustCompile(`(?i)fabric`).MatchString(text) {
				t.Error("a FABRIC handle in the trace")
			}
			created := map[string]uint64{}
			for line := range strings.Lines(text) {
				if m := regexp.MustCompile(`^\S+ (gpu\d+) (\w+)\((.*)\) = CUDA_SUCCESS`).FindStringSubmatch(line); m != nil {
					switch m[2] {
					case "cuMemCreate":
						n, err := strconv.ParseUint(regexp.MustCompile(`bytes=(\d+)`).FindStringSubmatch(m[3])[1], 10, 64)
						if err != nil {
							t.Fatal(err)
						}
						created[m[1]] += n
						fallthrough
					case "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMulticastCreate":
						if !strings.Contains(m[3], "POSIX_FILE_DESCRIPTOR") {
							t.Errorf("not a POSIX descriptor: %s", line)
						}
					}
				}
			}
			if len(created) != 3 {
				t.Errorf("memory on %d devices, want 3", len(created))
			}
			for gpu, n := range created {
				if own := n - 2*4*mega; own > tt.own {
					t.Errorf("%s: %d bytes beside the buffers, at most %d are allowed", gpu, own, tt.own)
				}
			}
			// Said before the header, and so before any allocation.
			if said := strings.Index(o.stdout, "# Memory on each device: 2 x 4M send and receive buffers, "); said != 0 {
				t.Errorf("memory was not printed first:\n%s", shorten(o.stdout))
			}
		})
	}
}

// TestSystemCalls runs under strace: descriptors travel over abstract sockets,
// no rank takes them out of another process, and no file is made in /dev/shm.
func TestSystemCalls(t *testing.T) {
	slurmtest.Require(t, "strace", "strace")
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		if regexp.MustCompile(`PTRACE|ptrace`).Match(out) {
			slurmtest.Require(t, "strace, and the right to trace: "+strings.TrimSpace(string(out)), "ptrace")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	trace := filepath.Join(t.TempDir(), "strace")
	o := command(t, nil, "strace", "-f", "-qq", "-o", trace, "-s", "200",
		"-e", "trace=pidfd_getfd,process_vm_readv,process_vm_writev,ptrace,sendmsg,recvmsg,bind,connect,openat,creat,memfd_create,shmget",
		program, "--device", "sim", "--np", "2", "--mode", "nvls-zero-copy,nvls-copy-in,ring", "-b", "64", "-e", "64", "-n", "1", "-w", "1")
	o.want(t, 0)
	text := readFile(t, trace)
	for _, must := range []string{"SCM_RIGHTS", `sun_path=@"nvls-allreduce.`, "memfd_create("} {
		if !strings.Contains(text, must) {
			t.Errorf("no %s in the trace, so it does not show what it should", must)
		}
	}
	for _, never := range []string{"pidfd_getfd(", "process_vm_", "ptrace(", "shmget(", `"/dev/shm`, `sun_path="/tmp`} {
		if at := strings.Index(text, never); at >= 0 {
			t.Errorf("%s: %.200s", never, text[at:])
		}
	}
	// What a rank binds is named by the run's id, which no other run has.
	id := regexp.MustCompile(`# Run ([0-9a-f]{32}) `).FindStringSubmatch(o.stdout)
	if id == nil {
		t.Fatal("no run id")
	}
	for r := range 2 {
		if name := fmt.Sprintf(`bind(%%d, {sa_family=AF_UNIX, sun_path=@"nvls-allreduce.%s.%d"}`, id[1], r); !regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(name), "%d", `\d+`)).MatchString(text) {
			t.Errorf("rank %d did not bind its socket", r)
		}
	}
	leftovers.Sockets(t, id[1])
}

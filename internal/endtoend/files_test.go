//go:build linux

package endtoend

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// TestFilesAreOurs runs every kind of output under strace with no umask: nothing is
// made but what was asked for and sockets in the folder for them; every file is made
// anew under a name that nobody can know beforehand, and what is not a result is for
// this user only.
func TestFilesAreOurs(t *testing.T) {
	slurmtest.Require(t, "strace", "strace")
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		slurmtest.Require(t, "strace, and the right to trace: "+strings.TrimSpace(string(out)), "ptrace")
	}
	// A short name: a socket's path may have 107 bytes.
	dir, err := os.MkdirTemp("", "ours")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sockets := filepath.Join(dir, "s")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	// A result that is there keeps its mode.
	if err := os.WriteFile(filepath.Join(dir, "r.csv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "strace")
	secret := "env-value-that-no-file-has"
	old := syscall.Umask(0)
	o := command(t, []string{"TEST_SECRET=" + secret, "SLURM_JWT=" + secret, "NCCL_TOKEN=" + secret}, "strace", "--seccomp-bpf", "-f", "-qq", "-o", trace, "-s", "300",
		"-e", "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat,bind,fchmod,chmod,fchmodat",
		program, "--device", "sim", "--np", "2", "--mode", "auto", "-b", "64", "-e", "64", "-n", "1", "-w", "1", "--socket-dir", sockets,
		"-J", dir+"/r.json", "--csv", dir+"/r.csv", "--plot", dir+"/r.png", "--report", dir+"/page", "--save-tuning", dir+"/t.toml")
	syscall.Umask(old)
	o.want(t, 0)
	text := readFile(t, trace)

	created := regexp.MustCompile(`(?:openat\(AT_FDCWD, |open\(|creat\()"([^"]*)", ([A-Z_|]*O_CREAT[A-Z_|]*), (0[0-7]*)`).FindAllStringSubmatch(text, -1)
	random := regexp.MustCompile(`^` + regexp.QuoteMeta(dir) + `/(page/)?\.[a-z.]+\.[A-Z2-7]{8}\.tmp$`)
	for _, m := range created {
		if !random.MatchString(m[1]) || !strings.Contains(m[2], "O_EXCL") || m[3] != "0666" && m[3] != "0600" {
			t.Errorf("%s is made with %s, %s", m[1], m[2], m[3])
		}
	}
	if len(created) < 9 {
		t.Errorf("%d files were made, so the trace does not show all", len(created))
	}
	for _, m := range regexp.MustCompile(`(?m)(mkdir|mkdirat|mknod|mknodat|symlink|symlinkat|link|linkat)\(.*$`).FindAllString(text, -1) {
		if !strings.Contains(m, `"`+dir+`/page"`) {
			t.Errorf("made besides: %s", m)
		}
	}
	bound := regexp.MustCompile(`bind\((\d+), \{sa_family=AF_UNIX, sun_path="([^"]*)"`).FindAllStringSubmatchIndex(text, -1)
	name := regexp.MustCompile(`^` + regexp.QuoteMeta(sockets) + `/nvls-[0-9a-f]{12}\.[01]$`)
	for _, m := range bound {
		fd, path := text[m[2]:m[3]], text[m[4]:m[5]]
		if !name.MatchString(path) {
			t.Errorf("a socket at %s", path)
		}
		// Without the parenthesis: strace breaks a call off where another thread's comes
		// between.
		if !strings.Contains(text[:m[0]], "fchmod("+fd+", 0600") {
			t.Errorf("the socket %s is bound without a mode of its own", path)
		}
	}
	if len(bound) != 2 {
		t.Errorf("%d sockets", len(bound))
	}
	for file, mode := range map[string]os.FileMode{"r.json": 0o666, "r.csv": 0o600, "r.png": 0o666, "t.toml": 0o666, "page/report.html": 0o666} {
		if st, err := os.Stat(filepath.Join(dir, file)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, st, err)
		}
	}
	for _, file := range []string{"r.json", "r.csv", "page/report.html", "page/report.md", "t.toml"} {
		if strings.Contains(readFile(t, filepath.Join(dir, file)), secret) {
			t.Errorf("%s has a value of the environment", file)
		}
	}
	if left, _ := os.ReadDir(sockets); len(left) > 0 {
		t.Errorf("left in the folder for sockets: %v", left)
	}
}

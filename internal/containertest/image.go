//go:build linux

package containertest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// Program is where images have the program. It is an empty file there, over
// which the one under test is bound.
const Program = "/usr/local/bin/nvls-allreduce"

// hosts is bound too, as Apptainer does it: without, MPI waits for name servers
// that do not know the name of this host.
const hosts = "/etc/hosts"

// buildLimit is how long one image may take to build.
const buildLimit = 8 * time.Minute

// Image gives the folder of an image with the given MPI (none, openmpi): a
// debootstrap root of this host's Debian release, on which the last %post of the
// definition has run. It is built once, by root, in the user's cache folder, and
// made anew when the definition changes. Programs must not write to it.
func Image(t testing.TB, definition, mpi string) string {
	t.Helper()
	release := debianRelease(t)
	stages, err := ReadDefinition(definition, map[string]string{"MPI": mpi})
	if err != nil {
		t.Fatal(err)
	}
	post := stages[len(stages)-1].Sections["post"]
	cache, err := os.UserCacheDir()
	if err != nil {
		slurmtest.Skip(t, "there is no folder to keep images in: "+err.Error())
	}
	cache = filepath.Join(cache, "nvls-allreduce", "images")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	base := filepath.Join(cache, "base-"+release)
	once := func(dir string, build func(tmp string) error) {
		if _, err := os.Stat(dir); err == nil {
			return
		}
		if os.Geteuid() != 0 {
			slurmtest.Skip(t, "building an image with debootstrap needs root; run the test once as root")
		}
		slurmtest.Require(t, "debootstrap", "debootstrap")
		tmp := dir + ".tmp"
		if err := os.RemoveAll(tmp); err != nil {
			t.Fatal(err)
		}
		if err := build(tmp); err != nil {
			os.RemoveAll(tmp)
			t.Fatalf("building %s: %v", dir, err)
		}
		if err := os.Rename(tmp, dir); err != nil {
			t.Fatal(err)
		}
	}
	once(base, func(tmp string) error {
		return command("debootstrap", "--variant=minbase", release, tmp)
	})
	image := filepath.Join(cache, fmt.Sprintf("%s-%s-%.6x", mpi, release, sha256.Sum256([]byte(post))))
	once(image, func(tmp string) error {
		old, _ := filepath.Glob(filepath.Join(cache, mpi+"-*"))
		for _, dir := range old {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		if err := command("cp", "-a", base, tmp); err != nil {
			return err
		}
		for _, file := range []string{Program, hosts} {
			if err := os.WriteFile(filepath.Join(tmp, file), nil, 0o755); err != nil {
				return err
			}
		}
		return command("chroot", tmp, "/bin/sh", "-c", post)
	})
	return image
}

// debianRelease is the code name of this host's Debian: a program that was built
// here runs in an image of the same release.
func debianRelease(t testing.TB) string {
	t.Helper()
	f, err := os.Open("/etc/os-release")
	if err != nil {
		slurmtest.Skip(t, "this is no Debian: "+err.Error())
	}
	defer f.Close()
	facts := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), "="); ok {
			facts[k] = strings.Trim(v, `"`)
		}
	}
	if facts["ID"] != "debian" || facts["VERSION_CODENAME"] == "" {
		slurmtest.Skip(t, "images are made for Debian, and this is "+facts["ID"])
	}
	return facts["VERSION_CODENAME"]
}

// lock waits until no other test builds images.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// command runs one and gives its last words with an error.
func command(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err, out[max(0, len(out)-3000):])
	}
	return nil
}

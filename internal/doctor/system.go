//go:build linux

package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/cuda"
)

// System is the machine as the probes see it. Tests replace parts of it.
type System struct {
	// Root is the folder under which files are looked for; "/".
	Root string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// User is the user's number.
	User int
	// OpenNode opens a device node for reading and writing, and closes it.
	OpenNode func(path string) error
	// Limit gives a resource limit of the process.
	Limit func(resource int) (unix.Rlimit, error)
	// NVML is the host's libnvidia-ml.
	NVML nvml.Interface
	// CUDA opens the CUDA driver.
	CUDA func(multicastOff string) (device.Driver, error)
}

// Host is the real machine with an environment.
func Host(environ []string) *System {
	return &System{
		Root:    "/",
		Environ: environ,
		User:    os.Geteuid(),
		OpenNode: func(path string) error {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		},
		Limit: func(resource int) (unix.Rlimit, error) {
			var l unix.Rlimit
			err := unix.Getrlimit(resource, &l)
			return l, err
		},
		NVML: nvml.New(),
		CUDA: func(off string) (device.Driver, error) { return cuda.Open(cuda.Options{MulticastOff: off}) },
	}
}

// getenv reads the environment; the last of equal names counts.
func (s *System) getenv(name string) string {
	for _, kv := range slices.Backward(s.Environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

func (s *System) path(name string) string { return filepath.Join(s.Root, name) }

// exists says whether a file is there. An error means that it could not be told.
func (s *System) exists(name string) (bool, error) {
	_, err := os.Lstat(s.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// read gives the trimmed text of a small file.
func (s *System) read(name string) (string, error) {
	b, err := os.ReadFile(s.path(name))
	return strings.TrimSpace(string(b)), err
}

// entries lists the names in a folder that begin with prefix and go on with
// digits only.
func (s *System) numbered(dir, prefix string) ([]string, error) {
	all, err := os.ReadDir(s.path(dir))
	var out []string
	for _, e := range all {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// Package container names the container that a process is in, and says how one of
// its kind is given GPUs. Everything that tells a user to start a container
// differently asks here, so that nobody is told another runtime's switch.
package container

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Kind is a container runtime in lower case; None where there is no sign of one. A
// variable may name others than those below.
type Kind string

const (
	None         Kind = ""
	Apptainer    Kind = "apptainer"
	Singularity  Kind = "singularity"
	Charliecloud Kind = "charliecloud"
	Enroot       Kind = "enroot"
	Docker       Kind = "docker"
	Podman       Kind = "podman"
	Kubernetes   Kind = "kubernetes"
)

// System is where signs of a container are looked for.
type System struct {
	Getenv func(name string) string
	// Exists says whether a file is there; an error means that it could not be told.
	Exists func(path string) (bool, error)
	Read   func(path string) (string, error)
}

// Sign is what shows that the process is in a container.
type Sign struct {
	Kind  Kind
	Name  string // for people: "Docker"
	Value string // "/.dockerenv exists"
	From  string // where it was seen: "file system"
}

// Searched lists, for people, where Detect looks.
const Searched = "environment, /.singularity.d, /.dockerenv, /run/.containerenv, /ch, /proc/1/cgroup"

// Detect looks for the first sign of a container. Without one it gives the zero
// Sign, and an error if not every sign could be looked for.
func Detect(s System) (Sign, error) {
	for _, c := range []struct {
		variable string
		kind     Kind
		name     string
	}{
		{"APPTAINER_CONTAINER", Apptainer, "Apptainer"}, {"SINGULARITY_CONTAINER", Singularity, "Singularity"},
		{"CH_RUNNING", Charliecloud, "Charliecloud"}, {"ENROOT_ROOTFS", Enroot, "Enroot"},
	} {
		if v := s.Getenv(c.variable); v != "" {
			return Sign{c.kind, c.name, c.variable + "=" + v, "environment"}, nil
		}
	}
	var unsure error
	for _, c := range []struct {
		file string
		kind Kind
		name string
	}{
		{"/.singularity.d", Singularity, "Singularity or Apptainer"}, {"/.dockerenv", Docker, "Docker"},
		{"/run/.containerenv", Podman, "Podman"}, {"/ch", Charliecloud, "Charliecloud"},
	} {
		there, err := s.Exists(c.file)
		if there {
			return Sign{c.kind, c.name, c.file + " exists", "file system"}, nil
		}
		if err != nil {
			unsure = err
		}
	}
	if v := s.Getenv("KUBERNETES_SERVICE_HOST"); v != "" {
		return Sign{Kubernetes, "Kubernetes", "KUBERNETES_SERVICE_HOST=" + v, "environment"}, nil
	}
	if v := s.Getenv("container"); v != "" {
		return Sign{Kind(strings.ToLower(v)), v, "container=" + v, "environment"}, nil
	}
	text, err := s.Read("/proc/1/cgroup")
	if err != nil {
		return Sign{}, err
	}
	for _, c := range []struct {
		word string
		kind Kind
	}{{"docker", Docker}, {"kubepods", Kubernetes}, {"libpod", Podman}, {"lxc", "lxc"}, {"containerd", "containerd"}, {"enroot", Enroot}} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, c.word) {
				return Sign{c.kind, c.word, strings.TrimSpace(line), "/proc/1/cgroup"}, nil
			}
		}
	}
	return Sign{}, unsure
}

// Here is the container of this process.
func Here() Kind {
	sign, _ := Detect(System{
		Getenv: os.Getenv,
		Exists: func(path string) (bool, error) {
			_, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
				return false, nil
			}
			return err == nil, err
		},
		Read: func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return string(b), err
		},
	})
	return sign.Kind
}

// WithGPUs says how a container of this kind gets the host's GPUs and the driver's
// libraries, as an instruction; "" for None.
func (k Kind) WithGPUs() string {
	switch k {
	case None:
		return ""
	case Apptainer, Singularity:
		return "start the container with --nv"
	case Docker:
		return "start the container with --gpus all"
	case Podman:
		return "start the container with --device nvidia.com/gpu=all"
	case Charliecloud:
		return "put the driver's libraries into the image with ch-fromhost --nvidia"
	case Enroot:
		return "start the container with NVIDIA_VISIBLE_DEVICES=all in its environment"
	case Kubernetes:
		return "ask for nvidia.com/gpu in the resources of the pod"
	}
	return "start the container with its runtime's switch for GPUs"
}

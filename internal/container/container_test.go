package container

import (
	"errors"
	"strings"
	"testing"
)

func system(environ map[string]string, files ...string) System {
	return System{
		Getenv: func(name string) string { return environ[name] },
		Exists: func(path string) (bool, error) {
			for _, f := range files {
				if f == path {
					return true, nil
				}
			}
			return false, nil
		},
		Read: func(string) (string, error) { return environ["cgroup"], nil },
	}
}

// A container is told its own runtime's way and no other's, also where signs of
// two are there: what a runtime sets counts before what an image carries along.
func TestOwnSwitch(t *testing.T) {
	ways := map[Kind]string{Apptainer: "--nv", Singularity: "--nv", Docker: "--gpus all", Podman: "--device nvidia.com/gpu=all", Charliecloud: "ch-fromhost --nvidia",
		Enroot: "NVIDIA_VISIBLE_DEVICES=all", Kubernetes: "nvidia.com/gpu in the resources of the pod"}
	for _, c := range []struct {
		s    System
		kind Kind
	}{
		{system(nil), None},
		{system(map[string]string{"APPTAINER_CONTAINER": "x.sif"}, "/.dockerenv"), Apptainer},
		{system(map[string]string{"SINGULARITY_CONTAINER": "x.sif"}), Singularity},
		{system(nil, "/.singularity.d"), Singularity},
		{system(nil, "/.dockerenv"), Docker},
		{system(nil, "/run/.containerenv"), Podman},
		{system(map[string]string{"CH_RUNNING": "x"}), Charliecloud},
		{system(map[string]string{"ENROOT_ROOTFS": "/x"}), Enroot},
		{system(map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}), Kubernetes},
		{system(map[string]string{"container": "podman"}), Podman},
		{system(map[string]string{"container": "systemd-nspawn"}), "systemd-nspawn"},
		{system(map[string]string{"cgroup": "0::/init.scope\n11:cpu:/kubepods/pod7"}), Kubernetes},
		{system(map[string]string{"cgroup": "0::/lxc/7"}), "lxc"},
	} {
		sign, err := Detect(c.s)
		if sign.Kind != c.kind || err != nil {
			t.Errorf("found %+v, %v; want %q", sign, err, c.kind)
		}
		do := sign.Kind.WithGPUs()
		if (do == "") != (c.kind == None) {
			t.Errorf("%q: to do %q", c.kind, do)
		}
		for kind, words := range ways {
			if strings.Contains(do+" ", words+" ") != (ways[c.kind] == words) {
				t.Errorf("%q is told %q, which has %s's switch or lacks its own", c.kind, do, kind)
			}
		}
	}
}

// What could not be looked at is no proof that there is no container.
func TestUnsure(t *testing.T) {
	s := system(nil)
	s.Exists = func(string) (bool, error) { return false, errors.New("forbidden") }
	if sign, err := Detect(s); sign != (Sign{}) || err == nil {
		t.Errorf("found %+v, %v", sign, err)
	}
	s = system(nil)
	s.Read = func(string) (string, error) { return "", errors.New("hidden") }
	if _, err := Detect(s); err == nil {
		t.Error("no error for a cgroup that cannot be read")
	}
}

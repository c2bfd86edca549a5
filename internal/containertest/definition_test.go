//go:build linux

package containertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

const definition = "../../slurm/Singularity.def"

// The definition has what it should, with every argument that it documents.
func TestDefinition(t *testing.T) {
	for _, arguments := range []map[string]string{
		nil, {"MPI": "openmpi"}, {"MPI": "mpich"},
		{"MPI": "openmpi", "NCCL": "yes", "BASE": "nvidia/cuda:12.8.1-base-ubuntu24.04"},
	} {
		stages, err := ReadDefinition(definition, arguments)
		if err != nil {
			t.Fatal(err)
		}
		if len(stages) != 2 {
			t.Fatalf("%d stages, want 2", len(stages))
		}
		pinned := regexp.MustCompile(`^[a-z/]+:\d+\.\d+`)
		for _, d := range stages {
			if from := d.Header["From"]; d.Header["Bootstrap"] != "docker" || !pinned.MatchString(from) {
				t.Errorf("the base %q of %q is not pinned to a version", from, d.Header["Bootstrap"])
			}
		}
		if want := arguments["BASE"]; want != "" && stages[1].Header["From"] != want {
			t.Errorf("base is %q, want %q", stages[1].Header["From"], want)
		}
		for _, s := range []string{"files from build", "post", "test", "runscript", "environment", "help", "labels"} {
			if strings.TrimSpace(stages[1].Sections[s]) == "" {
				t.Errorf("no %%%s", s)
			}
		}
		if f := stages[1].Files("files from build"); len(f) != 1 || f[0][1] != Program {
			t.Errorf("files of the last stage: %v", f)
		}
		if mpi := arguments["MPI"]; mpi != "" && !strings.Contains(stages[1].Sections["post"], `case "`+mpi+`" in`) {
			t.Errorf("MPI=%s has no effect", mpi)
		}
	}
}

func TestReadDefinitionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"Bootstrap: docker\nFrom: {{ BASE }}\n":             "build argument BASE has no value",
		"Bootstrap: docker\nFrom: a:1\n\n%tset\n    true\n": "no such section: %tset",
		"Bootstrap: docker\nFrom\n":                         "has no value",
		"From: a:1\n":                                       "has no stage",
	} {
		path := filepath.Join(t.TempDir(), "x.def")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDefinition(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The sections are scripts of sh.
func TestSectionsShellcheck(t *testing.T) {
	slurmtest.Require(t, "shellcheck", "shellcheck")
	stages, err := ReadDefinition(definition, nil)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, d := range stages {
		for name, text := range d.Sections {
			switch name {
			case "post", "test", "runscript", "environment":
				cmd := exec.Command("shellcheck", "--shell=sh", "-")
				// The build arguments are constants by now, and a case of one is no fault.
				cmd.Args = append(cmd.Args, "--exclude=SC2194")
				cmd.Stdin = strings.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s of %s: %v\n%s", name, d.Header["Stage"], err, out)
				}
				checked++
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d sections were checked", checked)
	}
}

// The first stage builds the program. This host, with its Go and its C compiler,
// stands for the image that the stage begins with.
func TestBuildStage(t *testing.T) {
	stages, err := ReadDefinition(definition, nil)
	if err != nil {
		t.Fatal(err)
	}
	build := stages[0]
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	for _, f := range build.Files("files") {
		out, err := exec.Command("cp", "-rL", filepath.Join("../..", f[0]), filepath.Join(src, strings.TrimPrefix(f[1], "/src"))).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	cache := t.TempDir()
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		cache = strings.TrimSpace(string(out))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// The files of the definition, and no others, where the checkout is: then what
	// other tests have compiled need not be compiled again.
	argv := Bubblewrap(t, cache, "--bind", src, root)
	script := strings.ReplaceAll(strings.ReplaceAll(build.Sections["post"], "/src", root), "/usr/local/go/bin", filepath.Dir(goTool))
	argv = append(argv, "/bin/sh", "-c", script)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := filepath.Join(src, filepath.Base(stages[1].Files("files from build")[0][0]))
	out, err := exec.Command(made, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "nvls-allreduce ") {
		t.Errorf("%v: %s", err, out)
	}
}

// What the definition builds passes the definition's own test.
func TestImages(t *testing.T) {
	for _, mpi := range []string{"none", "openmpi"} {
		t.Run(mpi, func(t *testing.T) {
			stages, err := ReadDefinition(definition, map[string]string{"MPI": mpi})
			if err != nil {
				t.Fatal(err)
			}
			last := stages[1].Sections
			image := Image(t, definition, mpi)
			o := run(t, append(ChRun(t, image, program), "/bin/sh", "-c", last["environment"]+last["test"])...)
			o.want(t, 0, "nvls-allreduce ", "Out of bounds values : 0 OK")
			if _, err := os.Stat(filepath.Join(image, "usr/bin/mpirun")); (err == nil) != (mpi == "openmpi") {
				t.Errorf("mpirun in the image: %v", err)
			}
			if mpi == "openmpi" && !strings.Contains(o.out, "# Launcher openmpi, MPI Open MPI") {
				t.Errorf("no run under the image's own mpirun:\n%s", o.out)
			}
			o = run(t, append(ChRun(t, image, program), "/bin/sh", "-c", last["runscript"], "sh", "version")...)
			o.want(t, 0, "nvls-allreduce ")
		})
	}
}

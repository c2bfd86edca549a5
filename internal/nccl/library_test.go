package nccl

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func TestRefusals(t *testing.T) {
	empty := "LD_LIBRARY_PATH=" + filepath.Dir(fakeCUDA(t))
	nowhere := []string{empty, "PATH=", "HOME=", "VIRTUAL_ENV=", "CONDA_PREFIX="}
	for _, tt := range []struct {
		name, part string
		env        []string
		words      []string
	}{
		{"absent", "open", nowhere, []string{"libnccl.so.2 could not be opened", "/.singularity.d/libs/libnccl.so.2", "library under [nccl]"}},
		{"not at the path", "open", []string{envLibrary + "=/nowhere/libnccl.so.2"}, []string{"/nowhere/libnccl.so.2 could not be opened", "library under [nccl]"}},
		{"no library", "open", []string{envLibrary + "=/proc/self/exe"}, []string{"/proc/self/exe could not be opened", "cannot dynamically load"}},
		{"too old", "open", []string{"FAKENCCL_VERSION=2804"}, []string{"NCCL is too old", "2.8.4", "2.10.0 or newer"}},
		{"a function is missing", "open", []string{envLibrary + "=" + fakeNCCL(t, "BROKEN")}, []string{"NCCL is too old", "ncclAllReduce"}},
		{"too old for windows", "symmetric", []string{"FAKENCCL_VERSION=22605"}, []string{"2.26.5 has no symmetric windows", "2.27.0"}},
		{"no functions for windows", "symmetric", []string{envLibrary + "=" + fakeNCCL(t, "OLD")}, []string{"no symmetric windows"}},
		{"no window", "symmetric", []string{"FAKENCCL_WINDOW=0"}, []string{"NCCL registered no window"}},
		{"version fails", "open", []string{"FAKENCCL_FAIL=ncclGetVersion=1"}, []string{"ncclGetVersion: error 1 (the fake's own words)"}},
		{"newer CUDA", "open", []string{"FAKENCCL_FAIL=ncclCommInitRank=1", "FAKENCCL_LAST=Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'"},
			[]string{"built for a newer CUDA", "Cuda failure 35"}},
		{"no memory", "symmetric", []string{"FAKENCCL_FAIL=ncclMemAlloc=1"}, []string{"ncclMemAlloc: error 1", "1M more", "bytes are free", "--maxbytes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := child(t, tt.part, tt.env...)
			o.failedWith(t, failure.Unavailable, tt.words...)
			made := count(o.calls(), "ncclCommInitRank")
			if failed := slices.Contains(tt.env, "FAKENCCL_FAIL=ncclCommInitRank=1"); !failed && made != count(o.calls(), "ncclCommAbort") {
				t.Errorf("the communicator was not given up: %v", o.calls())
			}
			// The ranks go on without NCCL, so it may keep no memory.
			kept := count(o.calls(), "ncclMemAlloc") - count(o.calls(), "ncclMemFree")
			if failed := slices.Contains(tt.env, "FAKENCCL_FAIL=ncclMemAlloc=1"); !failed && kept != 0 {
				t.Errorf("memory was not freed: %v", o.calls())
			}
		})
	}
}

func count(list []string, s string) int {
	n := 0
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

// TestOldNCCL: what mode nccl does not need may be missing.
func TestOldNCCL(t *testing.T) {
	if o := child(t, "reduce", envLibrary+"="+fakeNCCL(t, "OLD"), "FAKENCCL_VERSION=21805"); !o.done {
		t.Error(o.output)
	}
}

func TestTwoRanksRefuse(t *testing.T) {
	for _, o := range pair(t, "open", [2][]string{0: {"FAKENCCL_VERSION=22809"}, 1: {"FAKENCCL_VERSION=23007"}}) {
		o.failedWith(t, failure.Unavailable, "rank 0 opened version 2.28.9 and rank 1 version 2.30.7")
	}
	one := []string{"FAKECUDA_DEVICES=1"}
	for _, o := range pair(t, "open", [2][]string{one, one}) {
		o.failedWith(t, failure.Unavailable, "ranks share a GPU, which NCCL refuses")
		if len(o.log) != 0 {
			t.Errorf("NCCL was opened all the same: %v", o.log)
		}
	}
	missing := []string{"LD_LIBRARY_PATH=" + filepath.Dir(fakeCUDA(t)), envLibrary + "=libnccl.so.2"}
	for _, o := range pair(t, "open", [2][]string{1: missing}) {
		o.failedWith(t, failure.Unavailable, "failed on rank 1 of 2", "could not be opened")
	}
}

func TestCandidates(t *testing.T) {
	dir := t.TempDir()
	file := func(parts ...string) string {
		path := filepath.Join(append([]string{dir}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const wheel = "nvidia/nccl/lib/libnccl.so.2"
	venv := file("venv/lib/python3.12/site-packages", wheel)
	conda := file("conda/lib/python3.11/site-packages", wheel)
	file("usr/bin/python3")
	debian := file("usr/lib/python3.12/dist-packages", wheel)
	redhat := file("usr/lib64/python3.9/site-packages", wheel)
	home := file("home/.local/lib/python3.12/site-packages", wheel)
	file("other/lib/python3.12/site-packages", wheel) // no python3 on the path belongs to it
	env := map[string]string{
		"VIRTUAL_ENV": filepath.Join(dir, "venv"), "CONDA_PREFIX": filepath.Join(dir, "conda"), "HOME": filepath.Join(dir, "home"),
		"PATH": filepath.Join(dir, "other/bin") + ":" + filepath.Join(dir, "usr/bin") + ":" + filepath.Join(dir, "usr/bin/"),
	}
	got := Candidates(func(name string) string { return env[name] })
	want := []string{"libnccl.so.2", "/.singularity.d/libs/libnccl.so.2", venv, conda, debian, redhat, home}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Candidates(func(string) string { return "" }); len(got) != 2 {
		t.Errorf("in an empty environment: %v", got)
	}
}

func TestVersionName(t *testing.T) {
	for v, want := range map[int]string{22809: "2.28.9", 23007: "2.30.7", 21000: "2.10.0", 2804: "2.8.4"} {
		if got := versionName(v); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
}

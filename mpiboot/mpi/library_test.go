//go:build linux

package mpi

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// compile makes a shared object of a C file. Whoever runs these tests has a C
// compiler, for the package needs one too.
func compile(t *testing.T, source, name string, flags ...string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	file := filepath.Join(t.TempDir(), name)
	args := append(flags, "-shared", "-fPIC", "-o", file, source)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", cc, args, err, out)
	}
	return file
}

func TestStandardABI(t *testing.T) {
	file := compile(t, "testdata/standard_abi.c", "libmpi_abi.so.1")
	lib, err := Open(Search{Prefer: MPICH, Dirs: []string{filepath.Dir(file)}, File: file})
	if err != nil {
		t.Fatal(err)
	}
	if lib.ABI() != Standard || lib.Version() != "Fake MPI 5.0" || lib.File() != file {
		t.Errorf("%v, %q, %s", lib.ABI(), lib.Version(), lib.File())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := lib.Init(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Rank() != 0 || c.Size() != 1 {
		t.Errorf("rank %d of %d", c.Rank(), c.Size())
	}
	if err := c.Barrier(ctx, "s"); err != nil {
		t.Error(err)
	}
	if b, err := c.Bcast(ctx, "s", 0, []byte("abc")); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := c.Bcast(ctx, "s", 0, nil); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := c.Bcast(ctx, "s", 1, nil); err == nil {
		t.Error("a root outside the world was taken")
	}
	if b, err := c.Allgather(ctx, "s", []byte("abc")); err != nil || string(b[0]) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := c.Allgather(ctx, "s", nil); err != nil || len(b[0]) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	for op, want := range map[Op]int64{Sum: 0x21, Min: 0x22, Max: 0x23} {
		if v, err := c.AllreduceInt64(ctx, "s", op, []int64{1}); err != nil || v[0] != want {
			t.Errorf("%v of int64: %#x, %v", op, v, err)
		}
		if v, err := c.AllreduceFloat64(ctx, "s", op, []float64{1}); err != nil || v[0] != float64(want) {
			t.Errorf("%v of float64: %v, %v", op, v, err)
		}
	}
	lib.ops[Sum] = 0x99
	_, err = c.AllreduceInt64(ctx, "sums", Sum, []int64{1})
	var me *Error
	if !errors.As(err, &me) || me.Call != "MPI_Allreduce" || me.Code != 9 || me.Text != "fake error 9" || me.Stage != "sums" {
		t.Errorf("got %v", err)
	}
	if err := c.Finalize(ctx); err != nil {
		t.Error(err)
	}
}

func TestOpenIncomplete(t *testing.T) {
	source := filepath.Join(t.TempDir(), "half.c")
	if err := os.WriteFile(source, []byte("int MPI_Init_thread(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Search{File: compile(t, source, "libmpi.so")})
	if err == nil || !strings.Contains(err.Error(), "libmpi.so (MPICH) lacks MPI_Finalize") {
		t.Errorf("got %v", err)
	}
}

func TestOpenNoSuchFile(t *testing.T) {
	_, err := Open(Search{File: "/nonexistent/libmpi.so"})
	var nf *NotFoundError
	if !errors.As(err, &nf) || !strings.Contains(err.Error(), "No such file") {
		t.Errorf("got %v", err)
	}
}

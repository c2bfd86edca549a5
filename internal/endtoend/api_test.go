//go:build linux

package endtoend

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

const module = "github.com/nvls-allreduce/nvls-allreduce"

// publicPackages are for programs outside of this module.
var publicPackages = []string{"mpiboot", "mpiboot/mpi", "collective", "nvls", "fallback", "plots", "configs"}

// TestPublicNames: whatever type an exported declaration of a public package
// mentions can be named from outside: it is of a public package, or one has an
// alias of it.
func TestPublicNames(t *testing.T) {
	var out bytes.Buffer
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, p := range publicPackages {
		args = append(args, "../../"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_CFLAGS="+os.Getenv("CGO_CFLAGS")+" -Wno-deprecated-declarations")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) == 2 {
			exports[f[0]] = f[1]
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	named := map[*types.TypeName]bool{} // internal types with a public alias
	var packages []*types.Package
	for _, p := range publicPackages {
		pkg, err := load.Import(module + "/" + p)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, pkg)
		for _, name := range pkg.Scope().Names() {
			if tn, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && tn.Exported() && tn.IsAlias() {
				if n, ok := types.Unalias(tn.Type()).(*types.Named); ok {
					named[n.Obj()] = true
				}
			}
		}
	}
	var check func(where string, x types.Type)
	check = func(where string, x types.Type) {
		switch x := x.(type) {
		case *types.Alias:
			check(where, types.Unalias(x))
		case *types.Named:
			if o := x.Obj(); o.Pkg() != nil && strings.Contains(o.Pkg().Path(), "/internal/") && !named[o] {
				t.Errorf("%s mentions %s.%s, which has no public name", where, o.Pkg().Path(), o.Name())
			}
			for i := range x.TypeArgs().Len() {
				check(where, x.TypeArgs().At(i))
			}
		case *types.Signature:
			for _, tuple := range []*types.Tuple{x.Params(), x.Results()} {
				for i := range tuple.Len() {
					check(where, tuple.At(i).Type())
				}
			}
		case *types.Map:
			check(where, x.Key())
			check(where, x.Elem())
		case interface{ Elem() types.Type }:
			check(where, x.Elem())
		case *types.Struct:
			for i := range x.NumFields() {
				if f := x.Field(i); f.Exported() {
					check(where+"."+f.Name(), f.Type())
				}
			}
		case *types.Interface:
			for i := range x.NumMethods() {
				if m := x.Method(i); m.Exported() {
					check(where+"."+m.Name(), m.Type())
				}
			}
		}
	}
	count := 0
	for _, pkg := range packages {
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			count++
			where := strings.TrimPrefix(pkg.Path(), module+"/") + "." + name
			n, isNamed := o.Type().(*types.Named)
			if _, isType := o.(*types.TypeName); !isType {
				check(where, o.Type())
				continue
			} else if !isNamed {
				continue // an alias is a name
			}
			check(where, n.Underlying())
			for i := range n.NumMethods() {
				if m := n.Method(i); m.Exported() {
					check(where+"."+m.Name(), m.Type())
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d exported names were found", count)
	}
}

// outside is a program of another module: its ranks add up on the software device,
// and rank 0 draws a result.
const outside = `package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

func main() {
	ctx := context.Background()
	if os.Getenv(mpiboot.EnvRank) == "" {
		exit, err := mpiboot.Launch(ctx, 2, os.Args, nil, os.Stdout, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(exit)
	}
	world, err := mpiboot.Join(ctx, mpiboot.Options{})
	if err != nil {
		world.Abort(mpiboot.ExitCodeOf(err), err)
	}
	if err := rank(ctx, world); err != nil {
		var e *mpiboot.Error
		if errors.As(err, &e) && e.By == mpiboot.Administrator {
			fmt.Println("call them")
		}
		world.Abort(mpiboot.ExitCodeOf(err), err)
	}
	var code mpiboot.ExitCode = mpiboot.ExitOK
	os.Exit(int(world.Finish(code)))
}

func rank(ctx context.Context, world *mpiboot.World) error {
	group, err := collective.Open(ctx, world, collective.Options{Device: "sim", Sim: collective.SimOptions{Devices: 2}})
	if err != nil {
		return err
	}
	memory, err := group.Alloc(ctx, "data", 1<<20)
	if err != nil {
		return err
	}
	zero := nvls.NewZeroCopy(group, collective.Tuning{})
	if err := zero.Register(ctx, memory); err != nil {
		return err
	}
	var device collective.Device = group.Device()
	var stream collective.Stream = group.Stream()
	for _, reducer := range []collective.AllReducer{zero, fallback.NewRing(group, collective.Tuning{})} {
		at := memory.At(0)
		var address collective.Ptr = at.Local()
		call, err := reducer.Prepare(collective.Call{Send: at, Recv: at, Count: 1, DType: collective.Int32, Op: collective.Sum})
		if err != nil {
			return err
		}
		data := binary.LittleEndian.AppendUint32(nil, uint32(world.Rank()+20))
		if err := device.CopyToDevice(address, data); err != nil {
			return err
		}
		if err := call.Enqueue(stream); err != nil {
			return err
		}
		if err := group.Wait(ctx); err != nil {
			return err
		}
		if err := device.CopyToHost(data, address); err != nil {
			return err
		}
		fmt.Println(reducer.Mode(), binary.LittleEndian.Uint32(data))
		if err := call.Close(); err != nil {
			return err
		}
		if err := reducer.Close(ctx); err != nil {
			return err
		}
	}
	if world.Rank() == 0 {
		var run *plots.Run
		if run, err = plots.Read(os.Args[1]); err != nil {
			return err
		}
		if err := plots.WriteFile("chart.svg", []*plots.Run{run}, plots.Options{}); err != nil {
			return err
		}
		fmt.Println("a chart of", len(run.Rows), "rows")
	}
	return errors.Join(memory.Close(ctx), group.Close(ctx))
}
`

// TestOutsideModule compiles and runs that program where no internal package may be
// imported.
func TestOutsideModule(t *testing.T) {
	exe, repo := buildOutside(t, outside)
	cmd := exec.Command(exe, filepath.Join(repo, "docs/examples/thread/1-nccl-nvls.json"))
	cmd.Dir = filepath.Dir(exe)
	cmd.Env = programtest.Environ(nil)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"nvls-zero-copy 41", "ring 41", "a chart of "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// buildOutside compiles a program as a module of its own that uses this one.
func buildOutside(t *testing.T, source string) (exe, repo string) {
	t.Helper()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The same versions of everything, so that nothing is looked for.
	mod := strings.Replace(readFile(t, filepath.Join(repo, "go.mod")), "module "+module, "module example.com/outside", 1)
	for name, text := range map[string]string{
		"go.mod":  mod + "\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + repo + "\n",
		"go.sum":  readFile(t, filepath.Join(repo, "go.sum")),
		"main.go": source,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe = filepath.Join(dir, "outside")
	cmd := exec.Command("go", "build", "-o", exe, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_CFLAGS="+os.Getenv("CGO_CFLAGS")+" -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe, repo
}

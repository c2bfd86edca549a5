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
	"strings"
	"testing"
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

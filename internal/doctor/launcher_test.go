//go:build linux

package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// The own launcher has one variable for a rank's number in the world and on the
// node. It is told once.
func TestLauncherToldOnce(t *testing.T) {
	environ := []string{mpiboot.EnvRank + "=0", mpiboot.EnvSize + "=2", mpiboot.EnvUniqueID + "=" + strings.Repeat("0f", 16)}
	ev, err := mpiboot.DetectAs(environ, configs.LauncherAuto)
	if err != nil {
		t.Fatal(err)
	}
	d := &doctor{Options: Options{Config: configs.Default()}, system: fakeSystem(t, nil, environ...)}
	f := find(t, d.launcher(ev), "launcher")
	want(t, f, Info, "", "this program's own --np", "2 ranks")
	if want := evidence(mpiboot.EnvRank, "environment", mpiboot.EnvSize+"=2", "environment"); !slices.Equal(f.Evidence, want) {
		t.Errorf("evidence %+v, want %+v", f.Evidence, want)
	}
}

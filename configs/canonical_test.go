package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVote changes every key, one at a time: the hash must follow exactly those
// keys that ranks have to agree on, and Diff must name the key.
func TestVote(t *testing.T) {
	free := map[string]bool{"bootstrap.mpi_library": true, "bootstrap.socket_dir": true, "nccl.library": true,
		"output.json": true, "output.csv": true, "output.plot": true, "output.report": true, "run.tuning": true}
	base := Default()
	for _, k := range keys {
		c := Default()
		switch p := k.field(c).Addr().Interface().(type) {
		case *string:
			*p += "x"
		case *bool:
			*p = !*p
		case *int:
			*p++
		case *float64:
			*p += 0.5
		case *Size:
			*p++
		case *[]string:
			*p = append(*p, "x")
		default:
			k.field(c).SetInt(k.field(c).Int() + 1)
		}
		diff := Diff(base.Canonical(), c.Canonical())
		if free[k.String()] {
			if c.Hash() != base.Hash() || diff != nil {
				t.Errorf("%s takes part in the vote", k)
			}
			continue
		}
		want := []Difference{{k.String(), base.Get(k.String()), c.Get(k.String())}}
		if d := cmp.Diff(want, diff); c.Hash() == base.Hash() || d != "" {
			t.Errorf("%s is not seen by the vote: %s", k, d)
		}
	}
}

func TestCanonical(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(Default().Canonical(), "\n"), "\n")
	if lines[0] != `bootstrap.launcher = "auto"` {
		t.Errorf("first line is %q", lines[0])
	}
	for i := 1; i < len(lines); i++ {
		if lines[i] <= lines[i-1] {
			t.Errorf("%q after %q", lines[i], lines[i-1])
		}
	}
	a, b := Default(), Default()
	a.Run.Mode = []string{"ring"}
	if err := b.Apply([]Setting{{"run.mode", "ring", "flag --mode"}}); err != nil {
		t.Fatal(err)
	}
	if a.Hash() != b.Hash() {
		t.Error("the origin of a value changes the hash")
	}
}

func TestDiffOfMissingKeys(t *testing.T) {
	got := Diff("a = 1\nb = 2\n", "b = 3\nc = 4\n")
	want := []Difference{{"a", "1", ""}, {"b", "2", "3"}, {"c", "", "4"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := got[1].String(); s != "b is 2 and 3" {
		t.Error(s)
	}
}

func TestTOMLNamesOrigins(t *testing.T) {
	c, err := Preset("ring")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply([]Setting{{"timing.iters", 20, "flag --iters"}}); err != nil {
		t.Fatal(err)
	}
	text := c.TOML()
	for _, line := range []string{`mode = "ring" # "ring.toml line 3"`, `iters = 20 # "flag --iters"`, `timeout = "60s"`, "# Timed runs of each size."} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("line %q is missing in:\n%s", line, text)
		}
	}
}

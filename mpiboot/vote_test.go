//go:build linux

package mpiboot

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

func ballots(t *testing.T, vs ...Verdict) [][]byte {
	t.Helper()
	var out [][]byte
	for _, v := range vs {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func TestOutcome(t *testing.T) {
	ok := func(r int) Verdict { return Verdict{Rank: r, OK: true} }
	no := func(r int, text string, c failure.Code) Verdict { return Verdict{Rank: r, Text: text, Code: c} }
	for _, tt := range []struct {
		name string
		vs   []Verdict
		want string
		code failure.Code
	}{
		{"all ok", []Verdict{ok(0), ok(1)}, "", failure.OK},
		{"one of two", []Verdict{ok(0), no(1, "no memory", failure.Device)}, `stage "bind" failed on rank 1 of 2: no memory`, failure.Device},
		{"all alike", []Verdict{no(0, "sm_80", 3), no(1, "sm_80", 3)}, `stage "bind" failed on all 2 ranks: sm_80`, 3},
		{"equal texts", []Verdict{no(0, "a", 3), ok(1), no(2, "a", 3), no(3, "a", 3)}, `stage "bind" failed on ranks 0, 2 and 3 of 4: a`, 3},
		{"runs of ranks", []Verdict{no(0, "a", 3), no(1, "a", 3), no(2, "a", 3), ok(3), no(4, "b", 4)}, `stage "bind" failed on 4 of 5 ranks: ranks 0-2: a; rank 4: b`, 4},
		{"highest code", []Verdict{no(0, "a", 4), no(1, "b", 2)}, `stage "bind" failed on 2 of 2 ranks: rank 0: a; rank 1: b`, 4},
		{"alone", []Verdict{no(0, "a", 1)}, `stage "bind" failed on rank 0 of 1: a`, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := outcome("bind", []int{0, 1, 2, 3, 4}, ballots(t, tt.vs...))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.want || failure.CodeOf(err) != tt.code {
				t.Errorf("%q with code %d, want %q with %d", text, failure.CodeOf(err), tt.want, tt.code)
			}
			var ve *VoteError
			if errors.As(err, &ve) {
				if diff := cmp.Diff(tt.vs, ve.Verdicts); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if err := outcome("bind", []int{0, 9}, [][]byte{ballots(t, ok(0))[0], []byte("{")}); err == nil || !strings.Contains(err.Error(), "rank 9") {
		t.Errorf("unreadable ballot: %v", err)
	}
}

func TestRankList(t *testing.T) {
	for _, tt := range []struct {
		ranks []int
		want  string
	}{{[]int{3}, "rank 3"}, {[]int{0, 1}, "ranks 0 and 1"}, {[]int{0, 1, 2}, "ranks 0-2"}, {[]int{0, 2, 5}, "ranks 0, 2 and 5"}, {[]int{0, 1, 2, 5, 7, 8, 9}, "ranks 0-2, 5 and 7-9"}} {
		if got := rankList(tt.ranks); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.ranks, got, tt.want)
		}
	}
}

func TestRanksByHost(t *testing.T) {
	hosts := []host{{Identity: "a"}, {Identity: "b"}, {Identity: "a"}, {Identity: "c"}, {Identity: "b"}}
	if diff := cmp.Diff([][]int{{0, 2}, {1, 4}, {3}}, ranksByHost(hosts)); diff != "" {
		t.Error(diff)
	}
}

func TestRequireOneNode(t *testing.T) {
	w := &World{size: 3, hosts: []host{{Name: "n1", Identity: "n1 boot"}, {Name: "n2", Identity: "n2 boot"}, {Name: "n1", Identity: "n1 boot"}}}
	err := w.RequireOneNode()
	if failure.CodeOf(err) != failure.Unavailable || !strings.Contains(err.Error(), "the 3 ranks are on 2 hosts (n1: ranks 0 and 2; n2: rank 1)") {
		t.Errorf("got %v", err)
	}
	if w.Nodes() != 2 {
		t.Errorf("Nodes() = %d", w.Nodes())
	}
	for _, tt := range []struct {
		name  string
		other host
		words []string
		not   string
	}{
		{"machines", host{Name: "n2", Boot: "b2"}, []string{"host names and boot ids differ", "srun --nodes=1", EnvHostID}, ""},
		{"containers", host{Name: "c2", Boot: "b1"}, []string{"host names differ, but the boot id is the same", "set " + EnvHostID + " to the same text"}, "srun"},
		{"one name", host{Name: "n1", Boot: "b2"}, []string{"boot ids differ, though the host names are equal", EnvHostID}, ""},
		{"override", host{Name: "n1", Boot: "b1", Override: "east"}, []string{EnvHostID + " differs", "n1 as east: rank 1"}, ""},
	} {
		own := host{Name: "n1", Boot: "b1"}
		for _, h := range []*host{&own, &tt.other} {
			if h.Identity = h.Override; h.Identity == "" {
				h.Identity = h.Name + " " + h.Boot
			}
		}
		w.hosts = []host{own, tt.other, own}
		err := w.RequireOneNode()
		for _, word := range tt.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: no %q in %v", tt.name, word, err)
			}
		}
		if tt.not != "" && strings.Contains(err.Error(), tt.not) {
			t.Errorf("%s: %q in %v", tt.name, tt.not, err)
		}
	}
	w.hosts[1] = w.hosts[0]
	if err := w.RequireOneNode(); err != nil {
		t.Error(err)
	}
}

func TestUniqueID(t *testing.T) {
	a, b := NewUniqueID(), NewUniqueID()
	if a == b || a == (UniqueID{}) {
		t.Errorf("%v, %v", a, b)
	}
	if got, err := ParseUniqueID(a.String()); err != nil || got != a {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "00", a.String() + "00", strings.Repeat("x", 32)} {
		if _, err := ParseUniqueID(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShortNames(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{[]string{"a.json"}, []string{"a"}},
		{[]string{"x/a.json", "y/b.json"}, []string{"a", "b"}},
		{[]string{"results/17/result.json", "results/18/result.json"}, []string{"17/result", "18/result"}},
		{[]string{"/r/1/out/result.json", "/r/2/out/result.json", "other.json"}, []string{"1/out/result", "2/out/result", "other"}},
		{[]string{"result.json", "old/result.json"}, []string{"result", "old/result"}},
		{[]string{"a.json", "a.json"}, []string{"a", "a"}},
	} {
		if d := cmp.Diff(c.want, shortNames(c.paths)); d != "" {
			t.Errorf("%v: %s", c.paths, d)
		}
	}
}

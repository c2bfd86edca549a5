package mutation

import (
	"os"
	"strings"
	"testing"
)

// The report in docs lists as not found out just those mutants for which there is an
// excuse: none that was found out has one. Of kernels that have changed since the
// report was made it says nothing.
func TestExcusesFitTheReport(t *testing.T) {
	b, err := os.ReadFile("../../docs/mutation.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	table, rest, _ := strings.Cut(text, "## By what is broken")
	_, rest, ok := strings.Cut(rest, "\n## Not found out\n")
	if !ok {
		t.Fatal("docs/mutation.md has no list of what was not found out")
	}
	survived := map[string]int{}
	for l := range strings.Lines(rest) {
		if strings.HasPrefix(l, "- ") {
			survived[labels.ReplaceAllString(strings.TrimSpace(l), "$$L__BB_")]++
		}
	}
	found, excused, old, used := 0, 0, map[string]bool{}, map[*excuse]bool{}
	for _, m := range mutants(t) {
		if !strings.Contains(table, "| "+name(m)+" |") || !strings.Contains(table, "| "+m.text()+" |") {
			old[name(m)] = true
			continue
		}
		line := labels.ReplaceAllString(entry(m), "$$L__BB_")
		switch e := m.excuse(); {
		case survived[line] > 0 && e == nil:
			t.Errorf("not found out, and without an excuse: %v", m)
		case survived[line] > 0:
			survived[line]--
			excused++
			used[e] = true
		case e != nil:
			t.Errorf("found out, and yet %q fits: %v", e.title, m)
		default:
			found++
		}
	}
	for k := range old {
		t.Logf("%s has changed since docs/mutation.md was made", k)
	}
	for i := range excuses {
		if e := &excuses[i]; len(old) == 0 && !used[e] {
			t.Errorf("no mutant needs the excuse %q", e.title)
		}
	}
	t.Logf("%d mutants found out, %d excused", found, excused)
	if found+excused == 0 {
		t.Error("docs/mutation.md is of other kernels throughout: run make mutation")
	}
}

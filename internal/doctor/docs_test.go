//go:build linux

package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every id in the code is explained in docs/doctor.md, and no other.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{askPeers: true, askMulticast: true, askNCCL: true, askNCCLSymmetric: true}
	for pattern, prefix := range map[string]string{
		`(?:ID: |\bid(?:, \w+)* = |costs\(|unsure\(|fromError\(|limit\()"([a-z][a-z.-]*[a-z])"`: "",
		`add\("(asked\.[a-z]+)", `: "",
		`add\("([a-z-]+)", `:       "nvls.", // in package nvls
	} {
		re := regexp.MustCompile(pattern)
		files, _ := filepath.Glob("*.go")
		for _, file := range append(files, "../../nvls/reasons.go") {
			if strings.HasSuffix(file, "_test.go") || prefix != "" && !strings.HasSuffix(file, "reasons.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range re.FindAllStringSubmatch(string(text), -1) {
				ids[prefix+m[1]] = true
			}
		}
	}
	for _, kind := range namespaceKinds {
		if kind != "mnt" {
			ids["namespaces."+kind] = true
		}
	}
	if len(ids) < 50 {
		t.Errorf("only %d ids were found in the code", len(ids))
	}
	told := map[string]bool{}
	_, tables, _ := strings.Cut(string(doc), "\n## Findings\n")
	tables, _, _ = strings.Cut(tables, "\n## What other programs")
	for line := range strings.Lines(tables) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " |")
		for id := range strings.SplitSeq("`"+cell, ", ") {
			told[strings.Trim(id, "` ")] = true
		}
	}
	for id := range ids {
		if !told[id] {
			t.Errorf("docs/doctor.md does not explain %s", id)
		}
	}
	for id := range told {
		if !ids[id] {
			t.Errorf("docs/doctor.md explains %s, which the code does not know", id)
		}
	}
}

// Every diagnosis has a test: each id is looked for in some test of this package, by
// its name or as the reason in another finding. And every test and id that the table
// of reports names exists.
func TestEveryDiagnosisHasATest(t *testing.T) {
	doc, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range append(files, "../../cmd/nvls-allreduce/doctor_test.go") {
		if file == "docs_test.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	_, findings, _ := strings.Cut(string(doc), "\n## Findings\n")
	findings, reports, _ := strings.Cut(findings, "\n## What other programs")
	_, reports, ok := strings.Cut(reports, "\n## Which report")
	if !ok {
		t.Fatal("the table of reports is gone")
	}
	known := map[string]bool{}
	for line := range strings.Lines(findings) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " |")
		for id := range strings.SplitSeq("`"+cell, ", ") {
			id = strings.Trim(id, "` ")
			known[id] = true
			if !regexp.MustCompile(`["\[]` + regexp.QuoteMeta(id) + `["\]]`).MatchString(tests.String()) {
				t.Errorf("no test looks for %s", id)
			}
		}
	}
	rows := 0
	for line := range strings.Lines(reports) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		for _, name := range regexp.MustCompile(`\bTest[A-Za-z]+`).FindAllString(line, -1) {
			if !strings.Contains(tests.String(), "func "+name+"(") {
				t.Errorf("docs/doctor.md names %s, which is no test: %s", name, line)
			}
		}
		for _, m := range regexp.MustCompile("`((?:nvls|gpu|asked|namespaces|limits|launcher)\\.[a-z.-]+)`").FindAllStringSubmatch(line, -1) {
			if !known[m[1]] {
				t.Errorf("docs/doctor.md names %s, which is no finding: %s", m[1], line)
			}
		}
	}
	if rows < 38 {
		t.Errorf("the table of reports has %d rows", rows)
	}
}

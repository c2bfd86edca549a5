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
		`add\("([a-z-]+)", `: "nvls.", // in package nvls
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

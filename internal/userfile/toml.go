//go:build linux

package userfile

import (
	"fmt"
	"strings"
)

// What a TOML file of this program's has at most; far more than any needs. Readers
// of TOML take time with the square of the parts of a key, and stack with depth.
const (
	maxKeyParts = 64 // dots and brackets of one line, outside of texts
	maxDepth    = 64 // of lists and tables in each other
)

// CheckTOML refuses text that a reader of TOML would need minutes for. What is not
// valid otherwise is left to that reader.
func CheckTOML(text string) error {
	depth, n := 0, 0
	for line := range strings.Lines(text) {
		n++
		parts := 0
		var quote byte
	bytes:
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case quote != 0:
				if c == '\\' && quote == '"' {
					i++
				} else if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			case c == '#':
				break bytes
			case c == '.':
				parts++
			case c == '[' || c == '{':
				parts++
				depth++
			case c == ']' || c == '}':
				depth = max(depth-1, 0)
			}
			if parts > maxKeyParts || depth > maxDepth {
				return fmt.Errorf("line %d has more than %d names or lists in each other", n, maxDepth)
			}
		}
	}
	return nil
}

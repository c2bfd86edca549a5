package collective

import (
	"fmt"
	"strings"
)

// UnknownNameError says that a word is none of the valid ones.
type UnknownNameError struct {
	Kind    string   // "data type"
	Name    string   // what was given
	Nearest string   // the valid name most like it
	Valid   []string // all valid names
}

func (e *UnknownNameError) Error() string {
	return fmt.Sprintf("unknown %s %q: did you mean %q? (valid: %s)", e.Kind, e.Name, e.Nearest, strings.Join(e.Valid, ", "))
}

func unknownName(kind, name string, valid []string) error {
	return &UnknownNameError{Kind: kind, Name: name, Nearest: Nearest(name, valid), Valid: valid}
}

// Nearest returns the word of valid with the smallest edit distance to name,
// letters compared without case; the first of several.
func Nearest(name string, valid []string) string {
	best, bestD := "", int(^uint(0)>>1)
	for _, v := range valid {
		if d := editDistance(strings.ToLower(name), strings.ToLower(v)); d < bestD {
			best, bestD = v, d
		}
	}
	return best
}

// editDistance is Levenshtein's distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

func names[T fmt.Stringer](v []T) []string {
	out := make([]string, len(v))
	for i, x := range v {
		out[i] = x.String()
	}
	return out
}

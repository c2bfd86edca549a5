package collective

import (
	"fmt"
	"slices"
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

// synonyms are names that other tools have for the same thing.
var synonyms = map[string]string{
	"fp16": "half", "float16": "half", "f16": "half", "bf16": "bfloat16", "fp32": "float", "float32": "float", "f32": "float",
	"fp64": "double", "float64": "double", "f64": "double", "i8": "int8", "u8": "uint8", "i32": "int32", "int": "int32", "u32": "uint32",
	"i64": "int64", "long": "int64", "u64": "uint64", "mean": "avg", "average": "avg", "add": "sum", "mul": "prod", "product": "prod",
	"gpu": "cuda", "cpu": "sim", "nvls": "nvls-zero-copy", "nvlink": "p2p", "peer": "p2p", "yes": "allow", "true": "allow", "no": "never", "false": "never",
}

// Nearest returns the word of valid that name most likely means: another tool's
// name for it, one that begins with name, or else the one with the smallest edit
// distance; letters compared without case, the first of several.
func Nearest(name string, valid []string) string {
	if s := synonyms[strings.ToLower(name)]; slices.Contains(valid, s) {
		return s
	}
	for _, v := range valid {
		if len(name) > 2 && strings.HasPrefix(strings.ToLower(v), strings.ToLower(name)) {
			return v
		}
	}
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

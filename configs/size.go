package configs

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size uint64

// MaxSize is the largest size that a configuration may name: 1024G.
const MaxSize Size = 1 << 40

// sizeForm is the grammar of nccl-tests' sizes, a decimal number and one letter,
// with the letters that people write after it: "1K", "1.5g", "64MB", "64MiB".
var sizeForm = regexp.MustCompile(`(?i)^(\d{1,20}(?:\.\d{0,40})?|\.\d{1,40})(?:b|([kmg])(?:i?b)?)?$`)

var sizeUnits = []struct {
	letter string
	bytes  uint64
}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

// ParseSize reads a size. K, M and G are binary whatever follows them, as in
// nccl-tests: "1MB" is 1048576. A fraction of a byte is dropped.
func ParseSize(s string) (Size, error) {
	const form = `write bytes, or a number with K, M or G: "8", "32K", "1.5G"`
	t := strings.TrimSpace(s)
	if strings.HasPrefix(t, "-") {
		return 0, fmt.Errorf("a size cannot be negative: %q", s)
	}
	m := sizeForm.FindStringSubmatch(t)
	if m == nil {
		return 0, fmt.Errorf("not a size: %q; %s", s, form)
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, fmt.Errorf("not a size: %q; %s", s, form)
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(u.letter, m[2]) {
			n.Mul(n, new(big.Rat).SetUint64(u.bytes))
		}
	}
	whole := new(big.Int).Quo(n.Num(), n.Denom())
	if !whole.IsUint64() || Size(whole.Uint64()) > MaxSize {
		return 0, fmt.Errorf("%q is more than the largest size, %v", s, MaxSize)
	}
	return Size(whole.Uint64()), nil
}

// String gives the shortest form that ParseSize reads back as s: "1.5G", "1000".
func (s Size) String() string {
	best := strconv.FormatUint(uint64(s), 10)
	for i := len(sizeUnits) - 1; i >= 0; i-- {
		u := sizeUnits[i]
		if uint64(s) < u.bytes {
			break
		}
		// A multiple of 1/2^30 has at most 30 decimals, so this is exact.
		t := new(big.Rat).SetFrac(new(big.Int).SetUint64(uint64(s)), new(big.Int).SetUint64(u.bytes)).FloatString(30)
		t = strings.TrimRight(strings.TrimRight(t, "0"), ".") + u.letter
		if len(t) <= len(best) {
			best = t
		}
	}
	return best
}

// MarshalText writes String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseSize reads.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}

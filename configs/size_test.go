package configs

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Size
	}{
		{"0", 0}, {"8", 8}, {"8B", 8}, {"1k", 1 << 10}, {"1K", 1 << 10}, {"32M", 32 << 20}, {"32m", 32 << 20},
		{"1MB", 1 << 20}, {"1MiB", 1 << 20}, {"1mb", 1 << 20}, {"1G", 1 << 30}, {"1.5G", 3 << 29}, {".5K", 512},
		{"1.K", 1 << 10}, {" 4K ", 4 << 10}, {"1.3K", 1331}, {"1024G", MaxSize}, {"00008", 8},
	} {
		got, err := ParseSize(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
	}
	for in, word := range map[string]string{
		"": "not a size", "K": "not a size", "1Q": "not a size", "1T": "not a size", "8iB": "not a size", "1KK": "not a size",
		"1e6": "not a size", "0x10": "not a size", "inf": "not a size", "nan": "not a size", "1,5G": "not a size", "1 K 2": "not a size",
		"-1": "negative", "-1G": "negative", "1025G": "more than the largest", "99999999999999999999G": "more than the largest",
	} {
		got, err := ParseSize(in)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("ParseSize(%q) = %d, %v; want an error with %q", in, got, err, word)
		}
	}
}

func TestSizeString(t *testing.T) {
	for in, want := range map[Size]string{
		0: "0", 1: "1", 1000: "1000", 1023: "1023", 1024: "1K", 1536: "1.5K", 1280: "1280", 1 << 20: "1M", 512 << 10: "512K",
		3 << 29: "1.5G", 1<<20 + 1: "1048577", MaxSize: "1024G", 1 << 60: "1073741824G",
	} {
		if got := in.String(); got != want {
			t.Errorf("Size(%d) = %q, want %q", uint64(in), got, want)
		}
	}
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := drawSize(t, "size")
		text := size.String()
		got, err := ParseSize(text)
		if err != nil || got != size {
			t.Fatalf("%d is written %q and read %d, %v", uint64(size), text, got, err)
		}
	})
}

// drawSize gives sizes of every magnitude up to MaxSize, round ones among them.
func drawSize(t *rapid.T, label string) Size {
	shift := rapid.IntRange(0, 40).Draw(t, label+" shift")
	s := Size(rapid.Uint64Range(0, uint64(MaxSize)>>shift).Draw(t, label))
	if rapid.Bool().Draw(t, label+" round") {
		s <<= shift
	}
	return s
}

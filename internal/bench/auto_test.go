package bench

import (
	"testing"
	"time"
)

// A geometry that is far slower than the best is left after its first iterations;
// one that may win is not, however slow its start.
func TestHopeless(t *testing.T) {
	for _, tt := range []struct {
		took, least time.Duration
		want        bool
	}{
		{112 * time.Millisecond, 850 * time.Microsecond, true}, // 256 MiB by one block
		{5 * time.Millisecond, 850 * time.Microsecond, true},
		{2 * time.Millisecond, 850 * time.Microsecond, false},
		{900 * time.Microsecond, 4 * time.Microsecond, false}, // the first launch of a small one
		{400 * time.Millisecond, 300 * time.Millisecond, false},
	} {
		if got := hopeless(tt.took, tt.least); got != tt.want {
			t.Errorf("%v beside %v: %v", tt.took, tt.least, got)
		}
	}
}

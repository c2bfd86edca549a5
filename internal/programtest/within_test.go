package programtest

import (
	"testing"
	"time"
)

func TestScaled(t *testing.T) {
	for _, tt := range []struct {
		loadavg string
		cores   int
		want    time.Duration
	}{
		{"0.20 1.00 2.00 1/300 99", 2, 5 * time.Second}, // idle
		{"6.00 1.00 2.00 1/300 99", 2, 15 * time.Second},
		{"0.50 1.00 2.00 8/300 99", 2, 20 * time.Second}, // since a moment
		{"6.00 1.00 2.00 7/300 99", 64, 5 * time.Second},
		{"", 2, 5 * time.Second},
	} {
		if got := scaled(5*time.Second, tt.loadavg, tt.cores); got != tt.want {
			t.Errorf("%q on %d cores: %v, want %v", tt.loadavg, tt.cores, got, tt.want)
		}
	}
	if Within(time.Second) < time.Second {
		t.Error("less than on an idle machine")
	}
}

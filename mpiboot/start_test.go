//go:build linux

package mpiboot

import (
	"testing"
	"time"
)

func TestUntilStart(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name     string
		arrivals []time.Duration
		now      time.Duration
		want     time.Duration
	}{
		{"the last one's time counts", []time.Duration{100 * us, 5000 * us, 200 * us}, 5050 * us, startMargin - 50*us},
		{"the last one itself", []time.Duration{0, 5000 * us}, 5000 * us, startMargin},
		{"too late", []time.Duration{0, 5000 * us}, 6000 * us, 0},
		{"another clock is ahead", []time.Duration{0, time.Hour}, 100 * us, 0},
		{"this clock is ahead", []time.Duration{0, time.Hour}, time.Hour + 100*us, startMargin - 100*us},
	} {
		if got := untilStart(c.arrivals, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

//go:build linux

package soak

import (
	"testing"
	"time"
)

// A rank that is late may be there until it has woken, however soon its launcher
// went; any other process may not.
func TestLateRankIsGivenItsDelay(t *testing.T) {
	fault := time.Now()
	for _, c := range []struct {
		fault string
		ended time.Duration // of the launcher, after the fault
		until time.Duration
	}{
		{"at:0:late:1:cuModuleLoadData", 6 * time.Second, 15 * time.Second},
		{"at:1:late:1:verify", 14 * time.Second, 17 * time.Second},
		{"at:0:stop:1:cuModuleLoadData", 6 * time.Second, 9 * time.Second},
		{"at:0:kill:1:a stage named late", time.Second, 4 * time.Second},
		{"", time.Second, 4 * time.Second},
	} {
		if got := (job{fault: c.fault}).leftUntil(fault, fault.Add(c.ended)).Sub(fault); got != c.until {
			t.Errorf("%q, launcher gone after %v: processes may be there until %v, want %v", c.fault, c.ended, got, c.until)
		}
	}
}

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

// One rank comes late: none starts before it, and the moment is the same for all
// that are in time to wait for it.
func TestStartTime(t *testing.T) {
	const ranks, late = 4, 10 * time.Millisecond
	nodes := mesh(t, ranks, "", 10*time.Second)
	together := 0
	for range 20 {
		begin := time.Now()
		var at, left [ranks]time.Time
		all(t, nodes, func(n *Node) (err error) {
			if n.Rank() == ranks-1 {
				time.Sleep(late)
			}
			at[n.Rank()], err = n.StartTime(bg, "start")
			left[n.Rank()] = time.Now()
			return err
		})
		first, last := at[0], at[0]
		waits := true
		for r := range ranks {
			if at[r].Before(begin.Add(late)) {
				t.Errorf("rank %d starts %v before the last one came", r, begin.Add(late).Sub(at[r]))
			}
			if at[r].Before(first) {
				first = at[r]
			}
			if at[r].After(last) {
				last = at[r]
			}
			waits = waits && at[r].After(left[r])
		}
		if waits && last.Sub(first) < startMargin/4 {
			together++
		}
	}
	// On a busy machine some are too late to wait, or stopped between two clocks.
	if together == 0 {
		t.Error("the ranks never had the same moment")
	}
}

//go:build linux

package mpiboot

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// startMargin is how long after the last rank's arrival the ranks start: longer
// than that rank's message takes to the others on a host with a core a rank.
const startMargin = 200 * time.Microsecond

// StartTime is a barrier for timing: it gives a moment, the same on every rank,
// shortly after the last one has come. Ranks leave a barrier when a message
// reaches them, some tens of microseconds apart, which a benchmark of 20
// iterations would see in every one of them. Until the moment there is time to
// prepare; then wait without giving up the core.
//
// The moment is agreed on by CLOCK_MONOTONIC, which the processes of a host share.
// A rank whose clock is another (a time namespace) gets a moment that has passed.
func (n *Node) StartTime(ctx context.Context, stage string) (time.Time, error) {
	arrived, err := monotonic()
	if err != nil {
		return time.Time{}, err
	}
	all, err := n.gather(ctx, kindStart, stage, &message{body: binary.LittleEndian.AppendUint64(nil, uint64(arrived))})
	if err != nil {
		return time.Time{}, err
	}
	arrivals := make([]time.Duration, len(all))
	for i, m := range all {
		if len(m.body) != 8 {
			return time.Time{}, failure.New(failure.Internal, "rank %d brought %d bytes to the start at stage %q, not a time", n.world[i], len(m.body), stage)
		}
		arrivals[i] = time.Duration(binary.LittleEndian.Uint64(m.body))
	}
	now, err := monotonic()
	return time.Now().Add(untilStart(arrivals, now)), err
}

// untilStart is how long a rank whose clock says now has to wait, 0 for not at
// all. All have arrived, so that by one clock it is at most startMargin.
func untilStart(arrivals []time.Duration, now time.Duration) time.Duration {
	left := slices.Max(arrivals) + startMargin - now
	if left < 0 || left > startMargin {
		return 0
	}
	return left
}

func monotonic() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, failure.Wrap(failure.Internal, err, "clock_gettime(CLOCK_MONOTONIC)")
	}
	return time.Duration(t.Nano()), nil
}

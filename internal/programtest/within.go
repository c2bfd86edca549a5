package programtest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Within is how long something may take here and now that takes at most d on a
// machine with nothing else to do: d times the processes that want each core, by
// the kernel's mean over the last minute. Tests that hold the program to a time
// use it, because other packages' tests run beside them; a soak has the machine
// for itself.
func Within(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d
	}
	return scaled(d, string(text), runtime.NumCPU())
}

// scaled is Within for the text of /proc/loadavg: the means over 1, 5 and 15
// minutes, then the processes that are running now and all there are.
func scaled(d time.Duration, loadavg string, cores int) time.Duration {
	var mean float64
	var now int
	f := strings.Fields(loadavg)
	if len(f) < 4 {
		return d
	}
	fmt.Sscan(f[0], &mean)
	fmt.Sscanf(f[3], "%d/", &now)
	return time.Duration(float64(d) * max(1, max(mean, float64(now))/float64(cores)))
}

package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// progressLine shows on a terminal what is running and how long the table may
// still take. In a batch job, where stderr is no terminal, it shows nothing.
type progressLine struct {
	w       io.Writer // nil when stderr is no terminal
	shown   bool
	started time.Time // of the row before
	size    uint64    // of the row before
}

func newProgressLine(stderr io.Writer) progressLine {
	f, ok := stderr.(*os.File)
	if !ok {
		return progressLine{}
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return progressLine{}
	}
	return progressLine{w: f}
}

// progress shows the row that begins, and left, its size and those after it.
func (r *record) progress(what string, left []uint64) {
	if r.w == nil || !r.first() {
		return
	}
	r.out.Lock()
	defer r.out.Unlock()
	r.clear()
	rest := ""
	if now := time.Now(); !r.started.IsZero() && r.size <= left[0] {
		rest = fmt.Sprintf(", about %s left in this table", estimate(now.Sub(r.started), r.size, left).Round(time.Second))
	}
	r.started, r.size = time.Now(), left[0]
	fmt.Fprintf(r.w, "running %s%s", what, rest)
	r.shown = true
}

// estimate extrapolates the time of the remaining sizes from the last one: as
// long as that, or longer in proportion to the size.
func estimate(last time.Duration, size uint64, left []uint64) time.Duration {
	total := 0.0
	for _, s := range left {
		total += max(1, float64(s)/float64(max(size, 1<<20)))
	}
	return time.Duration(total * float64(last))
}

// clear removes the line, before something else is printed.
func (p *progressLine) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

package sim

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Weak reports whether the session's devices have the weak memory model.
func (s *Session) Weak() bool { return s.history != nil }

// Seed is what that model's behaviour is drawn from.
func (s *Session) Seed() uint64 { return s.ctl.Seed }

// headBytes is the room for the common part at the start of the history file.
const headBytes = (exec.HistoryHeadBytes + Granule - 1) / Granule * Granule

// historyBytes is the size of the history file. It is sparse.
func historyBytes(c *control) uint64 {
	return uint64(headBytes) + uint64(c.Devices)*uint64(exec.HistoryBytes(int(c.MemoryBytes)))
}

// openHistory maps the history of the devices' memory.
func (s *Session) openHistory() error {
	if s.ctl.Weak == 0 {
		return nil
	}
	f := s.files[1+s.ctl.Devices]
	n := int(historyBytes(s.ctl))
	st, err := f.Stat()
	if err == nil && st.Size() != int64(n) {
		err = fmt.Errorf("the file has %d bytes instead of %d", st.Size(), n)
	}
	if err == nil {
		s.past, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err != nil {
		return &failure.Error{Code: failure.Internal, What: "cannot map the history of the software GPUs' memory", Err: err,
			Why: fmt.Sprintf("the weak memory model needs %d bytes of address space", n),
			Do:  "raise the limit on address space (ulimit -v unlimited)", By: failure.User}
	}
	var ranges []exec.HistoryRange
	cells := s.past[headBytes:]
	for _, m := range s.mem {
		n := exec.HistoryBytes(len(m))
		ranges = append(ranges, exec.HistoryRange{Host: m, Cells: cells[:n]})
		cells = cells[n:]
	}
	s.history = exec.NewHistory(s.past, ranges)
	return nil
}

// launchKernel runs a kernel in the session's memory model.
func (l *lane) launchKernel(o *op) error {
	d := l.d
	if !d.s.Weak() {
		return o.kernel.Run(d.ctx, d.space, &d.config, o.launch)
	}
	cfg := d.config
	cfg.Weak = &exec.Weak{History: d.s.history, Process: d.ordinal, Reached: d.s.Reached, Seed: d.s.Seed() + (d.launches.Add(1)-1)<<32}
	if l.seat != nil {
		cfg.Weak.Seed, cfg.Weak.Temper = l.seat.Next()
		cfg.Weak.Turn, cfg.Now = l.seat.Turn, d.s.Conductor.Now
	}
	return o.kernel.Run(d.ctx, d.space, &cfg, o.launch)
}

// synchronized is called when the host knows that all work of a stream is done.
func (d *gpu) synchronized() {
	if d.s.Weak() && d.ctx.Err() == nil {
		d.s.history.Synchronize(d.ordinal)
	}
}

// copyStep is how much of a copy is done in one of the conductor's turns.
const copyStep = 256

// weakCopy does the beginning of a copy.
func (l *lane) weakCopy(to, from []byte) (n int, err error) {
	if l.seat != nil {
		if err := l.seat.Turn(); err != nil {
			return 0, err
		}
	}
	n = min(len(to), len(from), copyStep)
	return n, l.d.s.history.Store(to[:n], from[:n], l.d.ordinal)
}

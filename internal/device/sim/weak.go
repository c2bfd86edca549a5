package sim

import (
	"bytes"
	"encoding/binary"
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
	cfg.Weak = &exec.Weak{History: d.s.history, Process: d.ordinal, Branch: l.number, Before: l.known, Reached: d.s.Reached}
	cfg.Weak.Seed, cfg.Weak.Temper = l.seed()
	if l.seat != nil {
		cfg.Weak.Turn, cfg.Now = l.seat.Turn, d.s.Conductor.Now
	}
	err := o.kernel.Run(d.ctx, d.space, &cfg, o.launch)
	l.known = cfg.Weak.Left
	return err
}

// seed is for the next piece of work.
func (l *lane) seed() (seed, temper uint64) {
	if l.seat != nil {
		return l.seat.Next()
	}
	return l.d.s.Seed() + (l.d.launches.Add(1)-1)<<32, 0
}

// synchronized is called when the host knows that work is done, which has left known.
func (d *gpu) synchronized(known *exec.Known) {
	if d.s.Weak() && d.ctx.Err() == nil {
		d.s.history.HostsLearn(known)
	}
}

// forgetHistory drops the history of memory that is given back.
func (s *Session) forgetHistory(dev int, offset, bytes uint64) error {
	if !s.Weak() {
		return nil
	}
	from := uint64(headBytes) + uint64(dev)*uint64(exec.HistoryBytes(int(s.ctl.MemoryBytes))) + uint64(exec.HistoryBytes(int(offset)))
	return unix.Madvise(s.past[from:from+uint64(exec.HistoryBytes(int(bytes)))], unix.MADV_REMOVE)
}

// copyStep is how much of a copy is done in one of the conductor's turns.
const copyStep = 256

// newCopy begins a copy or a memset.
func (l *lane) newCopy() *exec.Copy {
	seed, _ := l.seed()
	return l.d.s.history.NewCopy(l.d.ordinal, l.number, l.known, seed)
}

// weakCopy does the beginning of a copy.
func (l *lane) weakCopy(c *exec.Copy, to, from []byte) (n int, err error) {
	if l.seat != nil {
		if err := l.seat.Turn(); err != nil {
			return 0, err
		}
	}
	n = min(len(to), len(from), copyStep)
	return n, c.Move(to[:n], from[:n])
}

// weakSet is a memset of whole words.
func (l *lane) weakSet(parts [][]byte, value uint32) error {
	c := l.newCopy()
	word := binary.LittleEndian.AppendUint32(nil, value)
	for _, p := range parts {
		if err := c.Store(p, bytes.Repeat(word, len(p)/4)); err != nil {
			return err
		}
	}
	l.known = c.End()
	return nil
}

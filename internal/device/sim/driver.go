package sim

import (
	"context"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim/exec"
)

// driver implements device.Driver over a session.
type driver struct{ s *Session }

func (r *driver) Name() string    { return "sim" }
func (r *driver) Version() string { return "software device" }

func (r *driver) Devices() []device.Info {
	if r.s.isClosed() {
		return nil
	}
	infos := make([]device.Info, r.s.ctl.Devices)
	for i := range infos {
		infos[i] = r.s.info(i)
	}
	return infos
}

// info describes a device. FABRIC handles do not exist here: whoever asks for
// one fails, as on a node without IMEX.
func (s *Session) info(ordinal int) device.Info {
	c := s.ctl
	return device.Info{
		UUID:               s.uuid(ordinal),
		Ordinal:            ordinal,
		Name:               "Software GPU",
		Major:              int(c.Major),
		Minor:              int(c.Minor),
		SMs:                int(c.SMs),
		MemoryBytes:        c.MemoryBytes,
		VMM:                true,
		PosixFD:            true,
		Multicast:          c.Major >= 9 && s.MulticastOff == "",
		MulticastOff:       s.MulticastOff,
		MaxThreadsPerBlock: exec.MaxThreadsPerBlock,
		MaxBlocksPerSM:     int(c.BlocksPerSM),
		Simulated:          true,
	}
}

// windowBytes is the address space of one opened device, in bytes.
const windowBytes = 1 << 40

func (r *driver) Open(ordinal int) (device.Device, error) {
	const call = "cuDevicePrimaryCtxRetain"
	s := r.s
	err := s.inject(call)
	if err == nil && s.isClosed() {
		err = refuse(device.NotInitialized, "the session was closed")
	}
	if err == nil && (ordinal < 0 || ordinal >= int(s.ctl.Devices)) {
		err = refuse(device.InvalidDevice, "ordinal %d: there are %d devices", ordinal, s.ctl.Devices)
	}
	var d *gpu
	if err == nil {
		d, err = s.openGPU(ordinal)
	}
	if err != nil {
		err = asDriverError(call, device.UUID{}, err)
		s.trace("-", call, fmt.Sprintf("ordinal=%d", ordinal), err)
		return nil, err
	}
	s.trace(d.where, call, fmt.Sprintf("ordinal=%d, uuid=%s", ordinal, d.info.UUID), nil)
	return d, nil
}

// openGPU gives every opened device its own window of addresses, different in
// every process of the session: an address that one rank takes from another by
// mistake faults instead of working by chance.
func (s *Session) openGPU(ordinal int) (*gpu, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := uint64(16+16*s.slot+s.opened%16) * windowBytes
	s.opened++
	d := &gpu{
		s:       s,
		ordinal: ordinal,
		where:   fmt.Sprintf("gpu%d", ordinal),
		info:    s.info(ordinal),
		space:   exec.NewSpace(base, windowBytes),
		config:  exec.Config{SMs: int(s.ctl.SMs), BlocksPerSM: int(s.ctl.BlocksPerSM), Seed: uint64(s.slot)},
		windows: windows{base: base, end: base + windowBytes, next: base},
		handles: map[closer]struct{}{},
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	s.open[d] = struct{}{}
	return d, nil
}

func (r *driver) Close() error {
	r.s.mu.Lock()
	n := len(r.s.open)
	r.s.mu.Unlock()
	if n != 0 {
		return asDriverError("cuDevicePrimaryCtxRelease", device.UUID{}, refuse(device.IllegalState, "%d devices are still open", n))
	}
	return nil
}

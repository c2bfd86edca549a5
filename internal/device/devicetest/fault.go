package devicetest

import (
	"context"
	"errors"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// faults are played by one rank in a process of its own: the fault of a kernel
// costs that process its GPU context.
var faults = map[string]part{
	"UnmappedAddress":   func(r *rank) { faultAt(r, func(p device.Ptr) device.Ptr { return 0 }, device.IllegalAddress) },
	"MisalignedAddress": func(r *rank) { faultAt(r, func(p device.Ptr) device.Ptr { return p + 2 }, device.MisalignedAddr) },
	"Trap":              faultTrap,
}

func faultAt(r *rank, where func(device.Ptr) device.Ptr, code device.Code) {
	_, p := r.alloc(r.granule)
	s := r.stream()
	poke := r.portable("poke")
	r.launch(s, poke, 1, 1, bytesOf(&pokeArgs{Address: p + 8}))
	r.wait(s)
	r.expect("the word that was poked", p+8, 1, func(uint32) uint32 { return 7 })
	r.launch(s, poke, 1, 1, bytesOf(&pokeArgs{Address: where(p)}))
	lost(r, s, code)
}

func faultTrap(r *rank) {
	s := r.stream()
	stop := r.portable("stop")
	r.launch(s, stop, 2, 32, bytesOf(&stopArgs{Thread: 1000})) // no such thread: no trap
	r.wait(s)
	r.launch(s, stop, 2, 32, bytesOf(&stopArgs{Thread: 40}))
	// A trap is reported as "launch failed" or as "illegal instruction" (715),
	// by the driver's version.
	lost(r, s, device.LaunchFailed, 715)
}

// lost checks that the context is gone, with the same error from every call.
func lost(r *rank, s device.Stream, codes ...device.Code) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the fault did not come"))
	defer cancel()
	first := s.Wait(ctx)
	r.refused(first, "a kernel with a fault", codes...)
	if !strings.Contains(first.Error(), r.Info().UUID.String()) {
		r.failf("the error does not name the device: %v", first)
	}
	code, _ := device.CodeOf(first)
	_, err := s.Query()
	r.refused(err, "Query after a fault", code)
	_, err = r.Alloc(r.granule)
	r.refused(err, "Alloc after a fault", code)
	r.refused(r.CopyToHost(make([]byte, 4), 0), "CopyToHost after a fault", code)
}

package collective

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/cuda"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device/sim"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// openDriver opens the driver on every rank. The software device is one session
// of all ranks: rank 0 makes it and sends its descriptors.
func (g *Group) openDriver(ctx context.Context) error {
	var err error
	switch g.options.Device {
	case "cuda":
		g.driver, err = cuda.Open(cuda.Options{MulticastOff: g.options.MulticastOff})
		return g.node.Vote(ctx, "open the CUDA driver", err)
	case "sim":
		return g.openSession(ctx)
	}
	return &failure.Error{Code: failure.Usage, What: fmt.Sprintf("unknown device %q", g.options.Device), Do: "use cuda or sim", By: failure.User}
}

func (g *Group) openSession(ctx context.Context) error {
	var session *sim.Session
	var err error
	if g.Rank() == 0 {
		o := g.options.Sim
		if o.Devices == 0 {
			o.Devices = g.Size()
		}
		session, err = sim.Create(o)
	}
	if err := g.node.Vote(ctx, "make the software device", err); err != nil {
		return err
	}
	if g.Rank() == 0 {
		_, err = g.node.BcastFiles(ctx, "share the software device", 0, session.Files())
	} else if files, e := g.node.BcastFiles(ctx, "share the software device", 0, nil); e != nil {
		err = e
	} else {
		session, err = sim.Attach(files)
		for _, f := range files {
			f.Close()
		}
	}
	if session != nil {
		own := g.options.Sim.Process
		own.MulticastOff = g.options.MulticastOff
		session.Use(own)
		g.driver = session.Driver()
		g.onClose = append(g.onClose, session.Close)
	}
	return g.node.Vote(ctx, "open the software device", err)
}

// sight is what a rank tells the others about devices.
type sight struct {
	Visible []device.UUID
	Chosen  device.Info
}

// openDevice chooses this rank's device, compares all ranks' choices by UUID
// and opens it.
func (g *Group) openDevice(ctx context.Context) error {
	visible := g.driver.Devices()
	ordinal, err := chooseDevice(g.Rank(), g.Size(), visible, g.options.ShareGPU)
	if err := g.node.Vote(ctx, "choose a device", err); err != nil {
		return err
	}
	mine := sight{Chosen: visible[ordinal]}
	for _, d := range visible {
		mine.Visible = append(mine.Visible, d.UUID)
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := g.node.Allgather(ctx, "compare devices", text)
	if err != nil {
		return err
	}
	uuids := make([][]device.UUID, g.Size())
	g.infos = make([]device.Info, g.Size())
	for r, t := range all {
		var s sight
		if err := json.Unmarshal(t, &s); err != nil {
			return failure.Wrap(failure.Internal, err, "rank %d's list of devices cannot be read", r)
		}
		uuids[r], g.infos[r] = s.Visible, s.Chosen
	}
	// Every rank judges the same lists and comes to the same verdict.
	if err := checkDevices(g.infos, uuids, g.options.ShareGPU); err != nil {
		return err
	}
	g.dev, err = g.driver.Open(ordinal)
	return g.node.Vote(ctx, "open the device", g.at(err))
}

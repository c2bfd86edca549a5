package nvls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Channel is a multicast object with symmetric memory of every rank behind it:
// byte i of the channel is byte i of the memory on each rank.
type Channel struct {
	group  *collective.Group
	memory *collective.Memory
	object device.Multicast
	bound  bool
	stuck  bool       // a bind that has not returned still uses object and memory
	base   device.Ptr // 0 until mapped
}

// Binding is tried again while Fabric Manager is not ready.
const (
	bindAttempts = 10
	bindPause    = time.Second
	// bindPatience is how long one bind may take. It is less than ranks wait for
	// each other by default, so that they learn from the late rank what is wrong.
	bindPatience = 20 * time.Second
)

// NewChannel makes a multicast object over m on all ranks of the group. It is
// collective; when any rank fails, all get the same error and nothing is left.
// The order of calls is the driver's: create, share, add all devices, bind, map.
func NewChannel(ctx context.Context, g *collective.Group, m *collective.Memory) (*Channel, error) {
	if err := Available(ctx, g); err != nil {
		return nil, err
	}
	c := &Channel{group: g, memory: m}
	if err := c.setUp(ctx); err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

func (c *Channel) setUp(ctx context.Context) error {
	g := c.group
	node := g.Node()
	if err := c.share(ctx); err != nil {
		return err
	}
	if err := node.Vote(ctx, "add the device to the multicast object", c.explain(c.object.AddDevice())); err != nil {
		return err
	}
	if err := c.bind(ctx); err != nil {
		return err
	}
	base, err := c.object.Map()
	c.base = base
	return node.Vote(ctx, "map the multicast object", c.explain(err))
}

// share creates the object on rank 0 and gives every rank a handle. Rank 0 keeps
// its own until the vote: were it dropped before all have imported, a late rank
// would get an empty object and every bind would hang.
func (c *Channel) share(ctx context.Context) error {
	g, node := c.group, c.group.Node()
	bytes := c.memory.Bytes()
	var files []*os.File
	var err error
	if g.Rank() == 0 {
		if c.object, err = g.Device().CreateMulticast(g.Size(), bytes); err == nil {
			var f *os.File
			if f, err = c.object.Export(); err == nil {
				files = []*os.File{f}
				defer f.Close()
			}
		}
	}
	if err := node.Vote(ctx, "create the multicast object", c.explain(err)); err != nil {
		return err
	}
	files, err = node.BcastFiles(ctx, "share the multicast object", 0, files)
	if err != nil {
		return err
	}
	if g.Rank() != 0 {
		c.object, err = g.Device().ImportMulticast(files[0], g.Size(), bytes)
		files[0].Close()
	}
	return node.Vote(ctx, "import the multicast object", c.explain(err))
}

// verdict is what a rank tells the others about its bind.
type verdict struct {
	Code device.Code // 0: bound
	Text string
	Late bool // the driver did not return in time
}

// bind binds this rank's memory under a watchdog. All ranks learn all results:
// they go on together, try again together or give up together.
func (c *Channel) bind(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		mine := verdict{}
		if !c.bound {
			mine = c.tryBind()
		}
		text, err := json.Marshal(mine)
		if err != nil {
			return err
		}
		all, err := c.group.Node().Allgather(ctx, fmt.Sprintf("bind memory to the multicast object, attempt %d", attempt), text)
		if err != nil {
			return err
		}
		again, failed := "", error(nil)
		var waiting []string // ranks whose bind was not ready
		for r, t := range all {
			var v verdict
			if err := json.Unmarshal(t, &v); err != nil {
				return failure.Wrap(failure.Internal, err, "rank %d's bind result cannot be read", r)
			}
			switch {
			case v.Late:
				late := bindLate.failure("NVLS cannot run: cuMulticastBindMem did not return", fmt.Sprintf("rank %d", r), errors.New(v.Text))
				late.Code = failure.Timeout
				failed = late
			case v.Code == device.SystemNotReady:
				again = v.Text
				waiting = append(waiting, strconv.Itoa(r))
			case v.Code != 0 && failed == nil:
				failed = Refused(&device.Error{Code: v.Code}).failure("NVLS cannot run: binding memory to the multicast object failed", fmt.Sprintf("rank %d", r), errors.New(v.Text))
			}
		}
		if failed != nil {
			return failed
		}
		if again == "" {
			return nil
		}
		if attempt == bindAttempts {
			return Refused(&device.Error{Code: device.SystemNotReady}).failure("NVLS cannot run: Fabric Manager is not ready", "rank "+strings.Join(waiting, ", rank "),
				fmt.Errorf("binding answered 802 (SYSTEM_NOT_READY) %d times in %v: %s", attempt, time.Duration(attempt)*bindPause, again))
		}
		select {
		case <-time.After(bindPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryBind calls the driver once. The driver may block for ever, so the call is
// left behind when it does.
func (c *Channel) tryBind() verdict {
	done := make(chan error, 1)
	object, memory, patience := c.object, c.memory, min(c.group.Timeout(), bindPatience)
	go func() { done <- object.Bind(0, memory.Own(), 0, memory.Bytes()) }()
	select {
	case err := <-done:
		if err == nil {
			c.bound = true
			return verdict{}
		}
		code, ok := device.CodeOf(err)
		if !ok {
			code = device.Unknown
		}
		return verdict{Code: code, Text: err.Error()}
	case <-time.After(patience):
		c.stuck = true
		return verdict{Late: true, Text: "the driver did not answer within " + patience.String()}
	}
}

// explain turns a driver's refusal of a multicast call into the reason why NVLS
// cannot run.
func (c *Channel) explain(err error) error {
	if err == nil {
		return nil
	}
	return Refused(err).failure("NVLS cannot run", c.group.Where(), err)
}

// At is the multicast address of a byte of the memory.
func (c *Channel) At(offset uint64) collective.Ptr { return c.base + device.Ptr(offset) }

// Close takes the channel down before its memory is freed: unmap, unbind, drop.
// It is collective.
func (c *Channel) Close(ctx context.Context) error {
	err := c.group.Node().Barrier(ctx, "take down the multicast object")
	return errors.Join(err, c.release())
}

func (c *Channel) release() error {
	if c.stuck {
		return nil // another call would wait for the one in the driver; only the end of the process ends it
	}
	var errs []error
	if c.base != 0 {
		errs = append(errs, c.object.Unmap())
		c.base = 0
	}
	if c.bound {
		errs = append(errs, c.object.Unbind(0, c.memory.Bytes()))
		c.bound = false
	}
	if c.object != nil {
		errs = append(errs, c.object.Close())
		c.object = nil
	}
	return errors.Join(errs...)
}

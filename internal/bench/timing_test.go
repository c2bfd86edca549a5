package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// The time that the device has starts when all is launched: launching itself may
// take longer, where the driver's queue is full.
func TestLimitStartsLate(t *testing.T) {
	world, err := mpiboot.Join(context.Background(), mpiboot.Options{Launcher: mpiboot.LauncherNone})
	if err != nil {
		t.Fatal(err)
	}
	cfg := configs.Default()
	cfg.Timing.Timeout = 5 * time.Millisecond
	b := &bench{cfg: cfg, node: world.Node()}
	ctx, limit, done := b.watched(context.Background())
	defer done()
	time.Sleep(20 * time.Millisecond)
	if err := ctx.Err(); err != nil {
		t.Fatalf("before everything is launched: %v", err)
	}
	limit()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the wait has no end")
	}
	if cause := (*deviceTimeout)(nil); !errors.As(context.Cause(ctx), &cause) || cause.after != 10*time.Millisecond {
		t.Errorf("the wait ends because of %v", context.Cause(ctx))
	}
}

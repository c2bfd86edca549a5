package fallback_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// The largest value of each element over all ranks, without multicast. Mode p2p
// takes the algorithm that suits each size.
//
// Ranks are goroutines on the software device here. Under mpirun, srun or
// mpiboot.Launch each is a process with the same lines, empty mpiboot.Options and
// Device "cuda".
func Example() {
	const ranks = 3
	id := mpiboot.NewUniqueID()
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			err := rank(context.Background(), mpiboot.Options{Environ: []string{
				fmt.Sprintf("%s=%d", mpiboot.EnvRank, r), fmt.Sprintf("%s=%d", mpiboot.EnvSize, ranks), fmt.Sprintf("%s=%v", mpiboot.EnvUniqueID, id),
			}}, "sim")
			if err != nil {
				log.Printf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
	// Output:
	// 3 bytes: packet, the largest are [7 8 9]
	// 1M: two-shot, the largest are [7 8 9]
}

func rank(ctx context.Context, o mpiboot.Options, device string) error {
	world, err := mpiboot.Join(ctx, o)
	if err != nil {
		return err
	}
	group, err := collective.Open(ctx, world, collective.Options{Device: device})
	if err != nil {
		return err
	}
	memory, err := group.Alloc(ctx, "data", 2<<20)
	if err != nil {
		return err
	}
	reducer := fallback.NewP2P(group, fallback.Auto, collective.Tuning{})
	send, recv := memory.At(0), memory.At(1<<20)
	data := [3][]byte{{7, 2, 3}, {1, 8, 4}, {5, 6, 9}}[world.Rank()]
	for _, count := range []uint64{3, 1 << 20} {
		call, err := reducer.Prepare(collective.Call{Send: send, Recv: recv, Count: count, DType: collective.Uint8, Op: collective.Max})
		if err != nil {
			return err
		}
		if err := group.Device().CopyToDevice(send.Local(), data); err != nil {
			return err
		}
		if err := call.Enqueue(group.Stream()); err != nil {
			return err
		}
		if err := group.Wait(ctx); err != nil {
			return err
		}
		largest := make([]byte, 3)
		if err := group.Device().CopyToHost(largest, recv.Local()); err != nil {
			return err
		}
		if world.Rank() == 0 {
			var algorithm string
			fmt.Sscan(call.Algorithm(), &algorithm) // the launch geometry follows
			size := "3 bytes"
			if count > 3 {
				size = collective.FormatBytes(count)
			}
			fmt.Printf("%s: %s, the largest are %v\n", size, algorithm, largest)
		}
		if err := call.Close(); err != nil {
			return err
		}
	}
	for _, c := range []interface{ Close(context.Context) error }{reducer, memory, group} {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	world.Finish(0)
	return nil
}

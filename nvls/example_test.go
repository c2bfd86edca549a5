package nvls_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// The switch averages a buffer over all ranks, in place and without a copy.
//
// Ranks are goroutines on the software device here. Under mpirun, srun or
// mpiboot.Launch each is a process with the same lines, empty mpiboot.Options and
// Device "cuda".
func Example() {
	const ranks = 2
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
	// the average of [1 2 3 4] and [3 4 5 6] is [2 3 4 5]
	// by multimem.ld_reduce.add.u64
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
	memory, err := group.Alloc(ctx, "data", 1<<20)
	if err != nil {
		return err
	}
	// Registering binds the memory to a multicast object: slow, and done once.
	reducer := nvls.NewZeroCopy(group, collective.Tuning{})
	if err := reducer.Register(ctx, memory); err != nil {
		return err
	}
	call, err := reducer.Prepare(collective.Call{Send: memory.At(0), Recv: memory.At(0), Count: 4, DType: collective.Uint64, Op: collective.Avg})
	if err != nil {
		return err
	}
	first := byte(1 + 2*world.Rank())
	data := make([]byte, 32) // four little-endian words
	for i := range 4 {
		data[8*i] = first + byte(i)
	}
	if err := group.Device().CopyToDevice(memory.Local(), data); err != nil {
		return err
	}
	if err := call.Enqueue(group.Stream()); err != nil {
		return err
	}
	if err := group.Wait(ctx); err != nil {
		return err
	}
	if err := group.Device().CopyToHost(data, memory.Local()); err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Printf("the average of [1 2 3 4] and [3 4 5 6] is %v\n", []byte{data[0], data[8], data[16], data[24]})
		fmt.Println("by", nvls.Instructions(collective.Uint64, collective.Avg))
	}
	if err := call.Close(); err != nil {
		return err
	}
	// All ranks free together.
	for _, c := range []interface{ Close(context.Context) error }{reducer, memory, group} {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	world.Finish(0)
	return nil
}

package collective_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"sync"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// A program adds up buffers of its own over all GPUs of a node: through the
// switch where that is possible, else by a ring, and it says which.
//
// Each rank runs the function rank. Here ranks are goroutines on the software
// device. Under mpirun, srun or mpiboot.Launch each is a process with the same
// lines, empty mpiboot.Options and Device "cuda".
func Example() {
	const ranks = 4
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
	// nvls-zero-copy two-shot 1x64
	// rank 0 has [10 20 30 40]
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
	// Symmetric memory: the same size on every rank, reachable by all.
	memory, err := group.Alloc(ctx, "gradients", 1<<20)
	if err != nil {
		return err
	}
	reducer, err := choose(ctx, group, memory)
	if err != nil {
		return err
	}
	// Planning is apart from running: a prepared call can be enqueued again and
	// again, also into a graph.
	buffer := memory.At(0)
	call, err := reducer.Prepare(collective.Call{Send: buffer, Recv: buffer, Count: 4, DType: collective.Int32, Op: collective.Sum})
	if err != nil {
		return err
	}
	n := uint32(world.Rank() + 1)
	data := make([]byte, 16)
	if _, err := binary.Encode(data, binary.LittleEndian, []uint32{n, 2 * n, 3 * n, 4 * n}); err != nil {
		return err
	}
	if err := group.Device().CopyToDevice(buffer.Local(), data); err != nil {
		return err
	}
	if err := call.Enqueue(group.Stream()); err != nil {
		return err
	}
	if err := group.Wait(ctx); err != nil {
		return err
	}
	if err := group.Device().CopyToHost(data, buffer.Local()); err != nil {
		return err
	}
	sums := make([]int32, 4)
	if _, err := binary.Decode(data, binary.LittleEndian, sums); err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Println(reducer.Mode(), call.Algorithm())
		fmt.Println("rank 0 has", sums)
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

// choose takes NVLS if it is there. All ranks get the same answer.
func choose(ctx context.Context, group *collective.Group, memory *collective.Memory) (collective.AllReducer, error) {
	if why := nvls.Available(ctx, group); why != nil {
		if group.Rank() == 0 {
			fmt.Println("a ring instead of NVLS:", why)
		}
		return fallback.NewRing(group, collective.Tuning{}), nil
	}
	z := nvls.NewZeroCopy(group, collective.Tuning{})
	return z, z.Register(ctx, memory)
}

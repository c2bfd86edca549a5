//go:build linux

package mpiboot_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// A rank from its first line to its last. Started by hand it is a world of one;
// under mpirun, srun or Launch the same lines serve every rank.
func Example() {
	ctx := context.Background()
	world, err := mpiboot.Join(ctx, mpiboot.Options{Launcher: mpiboot.LauncherNone})
	if err != nil {
		world.Abort(mpiboot.ExitCodeOf(err), err)
	}
	fmt.Printf("rank %d of %d on %d node(s)\n", world.Rank(), world.Size(), world.Nodes())

	// Every rank opens its GPU; all go on, or none does.
	node := world.Node()
	err = node.Vote(ctx, "open the device", nil)
	if err == nil {
		files, _ := node.ExchangeFiles(ctx, "memory handles", os.Stdout)
		fmt.Printf("%d descriptors, the own one is %v\n", len(files), files[node.Rank()])
	}

	code := world.Finish(mpiboot.ExitCodeOf(err))
	fmt.Println("exit code", code)
	// Output:
	// rank 0 of 1 on 1 node(s)
	// 1 descriptors, the own one is <nil>
	// exit code 0
}

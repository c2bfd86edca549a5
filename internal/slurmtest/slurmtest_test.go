//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/leftovers"
)

func TestMain(m *testing.M) {
	leftovers.Isolate()
	os.Exit(m.Run())
}

func TestStart(t *testing.T) {
	c := Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := c.Command(ctx, "srun", "-n3", "--label", "/bin/sh", "-c", "echo $SLURM_PROCID of $SLURM_STEP_NUM_TASKS").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"0: 0 of 3", "1: 1 of 3", "2: 2 of 3"} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err := c.Command(ctx, "srun", "-n1", "/bin/sh", "-c", "exit 7").Run(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("exit code of a task: %v, want 7", err)
	}
}

// A port belongs to one cluster, until its test has ended.
func TestReservePort(t *testing.T) {
	var port int
	t.Run("taken", func(t *testing.T) {
		port = reservePort(t)
		for range 100 {
			if other := reservePort(t); other == port {
				t.Fatalf("port %d was given twice", port)
			}
		}
		name := fmt.Sprintf("@slurmtest.port.%d", port)
		if l, err := net.Listen("unix", name); err == nil {
			l.Close()
			t.Errorf("%s is not held", name)
		}
	})
	l, err := net.Listen("unix", fmt.Sprintf("@slurmtest.port.%d", port))
	if err != nil {
		t.Errorf("the port is not given back: %v", err)
		return
	}
	l.Close()
}

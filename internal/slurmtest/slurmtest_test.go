//go:build linux

package slurmtest

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	c := Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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

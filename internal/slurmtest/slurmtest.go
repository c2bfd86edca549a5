//go:build linux

// Package slurmtest starts a Slurm of one node on this machine for the time of
// a test: munged, slurmctld and slurmd, with everything they write in a
// temporary directory and their ports on 127.0.0.1. Nothing of a Slurm that is
// installed for use here is read or touched. It needs no cgroups.
package slurmtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
)

// CPUs is how many tasks the node takes at once, whatever the machine has.
const CPUs = 8

// Cluster is a running Slurm.
type Cluster struct {
	Dir  string // of its files; removed after the test
	Conf string // slurm.conf, for SLURM_CONF
	Node string // name of the node
	// KillWait is the time from SIGTERM to SIGKILL for what Slurm ends: 10 s, longer
	// on a busy machine, by default 30 s.
	KillWait time.Duration
	logs     []string
}

// GPUs is how many the node claims to have. Requests for them are granted, but
// there are no devices, and CUDA_VISIBLE_DEVICES is not set.
const GPUs = 8

// Urgent is a partition whose jobs preempt those of the default one, which are
// then requeued.
const Urgent = "urgent"

// The configuration: one node of CPUs processors, scheduled at once. cred_expire
// is how long a job may take from its allocation to its start, which is long on a
// busy machine, and how long a requeued job waits; 120 s by default. Tests may run several
// clusters at once, and PMIx and user programs make folders that are named by job:
// hence a TmpFS and job numbers for each cluster.
var conf = template.Must(template.New("slurm.conf").Parse(`ClusterName=test
SlurmctldHost={{.Node}}(127.0.0.1)
SlurmctldPort={{.CtldPort}}
SlurmdPort={{.DPort}}
SlurmUser={{.User}}
SlurmdUser={{.User}}
AuthType=auth/munge
AuthInfo=socket={{.Dir}}/munge.sock,cred_expire=30
CredType=cred/munge
StateSaveLocation={{.Dir}}/state
SlurmdSpoolDir={{.Dir}}/spool
TmpFS={{.Dir}}/tmp
FirstJobId={{.CtldPort}}0
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
GresTypes=gpu
ReturnToService=2
KillWait={{.KillWait}}
InactiveLimit=0
MailProg=/bin/true
NodeName={{.Node}} NodeAddr=127.0.0.1 CPUs={{.CPUs}} Gres=gpu:{{.GPUs}} State=UNKNOWN
PartitionName=test Nodes={{.Node}} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName={{.Urgent}} Nodes={{.Node}} MaxTime=INFINITE State=UP PriorityTier=2
`))

// Start starts a cluster and waits until its node is idle. It ends with the
// test. Without Slurm on this machine the test is skipped (see Require).
func Start(t testing.TB) *Cluster {
	t.Helper()
	Require(t, "slurmctld", "slurmctld")
	Require(t, "slurmd", "slurmd")
	Require(t, "munge", "munged")
	Require(t, "slurm-client", "srun", "sbatch", "sinfo", "scancel")

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its long name would break the 108 bytes of a socket's path.
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	node, _, _ := strings.Cut(host, ".")
	c := &Cluster{Dir: dir, Conf: filepath.Join(dir, "slurm.conf"), Node: node, KillWait: min(programtest.Within(10*time.Second), 2*time.Minute).Truncate(time.Second)}
	for _, d := range []string{"state", "spool", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// munge's users reach its socket through the directory.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ports := [2]int{reservePort(t), reservePort(t)}
	var text bytes.Buffer
	if err := conf.Execute(&text, map[string]any{"Node": node, "User": me.Username, "Dir": dir, "CPUs": CPUs, "GPUs": GPUs, "Urgent": Urgent, "CtldPort": ports[0], "DPort": ports[1], "KillWait": int(c.KillWait.Seconds())}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Conf, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range GPUs {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("gpu", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gres := fmt.Sprintf("AutoDetect=off\nNodeName=%s Name=gpu File=%s/gpu[0-%d]\n", node, dir, GPUs-1)
	if err := os.WriteFile(filepath.Join(dir, "gres.conf"), []byte(gres), 0o644); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 128)
	rand.Read(key)
	if err := os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o400); err != nil {
		t.Fatal(err)
	}

	// --force: a directory below a world-writable /tmp is a warning, not an error.
	c.daemon(t, "munged", "--foreground", "--force", "--num-threads=2", "--socket="+dir+"/munge.sock", "--key-file="+dir+"/munge.key",
		"--pid-file="+dir+"/munged.pid", "--seed-file="+dir+"/munged.seed", "--log-file="+dir+"/munged.log")
	c.await(t, "munged's socket", func() bool {
		_, err := os.Stat(filepath.Join(dir, "munge.sock"))
		return err == nil
	})
	c.daemon(t, "slurmctld", "-D", "-f", c.Conf)
	c.daemon(t, "slurmd", "-D", "-f", c.Conf, "-N", node)
	c.await(t, "an idle node", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, err := c.Command(ctx, "sinfo", "-h", "-o", "%T").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
	t.Cleanup(func() {
		// So that no step outlives slurmd.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		c.Command(ctx, "scancel", "--user="+me.Username, "--signal=KILL", "--full").Run()
		c.Command(ctx, "scancel", "--user="+me.Username).Run()
	})
	return c
}

// Command prepares a client of this cluster (srun, sbatch, …). Variables that
// steer Slurm or the program are not passed on from the environment of the test.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	// A client that is killed may leave its tasks with the output.
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = programtest.Environ(nil, "SLURM_CONF="+c.Conf)
	return cmd
}

// RequireMPI skips the test where this Slurm cannot srun --mpi=kind. Debian has
// the plug-ins pmi2 and pmix in slurm-wlm-basic-plugins; the latter opens
// libpmix.so, which is in libpmix-dev.
func (c *Cluster) RequireMPI(t testing.TB, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := c.Command(ctx, "srun", "-n1", "--mpi="+kind, "true").CombinedOutput()
	switch {
	case err == nil:
	case bytes.Contains(out, []byte("cannot find mpi plugin")), bytes.Contains(out, []byte("Invalid MPI type")):
		Lack(t, "slurm-wlm-basic-plugins and, for pmix, libpmix-dev", fmt.Sprintf("srun --mpi=%s (%s)", kind, bytes.TrimSpace(out)))
	default:
		t.Fatalf("srun --mpi=%s: %v\n%s", kind, err, out)
	}
}

// daemon starts one in the foreground and kills it after the test, and with the
// test should that be killed.
func (c *Cluster) daemon(t testing.TB, name string, args ...string) {
	t.Helper()
	path, err := find(name)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(c.Dir, name+".out"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.logs = append(c.logs, log.Name())
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.dump(t)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		stop := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		defer stop.Stop()
		cmd.Wait()
	})
}

// patience is how long a part of the start, or one client, may take on a machine
// with other work.
const patience = 2 * time.Minute

// await waits for a part of the start.
func (c *Cluster) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("slurmtest: %s did not come within %v", what, patience)
		}
	}
}

// dump shows the daemons' last lines once.
func (c *Cluster) dump(t testing.TB) {
	for _, name := range c.logs {
		b, _ := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		t.Logf("%s:\n%s", filepath.Base(name), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	c.logs = nil
}

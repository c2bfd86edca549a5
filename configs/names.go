package configs

// The modes of a run, by the names that results carry.
const (
	ModeZeroCopy   = "nvls-zero-copy" // the buffers are bound to the multicast object
	ModeCopyIn     = "nvls-copy-in"   // staged through a bound staging buffer
	ModeRing       = "ring"
	ModeP2P        = "p2p" // one of those below at each size
	ModeP2POneShot = "p2p-one-shot"
	ModeP2PTwoShot = "p2p-two-shot"
	ModeP2PPacket  = "p2p-packet"
	ModeP2PPush    = "p2p-push"
	// ModeP2PPushBulk is p2p-push by bulk copies, where the GPUs have them.
	ModeP2PPushBulk = "p2p-push-bulk"
	ModeP2PCopyIn   = "p2p-copy-in"
	// ModeP2PCopyEngine moves by the GPUs' copy engines; for large messages.
	ModeP2PCopyEngine = "p2p-copy-engine"
	ModeAuto          = "auto" // the fastest that can run at each size
	ModeNCCL          = "nccl" // NCCL, measured beside the others
	// ModeNCCLSymmetric is NCCL on buffers of a symmetric window of its own.
	ModeNCCLSymmetric = "nccl-symmetric"
)

// All stands for every name in a list of modes, data types or operations. The
// modes it stands for are nvls-zero-copy, nvls-copy-in, ring and p2p.
const All = "all"

// ModeNames lists every mode that can be configured.
func ModeNames() []string {
	return []string{ModeZeroCopy, ModeCopyIn, ModeRing, ModeP2P, ModeP2POneShot,
		ModeP2PTwoShot, ModeP2PPush, ModeP2PPushBulk, ModeP2PPacket, ModeP2PCopyIn, ModeP2PCopyEngine, ModeNCCL, ModeNCCLSymmetric, ModeAuto}
}

const (
	FallbackNever = "never" // a mode that cannot run is an error
	FallbackAllow = "allow" // a mode that cannot run is replaced, and said so
)

const (
	DeviceAuto = "auto" // cuda; never simulated unasked
	DeviceCUDA = "cuda"
	DeviceSim  = "sim"
)

// How the times of the ranks become the one that is reported.
const (
	AverageRank0 = "rank0"
	AverageMean  = "mean"
	AverageMin   = "min"
	AverageMax   = "max"
)

const (
	MulticastAuto = "auto"
	MulticastOff  = "off" // no multicast entry point of the driver is resolved or called
)

// Launchers, by the names that package mpiboot gives them. LauncherAuto tells
// them by their environment variables.
const (
	LauncherAuto    = "auto"
	LauncherOpenMPI = "openmpi"
	LauncherMPICH   = "mpich"
	LauncherSlurm   = "slurm"
	LauncherLocal   = "local" // this program's own --np
	LauncherNone    = "none"  // a single rank
)

// choices gives the valid words of the keys that take one word.
var choices = map[string][]string{
	"run.fallback":       {FallbackNever, FallbackAllow},
	"run.device":         {DeviceAuto, DeviceCUDA, DeviceSim},
	"timing.average":     {AverageMean, AverageMin, AverageMax, AverageRank0},
	"nvls.multicast":     {MulticastAuto, MulticastOff},
	"bootstrap.launcher": {LauncherAuto, LauncherOpenMPI, LauncherMPICH, LauncherSlurm, LauncherLocal, LauncherNone},
}

package result

import (
	"slices"
	"strings"
	"time"
)

// State says how far a run came.
type State string

const (
	// Running is in a file written before the end. Found after the job, it means
	// that the program was killed without a chance to write again.
	Running State = "running"
	// Complete means that everything asked for was measured.
	Complete State = "complete"
	// Interrupted means that SIGTERM ended the run; rows before it are whole.
	Interrupted State = "interrupted"
	// Failed means that an error ended the run; the reason tells which.
	Failed State = "failed"
)

// Status is the end of a run.
type Status struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why not complete
}

// Run is one execution of the program.
type Run struct {
	Version string `json:"version"` // of the program
	// Tool measured the rows, with its version: "nccl-tests 2.19.6". It is ""
	// when this program did; else the run was imported from logs.
	Tool   string    `json:"tool,omitempty"`
	Status Status    `json:"status"`
	Start  time.Time `json:"start,omitzero"` // zero when an imported log does not tell
	End    time.Time `json:"end,omitzero"`
	ID     string    `json:"id"` // the run's unique id, 32 hexadecimal digits

	Host      string `json:"host"`                // of rank 0
	Container string `json:"container,omitempty"` // "apptainer", "singularity", "docker", …; "" for none
	Launcher  string `json:"launcher"`            // "openmpi", "hydra", "srun-pmix", "srun-pmi2", "local"
	MPI       string `json:"mpi,omitempty"`       // version and file of the library; "" without MPI
	Driver    string `json:"driver"`              // "CUDA 13.0, driver 580.159.04"
	// Libraries are the other libraries that did the work, with their versions:
	// "NCCL 2.28.9".
	Libraries []string `json:"libraries,omitempty"`

	// Name is what charts and reports call the run; "" leaves it to them.
	Name string `json:"name,omitempty"`
	// Notes say what a reader of the numbers must know: where they are from if
	// this program did not measure them, and how they were converted; what the
	// software device was made to do.
	Notes []string `json:"notes,omitempty"`

	WorldSize int `json:"world_size"`
	// Devices has one entry per rank, in rank order. That of an imported run may
	// be shorter: some logs name only some ranks.
	Devices []Device `json:"devices"`
	// Simulated is true when the device is software: no number is a measurement
	// of hardware.
	Simulated bool `json:"simulated"`
	// SharedGPU is true when ranks share a GPU: they run one after another, so
	// times are no measurement of an all-reduce.
	SharedGPU bool `json:"shared_gpu"`
	// LinkLimit is what one GPU's links were measured to carry in one direction
	// with all GPUs at work, in GB/s; 0 when not measured.
	LinkLimit float64 `json:"link_limit_gb_s,omitempty"`
	// LinkRates are the rates that LinkLimit is the largest of; nil when not
	// measured.
	LinkRates *LinkRates `json:"link_rates,omitempty"`

	Config map[string]string `json:"config,omitempty"` // effective configuration, "sweep.min_bytes": "1K"
	Args   []string          `json:"args,omitempty"`   // command line
	Env    map[string]string `json:"env,omitempty"`    // as filtered by Environ
	Sweep  Sweep             `json:"sweep"`

	Modes     []string   `json:"modes"` // as requested
	Decisions []Decision `json:"decisions,omitempty"`
	Memory    Memory     `json:"memory"`
	// MinBusBW is the required bus bandwidth in GB/s; 0 when none is required.
	MinBusBW float64 `json:"min_busbw_gb_s,omitempty"`

	Rows []Row `json:"rows"`
	// Predictions are what a tuning model expected, from NCCL's log. They are no
	// measurements and are in no total.
	Predictions []Prediction `json:"predictions,omitempty"`
}

// Device is the GPU of one rank.
type Device struct {
	Rank      int    `json:"rank"`
	LocalRank int    `json:"local_rank"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	// Ordinal is the device's number in the rank's own process; it means nothing
	// in another one.
	Ordinal           int     `json:"ordinal"`
	UUID              string  `json:"uuid"`
	Name              string  `json:"name"`
	PCI               string  `json:"pci,omitempty"` // domain:bus:device; "" for a software device
	ComputeCapability string  `json:"compute_capability"`
	SMs               int     `json:"sms"`
	MemoryBytes       uint64  `json:"memory_bytes"`
	Links             int     `json:"links,omitempty"`             // active NVLinks; 0 when not known
	LinkPeak          float64 `json:"link_peak_bytes_s,omitempty"` // bytes/s of all links, one direction; 0 when not known
}

// LinkRates are what one GPU's links carried in one direction, in GB/s, while all
// ranks moved data to or from the next rank and did nothing else.
type LinkRates struct {
	Store float64 `json:"store_gb_s"` // stores of the SMs to the peer
	// BulkStore is of bulk copies from shared memory to the peer; 0 when the GPUs
	// have none, and in results from before it was measured.
	BulkStore float64 `json:"bulk_store_gb_s,omitempty"`
	Load      float64 `json:"load_gb_s"` // loads of the SMs from the peer
	Copy      float64 `json:"copy_gb_s"` // the copy engine
}

// Sweep is what was asked to be measured.
type Sweep struct {
	MinBytes   uint64  `json:"min_bytes"`
	MaxBytes   uint64  `json:"max_bytes"`
	StepBytes  uint64  `json:"step_bytes,omitempty"`  // additive step, when StepFactor is 0
	StepFactor float64 `json:"step_factor,omitempty"` // multiplicative step
	Warmup     int     `json:"warmup"`
	Iters      int     `json:"iters"`
	Check      int     `json:"check"` // checked operations a size; 0 = not checked
	Graph      int     `json:"graph"` // graph launches a size; 0 = no graph
	Cycles     int     `json:"cycles"`
}

// Decision records which mode ran where, and why.
type Decision struct {
	// SizeBytes is the message size that the decision is for; 0 for all sizes.
	SizeBytes uint64 `json:"size_bytes,omitempty"`
	Requested string `json:"requested"`
	Chosen    string `json:"chosen"` // "" when nothing ran
	Reason    string `json:"reason"`
}

// choosing is the mode that has others run; every other mode runs itself or is
// replaced.
const choosing = "auto"

// Outcome is what came of what was asked for, in words: "replaced by ring", "not
// run", or what auto chose.
func (d Decision) Outcome() string {
	switch {
	case d.Chosen == "":
		return "not run"
	case d.Requested == choosing, d.Requested == d.Chosen:
		return d.Chosen
	}
	return "replaced by " + d.Chosen
}

// Memory is the device memory that one rank used, in bytes.
type Memory struct {
	Buffers   uint64 `json:"buffers_bytes"`   // send, receive and expected data
	Staging   uint64 `json:"staging_bytes"`   // copy-in and packet buffers
	Control   uint64 `json:"control_bytes"`   // barrier counters, status words
	Multicast uint64 `json:"multicast_bytes"` // address range of multicast objects, no memory of its own

	// NCCLBuffers are send and receive data that NCCL allocated for
	// nccl-symmetric.
	NCCLBuffers uint64 `json:"nccl_buffers_bytes,omitempty"`
	// NCCL is what NCCL took beside buffers, all its modes together: by rank 0's
	// free memory before and after each of its calls.
	NCCL uint64 `json:"nccl_bytes,omitempty"`
}

// DeviceName names the run's GPUs: each different name once, in rank order.
func (r *Run) DeviceName() string {
	var names []string
	for _, d := range r.Devices {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, " + ")
}

// MPIName is MPI's name and version without the file that it was opened from,
// which is for a list of the environment and too long for a heading.
func (r *Run) MPIName() string {
	name := r.MPI
	if i := strings.LastIndex(name, " ("); i > 0 && strings.HasSuffix(name, ")") && strings.ContainsAny(name[i:], "/.") {
		name = name[:i]
	}
	return strings.Replace(name, " Version: ", " ", 1) // as MPICH says it
}

// LinkPeak is the smallest known link peak of the run's GPUs in bytes per
// second and one direction: the slowest link bounds the all-reduce. It is 0 when
// the peak of any GPU is unknown.
func (r *Run) LinkPeak() float64 {
	if len(r.Devices) == 0 {
		return 0
	}
	peak := r.Devices[0].LinkPeak
	for _, d := range r.Devices {
		peak = min(peak, d.LinkPeak)
	}
	return peak
}

// Labels are the words that must stand beside every number of this run: none
// for a measurement, SIMULATED, SHARED GPU, or both.
func (r *Run) Labels() []string {
	var l []string
	if r.Simulated {
		l = append(l, "SIMULATED")
	}
	if r.SharedGPU {
		l = append(l, "SHARED GPU - NOT A MEASUREMENT")
	}
	return l
}

// Label joins Labels by commas.
func (r *Run) Label() string { return strings.Join(r.Labels(), ", ") }

//go:build linux

package doctor

import (
	"encoding/json"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// What a probe process is asked to do.
const (
	askPeers     = "peers"
	askMulticast = "multicast"
	// Those of the modes' names.
	askNCCL          = configs.ModeNCCL
	askNCCLSymmetric = configs.ModeNCCLSymmetric
)

// request is what a probe process gets as its last argument.
type request struct {
	Ask        string
	Device     string // "cuda" or "sim"
	SimDevices int
	ShareGPU   bool
	Multicast  string // the configuration's key
	SocketDir  string
	NCCL       string        // file of libnccl, "" to search
	Join       time.Duration // longest wait for another probe process
	Kernel     time.Duration // longest wait of a kernel for its peers, and for a bind
}

// answer is one line of a probe process: what it is about to do, or, as the last
// one, how it ended.
type answer struct {
	Stage string  `json:",omitempty"`
	End   *ending `json:",omitempty"`
}

// ending is the result of a probe process.
type ending struct {
	OK   bool
	Text string       // the error
	Code failure.Code // of the error
	Do   string
	By   failure.Who
	// Broken lists pairs of GPUs between which data did not arrive.
	Broken []string `json:",omitempty"`
	// Done are the steps that were carried out, in words.
	Done []string
	// FreeBytes and TotalBytes are of the device's memory, before the probe; 0 where
	// the driver did not tell, for the reason MemoryText.
	FreeBytes, TotalBytes uint64
	MemoryText            string `json:",omitempty"`
	// FabricCode is the driver's answer to a request for a FABRIC handle, -1 when
	// it was not asked.
	FabricCode int
	FabricText string
}

func (r request) argument() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(b)
}
